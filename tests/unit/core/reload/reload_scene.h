/* A sandbox whose code is changed, for tests of the daemon's half of a reload: builds in a real registry, a request's
   answer, and the words of a played agent. */
#ifndef TEST_RELOAD_SCENE_H
#define TEST_RELOAD_SCENE_H

#include "core/registry_scene.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "core/queue.h"
#include "core/reload/reload_job.h"
#include "core/sandbox/tree.h"

enum { PEER_FD = 0 }; /* stands for the caller's socket */

struct reload_scene {
    struct scene *scene;
    struct sandbox *sandbox;
    char one[STORE_DIGEST_BYTES];   /* runs at first: m is of version 1 */
    char two[STORE_DIGEST_BYTES];   /* m has changed */
    char other[STORE_DIGEST_BYTES]; /* as the first, with another file beside */
    json_t *result;                 /* of the last answer */
    struct error error;             /* of the last answer */
};

/* ---- builds ---- */

static inline void on_put(void *data, const char *digest, const struct error *error) {
    if (error) fail_msg("%s", error->detail);
    memcpy(data, digest, STORE_DIGEST_BYTES);
}

static inline void put_build(struct scene *scene, const char *code, const char *note, char ret[STORE_DIGEST_BYTES]) {
    json_t *facts = json_pack("{s:[{s:s, s:s, s:s, s:[{s:s, s:s}], s:[]}], s:[{s:s}], s:[s], s:i}", "sources", "file",
                              "m.erl", "app", "app", "digest", "d", "modules", "module", "m", "checksum", code,
                              "runtime", "apps", "name", "app", "modules", "m", "bytes", 100);
    CLEANUP_FREE char *text = json_dumps(facts, JSON_COMPACT);
    struct store_file files[] = {
        {BUILD_FACTS_FILE, text, strlen(text), NULL},
        {BUILD_BRIEF_FILE, text, strlen(text), NULL},
        {"app/ebin/m.beam", code, strlen(code), NULL},
        {"app/ebin/app.app", note, strlen(note), NULL},
    };
    store_put_build(scene->engine.store, NULL, files, ARRAY_SIZE(files), on_put, ret);
    RUN_UNTIL(scene->stage, ret[0] != '\0');
    json_decref(facts);
}

static inline void assert_runs(const struct reload_scene *test, const char *digest) {
    assert_string_equal(test->sandbox->code.build.digest, digest);
}

/* ---- the scene ---- */

static inline void equip_engine(struct scene *scene) {
    struct engine *engine = &scene->engine;
    engine->config.home = scene->stage->home;
    engine->host.loop = engine->loop;
    engine->host.link = scene->stage->host.link;
    /* A toolchain that was probed, and whose VM is there. */
    struct toolchain *toolchain = &scene->sandbox->toolchain->toolchain;
    strcpy(toolchain->boot_dir, "/b");
    snprintf(toolchain->erts_bin, sizeof toolchain->erts_bin, "%s", scene->stage->home);
    CLEANUP_FREE char *vm = string_print("%s/beam.smp", scene->stage->home);
    CLEANUP_FD int fd = open(vm, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    assert_true(fd >= 0);
    strcpy(toolchain->otp_release, "28");
}

static inline int open_scene(void **state) {
    struct reload_scene *test = calloc(1, sizeof *test);
    void *scene;
    struct error error;
    set_up(&scene);
    test->scene = scene;
    test->sandbox = test->scene->sandbox;
    equip_engine(test->scene);
    put_build(test->scene, "one", "", test->one);
    put_build(test->scene, "two", "", test->two);
    put_build(test->scene, "one", "note", test->other);
    struct sandbox *sandbox = test->sandbox;
    assert_int_equal(build_read(test->scene->engine.store, test->one, &sandbox->code.build, &error), 0);
    sandbox->config.source = strdup("/project");
    sandbox->code.is_known = true;
    sandbox->node->handler = tree_node_handler;
    sandbox->node->data = sandbox;
    *state = test;
    return 0;
}

static inline int close_scene(void **state) {
    struct reload_scene *test = *state;
    void *scene = test->scene;
    assert_null(test->sandbox->queue.jobs); /* each test ends its reload */
    assert_null(test->sandbox->code.reload);
    json_decref(test->result);
    if (test->scene->stage->project_fd > 0) close(test->scene->stage->project_fd);
    int result = tear_down(&scene);
    free(test);
    return result;
}

/* ---- asking ---- */

static inline void on_answered(struct request *request, json_t *result, const struct error *error) {
    struct reload_scene *test = request->transport;
    buf_printf(&test->scene->stage->story, "%s ", error ? error_kind(error->code)->slug : "ok");
    json_decref(test->result);
    test->result = result;
    test->error = error ? *error : (struct error){0};
    json_decref(request->params);
    free(request);
}

static inline struct request *new_request(struct reload_scene *test, const char *params) {
    struct request *request = calloc(1, sizeof *request);
    *request = (struct request){.params = json_loads(params, 0, NULL),
                                .caller = {.role = ROLE_ADMIN, .peer_fd = PEER_FD},
                                .done = on_answered,
                                .transport = test};
    assert_non_null(request->params);
    return request;
}

/* A change to the second build, which needs no sources. */
static inline void change_to(struct reload_scene *test, const char *digest, const char *params) {
    reload_to_build(&test->scene->engine, new_request(test, params), digest);
}

static inline uint64_t take_call(struct reload_scene *test, const char *op) {
    return agent_take_call(test->scene->stage, test->scene->agent, op);
}

static inline void expect_answer(struct reload_scene *test, const char *answer) {
    RUN_UNTIL(test->scene->stage, test->scene->stage->story.size > 0);
    stage_expect(test->scene->stage, answer);
}

static inline const char *status_of(const struct reload_scene *test) {
    const char *status = json_string_value(json_object_get(test->result, "status"));
    return status ? status : "";
}

/* ---- the agent ---- */

static inline void begin_reply(struct buf *reply, uint64_t id, const char *outcome, size_t members) {
    term_put_version(reply);
    term_put_tuple(reply, 3);
    term_put_atom(reply, "reply");
    term_put_uint64(reply, id);
    term_put_tuple(reply, 2);
    term_put_atom(reply, outcome);
    term_put_map(reply, members);
}

static inline void put_atom_member(struct buf *term, const char *key, const char *value) {
    term_put_atom(term, key);
    term_put_atom(term, value);
}

static inline void reply_reloaded(struct reload_scene *test, uint64_t id) {
    struct buf reply = BUF_INIT;
    begin_reply(&reply, id, "ok", 1);
    put_atom_member(&reply, "status", "hot_reloaded");
    agent_send(test->scene->agent, &reply);
}

static inline void reply_failed(struct reload_scene *test, uint64_t id, const char *kind, const char *step) {
    struct buf reply = BUF_INIT;
    begin_reply(&reply, id, "error", 3);
    put_atom_member(&reply, "kind", kind);
    put_atom_member(&reply, "step", step);
    term_put_atom(&reply, "message");
    term_put_string(&reply, "no");
    agent_send(test->scene->agent, &reply);
}

/* How the transaction on probation ended. */
static inline void tell_settled_because(struct reload_scene *test, const char *outcome, const char *reason) {
    struct buf event = BUF_INIT;
    term_put_version(&event);
    term_put_tuple(&event, 3);
    term_put_atom(&event, "event");
    term_put_atom(&event, "reload_settled");
    term_put_map(&event, 3);
    term_put_atom(&event, "id");
    term_put_string(&event, test->sandbox->code.probation.id);
    put_atom_member(&event, "outcome", outcome);
    term_put_atom(&event, "reason");
    term_put_string(&event, reason);
    agent_send(test->scene->agent, &event);
}

static inline void tell_settled(struct reload_scene *test, const char *outcome) {
    tell_settled_because(test, outcome, "it crashed");
}

#endif
