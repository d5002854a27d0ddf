/* Answers wait for the next turn of the loop, so that no transport is called back from inside its own call. */
#include "core/core_internal.h"

static void on_turn(uv_timer_t *timer) {
    struct engine *engine = timer->data;
    struct answer *answer = engine->answers;
    engine->answers = NULL;
    engine->answers_tail = &engine->answers;
    while (answer) {
        struct answer *next = answer->next;
        const struct error *error = answer->failed ? &answer->error : NULL;
        audited_end(answer->request, error);
        answer->request->done(answer->request, answer->result, error);
        free(answer);
        answer = next;
    }
    engine_try_close(engine);
}

void engine_wake(struct engine *engine) {
    if (engine->close_wanted) uv_timer_start(&engine->answer_timer, on_turn, 0, 0);
}

static void queue_answer(struct engine *engine, struct request *request, json_t *result, const struct error *error) {
    struct answer *answer = calloc(1, sizeof *answer);
    if (!answer) abort(); /* a daemon that can't even say so is better started again: it loses nothing by that */
    request->cancel = NULL;
    request->more = NULL;
    *answer = (struct answer){.request = request, .result = result, .failed = error != NULL};
    if (error) answer->error = *error;
    *engine->answers_tail = answer;
    engine->answers_tail = &answer->next;
    uv_timer_start(&engine->answer_timer, on_turn, 0, 0);
}

void answer_ok(struct engine *engine, struct request *request, json_t *result) {
    queue_answer(engine, request, result, NULL);
}

void answer_error(struct engine *engine, struct request *request, const struct error *error, json_t *result) {
    queue_answer(engine, request, result, error);
}

void answer_fail(struct engine *engine, struct request *request, enum error_code code, const char *format, ...) {
    struct error error;
    va_list arguments;
    va_start(arguments, format);
    error_setv(&error, code, format, arguments);
    va_end(arguments);
    queue_answer(engine, request, NULL, &error);
}
