/* A thread of the pool, not the loop, reads the long answers of nodes: those of top, of a reload and of a start. So it
   does the configuration that a project is started with. */
#include "core/registry_scene.h"

#include <sys/stat.h>

#include "core/queue.h"
#include "core/reload/reload_job.h"
#include "core/sandbox/tree.h"
#include "reads.h"
#include "terms.h"

/* An answer of so many rows, under each of these keys. */
static void reply_rows(int agent, uint64_t id, const char *outcome, const char *const *keys, size_t key_count,
                       const char *row_json) {
    struct buf reply = BUF_INIT;
    json_t *row = json_loads(row_json, 0, NULL);
    assert_non_null(row);
    term_put_version(&reply);
    term_put_tuple(&reply, 3);
    term_put_atom(&reply, "reply");
    term_put_uint64(&reply, id);
    term_put_tuple(&reply, 2);
    term_put_atom(&reply, outcome);
    term_put_map(&reply, key_count);
    for (size_t i = 0; i < key_count; i++) {
        term_put_atom(&reply, keys[i]);
        term_put_list(&reply, READS_MANY / 2);
        for (size_t k = 0; k < READS_MANY / 2; k++) term_put_json(&reply, row);
        term_put_nil(&reply);
    }
    json_decref(row);
    agent_send(agent, &reply);
}

static struct request *new_request(struct scene *scene, json_t *params) {
    struct request *request = calloc(1, sizeof *request);
    *request = (struct request){
        .params = params, .caller = {.role = ROLE_ADMIN, .peer_fd = -1}, .done = on_done, .transport = scene};
    return request;
}

static void await_outcome(struct scene *scene, const char *outcome) {
    RUN_UNTIL(scene->stage, scene->stage->story.size > 0);
    stage_expect(scene->stage, outcome);
    assert_read_off_loop();
}

static void await_ok(struct scene *scene) {
    await_outcome(scene, "ok ");
}

static void test_top(void **state) {
    struct scene *scene = *state;
    static const char *const keys[] = {"processes"};
    engine_top(&scene->engine, new_request(scene, json_pack("{s:s, s:s, s:i}", "id", "s", "by", "memory", "count", 5)));
    uint64_t id = agent_take_call(scene->stage, scene->agent, "top");
    reads_begin();
    reply_rows(scene->agent, id, "ok", keys, ARRAY_SIZE(keys), "{\"name\": \"a\", \"reductions\": 7}");
    await_ok(scene);
}

static uint64_t ask_reload(struct scene *scene) {
    struct request *request = new_request(scene, json_pack("{s:s, s:b}", "id", "s", "dry_run", true));
    struct reload_job *reload = reload_new(scene->sandbox, request);
    reload->compared.call_map = transaction_begin(&reload->compared.call, &(struct change_set){0}, NULL);
    reload->steps.at = RELOAD_CALL; /* what comes before is done */
    job_submit(&reload->job);
    uint64_t id = agent_take_call(scene->stage, scene->agent, "reload");
    reads_begin();
    return id;
}

static void test_reload(void **state) {
    struct scene *scene = *state;
    static const char *const keys[] = {"processes", "children"};
    uint64_t id = ask_reload(scene);
    reply_rows(scene->agent, id, "ok", keys, ARRAY_SIZE(keys), "{\"pid\": \"a\"}");
    await_ok(scene);
}

/* A node chooses how long its reasons are, too. */
static void test_failed_reload(void **state) {
    struct scene *scene = *state;
    static const char *const keys[] = {"holders"};
    uint64_t id = ask_reload(scene);
    reply_rows(scene->agent, id, "error", keys, ARRAY_SIZE(keys), "{\"pid\": \"a\", \"where\": \"b\"}");
    await_outcome(scene, "runtime_error ");
}

static void on_started(void *data, const struct error *error) {
    struct sandbox *sandbox = data;
    assert_null(error);
    sandbox->ending.is_destroying = true;
}

/* ---- what a start reads ---- */

static atomic_size_t files_by_loop, files_by_others;

int __real_file_load(const char *path, size_t max_bytes, uint8_t **ret, size_t *ret_size, struct error *reterr);
int __wrap_file_load(const char *path, size_t max_bytes, uint8_t **ret, size_t *ret_size, struct error *reterr);
int __wrap_file_load(const char *path, size_t max_bytes, uint8_t **ret, size_t *ret_size, struct error *reterr) {
    atomic_fetch_add(pthread_equal(pthread_self(), reads_loop_thread) ? &files_by_loop : &files_by_others, 1);
    return __real_file_load(path, max_bytes, ret, ret_size, reterr);
}

/* A project chooses how long its configuration is. */
static void test_configuration(void **state) {
    struct scene *scene = *state;
    struct sandbox *sandbox = scene->sandbox;
    scene->engine.config.boot_deadline_ms = 60000;
    scene->engine.host.loop = scene->engine.loop;
    sandbox->code.build.facts = json_pack("{s:b}", "has_config", true);
    memset(sandbox->code.build.digest, 'a', STORE_DIGEST_BYTES - 1);
    CLEANUP_FREE char *build = string_print("%s/store/builds/%s", scene->stage->home, sandbox->code.build.digest);
    assert_int_equal(mkdir(build, 0700), 0);
    sandbox->tree.started = on_started;
    sandbox->tree.started_data = sandbox;
    reads_begin();
    tree_node_handler.ready(sandbox, sandbox->node);
    agent_take_call(scene->stage, scene->agent, "start");
    assert_int_equal(files_by_loop, 0);
    assert_int_equal(files_by_others, 1);
    assert_int_equal(scene->engine.asking, 0);
    assert_int_equal(rmdir(build), 0);
    sandbox->tree.started = NULL;
}

/* It tells which states the tree did not take. */
static void test_start(void **state) {
    struct scene *scene = *state;
    struct sandbox *sandbox = scene->sandbox;
    struct kept_states states = {0};
    static const char *const keys[] = {"lost"};
    scene->engine.config.boot_deadline_ms = 60000;
    sandbox->tree.started = on_started;
    sandbox->tree.started_data = sandbox;
    sandbox->tree.states = &states;
    sandbox->metering.next_ms = UINT64_MAX; /* it is measured already, as far as it knows */
    tree_node_handler.ready(sandbox, sandbox->node);
    uint64_t id = agent_take_call(scene->stage, scene->agent, "start");
    reads_begin();
    reply_rows(scene->agent, id, "ok", keys, ARRAY_SIZE(keys), "{\"path\": [\"a\"], \"reason\": \"b\"}");
    RUN_UNTIL(scene->stage, sandbox->ending.is_destroying);
    assert_read_off_loop();
    assert_int_equal(states.lost_count, READS_MANY / 2);
    sandbox->tree.states = NULL;
    states_free(&states);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_top, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reload, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_reload, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_configuration, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
