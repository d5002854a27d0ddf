/* The engine's functions for tests of the api: each records its request and answers as the test says. */
#include "stand_in_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void on_idle(uv_idle_t *idle) {
    struct engine *engine = idle->data;
    struct held_list answers = STAILQ_HEAD_INITIALIZER(answers);
    STAILQ_CONCAT(&answers, &engine->answers);
    while (!STAILQ_EMPTY(&answers)) {
        struct held *held = STAILQ_FIRST(&answers);
        STAILQ_REMOVE_HEAD(&answers, link);
        held->request->done(held->request, held->result, held->error.code == E_NONE ? NULL : &held->error);
        free(held);
    }
    if (STAILQ_EMPTY(&engine->answers)) uv_idle_stop(idle);
}

void stand_in_init(struct engine *engine, uv_loop_t *loop) {
    *engine = (struct engine){.list_size = 5};
    STAILQ_INIT(&engine->answers);
    uv_idle_init(loop, &engine->idle);
    engine->idle.data = engine;
}

void stand_in_close(struct engine *engine) {
    uv_close((uv_handle_t *)&engine->idle, NULL);
}

void stand_in_answer(struct engine *engine, struct request *request, json_t *result, enum error_code code) {
    struct held *held = calloc(1, sizeof *held);
    held->request = request;
    held->result = result;
    if (code != E_NONE) error_set(&held->error, code, "the test said so");
    STAILQ_INSERT_TAIL(&engine->answers, held, link);
    uv_idle_start(&engine->idle, on_idle);
}

static void note(struct engine *engine, struct request *request) {
    engine->started++;
    engine->last_caller = request->caller;
    request->state = engine;
    size_t size =
        json_dumpb(request->params, engine->last_params, sizeof engine->last_params - 1, JSON_COMPACT | JSON_SORT_KEYS);
    engine->last_params[size < sizeof engine->last_params ? size : 0] = '\0';
}

static const char *id_of(const struct request *request) {
    const char *id = json_string_value(json_object_get(request->params, "id"));
    return id ? id : "";
}

static void on_cancel(struct request *request) {
    struct engine *engine = request->state;
    engine->cancelled++;
    if (engine->open_stream == request) engine->open_stream = NULL;
    request->cancel = NULL;
    stand_in_answer(engine, request, NULL, E_TIMEOUT);
}

static void burn(unsigned us) {
    clock_t end = clock() + (clock_t)us * CLOCKS_PER_SEC / 1000000;
    while (us > 0 && clock() < end) {
    }
}

static void answer_info(struct engine *engine, struct request *request) {
    note(engine, request);
    burn(engine->burn_us);
    if (strcmp(id_of(request), "missing") == 0)
        stand_in_answer(engine, request, NULL, E_NOT_FOUND);
    else if (strcmp(id_of(request), "held") == 0)
        engine->last = request;
    else
        stand_in_answer(engine, request, json_pack("{s:s, s:s}", "id", id_of(request), "status", "running"), E_NONE);
}

static void answer_list(struct engine *engine, struct request *request) {
    note(engine, request);
    json_t *list = json_array();
    for (size_t i = 0; i < engine->list_size; i++) {
        char id[32];
        snprintf(id, sizeof id, "s%04zu", i);
        json_array_append_new(list, json_pack("{s:s}", "id", id));
    }
    stand_in_answer(engine, request, list, E_NONE);
}

static void answer_create(struct engine *engine, struct request *request) {
    note(engine, request);
    engine->created++;
    if (strcmp(id_of(request), "broken") == 0)
        stand_in_answer(engine, request,
                        json_pack("{s:s, s:[{s:s, s:i}]}", "status", "failed", "errors", "file", "lib/a.ex", "line", 3),
                        E_COMPILE);
    else if (strcmp(id_of(request), "unlucky") == 0)
        stand_in_answer(engine, request, NULL, E_LAUNCHER);
    else if (strcmp(id_of(request), "held") == 0)
        engine->last = request;
    else
        stand_in_answer(engine, request, json_pack("{s:s, s:i}", "id", id_of(request), "n", (int)engine->created),
                        E_NONE);
}

static void answer_eval(struct engine *engine, struct request *request) {
    note(engine, request);
    request->cancel = on_cancel;
    engine->last = request;
}

static void answer_events(struct engine *engine, struct request *request) {
    note(engine, request);
    request->cancel = on_cancel;
    engine->open_stream = request;
}

static void answer_logs(struct engine *engine, struct request *request) {
    note(engine, request);
    for (int i = 1; i <= 3; i++) request->item(request, json_pack("{s:i}", "line", i));
    stand_in_answer(engine, request, json_pack("{s:i}", "lines", 3), E_NONE);
}

static void answer_run(struct engine *engine, struct request *request) {
    note(engine, request);
    stand_in_answer(engine, request, NULL, E_COMPILE);
}

static void answer_empty(struct engine *engine, struct request *request) {
    note(engine, request);
    stand_in_answer(engine, request, json_object(), E_NONE);
}

void engine_carry_out(struct engine *engine, const struct audit_subject *subject, struct request *request,
                      engine_fn *run) {
    (void)subject;
    run(engine, request);
}

void engine_refuse(struct engine *engine, const struct audit_subject *subject, struct request *request,
                   const struct error *error) {
    (void)engine, (void)subject;
    request->done(request, NULL, error);
}

static void answer_profiles(struct engine *engine, struct request *request) {
    note(engine, request);
    stand_in_answer(engine, request,
                    json_pack("[{s:s}, {s:s}, {s:s}]", "name", "high", "name", "medium", "name", "low"), E_NONE);
}

/* Operations without an answer of their own above answer an empty object. */
static void answer(const char *name, struct engine *engine, struct request *request) {
    static const struct {
        const char *name;
        engine_fn *answer;
    } special[] = {
        {"info", answer_info},     {"list", answer_list}, {"create", answer_create}, {"eval", answer_eval},
        {"events", answer_events}, {"logs", answer_logs}, {"run", answer_run},       {"profiles", answer_profiles},
    };
    for (size_t i = 0; i < ARRAY_SIZE(special); i++) {
        if (strcmp(special[i].name, name) != 0) continue;
        special[i].answer(engine, request);
        return;
    }
    answer_empty(engine, request);
}

#define X(name)                                                                                                        \
    void engine_##name(struct engine *engine, struct request *request) {                                               \
        answer(#name, engine, request);                                                                                \
    }
ENGINE_OPS(X)
#undef X
