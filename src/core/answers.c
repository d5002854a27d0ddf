/* Answers wait for the next turn of the loop, so that no transport is called back from inside its own call. When many
   are ready at once they are given out over several turns. */
#include "core/core_internal.h"

static void give(struct engine *engine, struct answer *answer) {
    const struct error *error = answer->failed ? &answer->error : NULL;
    engine->answers = answer->next;
    if (!engine->answers) engine->answers_tail = &engine->answers;
    loop_note(engine->loop, "answer", NULL);
    audited_end(answer->request, error);
    request_over(engine, answer->request);
    answer->request->done(answer->request, answer->result, error);
    free(answer);
}

static void on_turn(uv_idle_t *idle) {
    struct engine *engine = idle->data;
    do {
        if (engine->answers) give(engine, engine->answers);
    } while (engine->answers && !loop_turn_is_full(engine->loop));
    if (!engine->answers) uv_idle_stop(idle);
    engine_try_close(engine);
}

void engine_wake(struct engine *engine) {
    if (engine->close_wanted) uv_idle_start(&engine->answer_idle, on_turn);
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
    uv_idle_start(&engine->answer_idle, on_turn);
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
