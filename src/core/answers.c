/* Answers wait for the next turn of the loop, so that no transport is called back from inside its own call. When many
   are ready at once they are given out over several turns: those whom no quota binds have theirs first, the other users
   have theirs by turns. Each turn of the loop has a slice for answers, however much was asked in it. */
#include "core/core_internal.h"
#include "core/policy/audit.h"

enum {
    GIVEN_AT_LEAST = 4,      /* in each turn, also when the slice passed while the thread waited for a processor */
    WORKED_NS = 1000 * 1000, /* but not when it was the answers that took so long */
};

void answers_init(struct answers *answers) {
    fair_init(&answers->first);
    fair_init(&answers->others);
}

bool answers_are_waiting(const struct answers *answers) {
    return answers->first.count + answers->others.count > 0;
}

static struct answer *take_next(struct answers *answers) {
    struct fair_item *item = fair_take(&answers->first, NULL, NULL);
    if (!item) item = fair_take(&answers->others, NULL, NULL);
    return (struct answer *)item;
}

enum { LIST_LONG = 100 };

static void release(void *list) {
    json_decref(list);
}

static void make_result(struct engine *engine, struct answer *answer) {
    answer->result = answer->make(engine, answer->request, &answer->error);
    answer->failed = !answer->result;
}

static void give(struct engine *engine, struct answer *answer) {
    loop_note(engine->loop, "answer", NULL);
    if (answer->make) make_result(engine, answer);
    const struct error *error = answer->failed ? &answer->error : NULL;
    audited_end(answer->request, error);
    request_over(engine, answer->request);
    json_t *long_list = json_array_size(answer->result) > LIST_LONG ? json_incref(answer->result) : NULL;
    answer->request->done(answer->request, answer->result, error);
    if (long_list) loop_discard(engine->loop, release, long_list); /* a page is cut out of it, and the rest is free */
    free(answer);
}

static bool is_enough(const struct engine *engine, size_t given, uint64_t begun_ns, uint64_t begun_cpu_ns) {
    if (given == 0 || !loop_slice_is_over(engine->loop, LOOP_TURN_FULL_US, begun_ns)) return false;
    return given >= GIVEN_AT_LEAST || loop_cpu_ns() - begun_cpu_ns > WORKED_NS;
}

static void on_turn(uv_idle_t *idle) {
    struct engine *engine = idle->data;
    uint64_t begun_ns = uv_hrtime(), begun_cpu_ns = loop_cpu_ns();
    struct answer *answer;
    for (size_t given = 0; !is_enough(engine, given, begun_ns, begun_cpu_ns); given++) {
        answer = take_next(&engine->answers);
        if (!answer) break;
        give(engine, answer);
    }
    if (!answers_are_waiting(&engine->answers)) uv_idle_stop(idle);
    engine_try_close(engine);
}

void engine_wake(struct engine *engine) {
    if (engine->closing.is_wanted) uv_idle_start(&engine->answer_idle, on_turn);
}

static struct answer *queue_answer(struct engine *engine, struct request *request, json_t *result,
                                   const struct error *error) {
    struct answer *answer = new_or_abort(struct answer);
    request->cancel = NULL;
    request->more = NULL;
    *answer = (struct answer){.request = request, .result = result, .failed = error != NULL};
    if (error) answer->error = *error;
    uid_t uid = request->caller.uid;
    bool is_bound = quotas_is_bound(engine->config.quotas, uid);
    uid_t principal = quotas_principal(engine->config.quotas, uid);
    if (!fair_put(is_bound ? &engine->answers.others : &engine->answers.first, principal, &answer->item)) abort();
    uv_idle_start(&engine->answer_idle, on_turn);
    return answer;
}

void answer_made(struct engine *engine, struct request *request, answer_make_fn *make) {
    queue_answer(engine, request, NULL, NULL)->make = make;
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
