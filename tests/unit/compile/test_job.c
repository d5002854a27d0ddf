/* A compilation whose node is played: its large answers are made use of beside the loop. */
#include "node/stage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compile/job.h"
#include "reads.h"
#include "terms.h"

enum { EXTRA_BYTES = 64 << 20 }; /* that its compilations ask for, over what is usual */

struct scene {
    struct stage *stage;
    struct quota_rules rules;
    struct quotas *quotas;
    struct store *store;
    struct compiler *compiler;
    struct compile_job *job; /* until it is done */
    int folder, agent;
    bool is_done, is_store_closed;
    enum error_code failed;
    json_t *report;
};

static void on_wake(void *data) {
    (void)data;
}

static void on_store_closed(void *data) {
    ((struct scene *)data)->is_store_closed = true;
}

static void on_done(void *data, const char *digest, json_t *report, const struct error *error) {
    struct scene *scene = data;
    assert_int_equal(digest == NULL, error != NULL);
    scene->job = NULL;
    scene->is_done = true;
    scene->failed = error ? error->code : E_NONE;
    scene->report = report;
}

/* A project of one file. */
static void make_project(struct scene *scene) {
    char path[128];
    snprintf(path, sizeof path, "%s/project", scene->stage->home);
    assert_int_equal(mkdir(path, 0755), 0);
    scene->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int file = openat(scene->folder, "a.erl", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(file >= 0);
    close(file);
}

/* As far as its node's first call. */
static void start_compiling(struct scene *scene) {
    const struct link_project project = {.fd = scene->folder, .token = "t"};
    scene->job = compile_start(&(struct compile_request){.compiler = scene->compiler,
                                                         .toolchain = &stage_toolchain,
                                                         .project = &project,
                                                         .owner = getuid(),
                                                         .subject = "s",
                                                         .source = "/tmp/project",
                                                         .memory_bytes = worker_default_memory() + EXTRA_BYTES,
                                                         .deadline_ms = 60000},
                               on_done, scene);
    struct stage *stage = scene->stage;
    struct compiler *compiler = scene->compiler;
    RUN_UNTIL(stage, compiler->workers && node_os_pid(compiler->workers->node) != 0);
    assert_int_equal(quotas_held(scene->quotas, getuid(), QUOTA_MEMORY), EXTRA_BYTES);
    struct node *node = compiler->workers->node;
    scene->agent = agent_dial(stage, node);
    agent_hello(scene->agent, PROTOCOL_VERSION, node_secret(node));
    RUN_UNTIL(stage, node_is_ready(node));
    CLEANUP_TERM struct term_doc *welcome = agent_take(scene->agent);
    assert_true(welcome && term_is_tagged(term_root(welcome), "welcome", 2));
}

static int set_up(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    struct error error;
    void *stage;
    quota_rules_init(&scene->rules, UINT64_C(4) << 30);
    const struct quotas_config quotas = {.rules = &scene->rules, .service_uid = getuid()};
    assert_int_equal(quotas_open(&quotas, &scene->quotas, &error), 0);
    const struct compiler_settings settings = {.idle_ms = 60000, .cache_max_bytes = 1 << 20, .quotas = scene->quotas};
    assert_int_equal(stage_setup(&stage), 0);
    scene->stage = stage;
    assert_int_equal(store_open(&scene->stage->loop, scene->stage->home, &scene->store, &error), 0);
    assert_int_equal(
        compiler_open(&scene->stage->host, scene->store, &settings, on_wake, NULL, &scene->compiler, &error), 0);
    make_project(scene);
    start_compiling(scene);
    *state = scene;
    return 0;
}

static int tear_down(void **state) {
    struct scene *scene = *state;
    struct stage *stage = scene->stage;
    if (scene->job) compile_abort(scene->job);
    compiler_quiesce(scene->compiler);
    RUN_UNTIL(stage, compiler_is_quiet(scene->compiler));
    assert_int_equal(quotas_held(scene->quotas, getuid(), QUOTA_MEMORY), 0);
    compiler_free(scene->compiler);
    quotas_close(scene->quotas);
    store_close(scene->store, on_store_closed, scene);
    RUN_UNTIL(stage, scene->is_store_closed);
    json_decref(scene->report);
    close(scene->agent);
    close(scene->folder);
    void *staged = stage;
    int result = stage_teardown(&staged);
    free(scene);
    return result;
}

/* The beginning of an answer to the node's next call. */
static void begin_answer(struct scene *scene, const char *op, const char *how, struct buf *reply) {
    uint64_t id = agent_take_call(scene->stage, scene->agent, op);
    term_put_version(reply);
    term_put_tuple(reply, 3);
    term_put_atom(reply, "reply");
    term_put_uint64(reply, id);
    term_put_tuple(reply, 2);
    term_put_atom(reply, how);
    reads_begin();
}

static void put(struct buf *reply, json_t *value) {
    assert_non_null(value);
    term_put_json(reply, value);
    json_decref(value);
}

static void answer(struct scene *scene, const char *op, json_t *value) {
    struct buf reply = BUF_INIT;
    begin_answer(scene, op, "ok", &reply);
    put(&reply, value);
    agent_send(scene->agent, &reply);
}

static json_t *many(json_t *item) {
    json_t *list = json_array();
    size_t terms = 1 + 2 * json_object_size(item); /* of each */
    for (size_t i = 0; i < READS_MANY / terms; i++) json_array_append(list, item);
    json_decref(item);
    return list;
}

static json_t *project(json_t *described_by) {
    return json_pack("{s:[{s:s, s:s, s:s, s:[s]}], s:s, s:b, s:o}", "apps", "name", "a", "dir", ".", "options", "o",
                     "sources", "a.erl", "main", "a", "loose", false, "described_by", described_by);
}

static json_t *compiled(json_t *runtime) {
    return json_pack("{s:[{s:s, s:[], s:[], s:[], s:o, s:[], s:[]}]}", "files", "file", "a.erl", "modules", "compile",
                     "exports", "runtime", runtime, "includes", "resources");
}

static void await_next_call(struct scene *scene) {
    char byte;
    RUN_UNTIL(scene->stage, recv(scene->agent, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1);
}

static void test_a_project(void **state) {
    struct scene *scene = *state;
    answer(scene, "project", project(many(json_string("mix.exs"))));
    await_next_call(scene);
    assert_read_off_loop();
}

static void test_files(void **state) {
    struct scene *scene = *state;
    answer(scene, "project", project(json_array()));
    answer(scene, "compile", compiled(many(json_string("lists"))));
    await_next_call(scene);
    assert_read_off_loop();
}

/* As many applications as there may be. What makes it large is not looked at. */
static void test_the_end(void **state) {
    struct scene *scene = *state;
    json_t *model = project(json_array()), *files = json_array();
    for (int i = 1; i < NODE_APPS_MAX; i++) {
        char name[8];
        snprintf(name, sizeof name, "a%d", i);
        json_array_append_new(json_object_get(model, "apps"),
                              json_pack("{s:s, s:s, s:s, s:[]}", "name", name, "dir", name, "options", "o", "sources"));
        json_array_append_new(files, json_pack("{s:s, s:s}", "name", name, "app_file", "[]."));
    }
    answer(scene, "project", model);
    answer(scene, "compile", compiled(json_array()));
    answer(scene, "finish", json_pack("{s:o, s:o}", "apps", files, "more", many(json_integer(1))));
    RUN_UNTIL(scene->stage, scene->is_done);
    assert_int_equal(scene->failed, E_INVALID); /* of no modules, which is found out afterwards */
    assert_read_off_loop();
}

static void test_a_failure(void **state) {
    struct scene *scene = *state;
    json_t *mistake = json_pack("{s:s, s:i}", "message", "m", "line", 1);
    struct buf reply = BUF_INIT;
    begin_answer(scene, "project", "error", &reply);
    term_put_map(&reply, 2);
    term_put_atom(&reply, "kind");
    term_put_atom(&reply, "compile");
    term_put_atom(&reply, "errors");
    put(&reply, many(mistake));
    agent_send(scene->agent, &reply);
    RUN_UNTIL(scene->stage, scene->is_done);
    assert_int_equal(scene->failed, E_COMPILE);
    assert_true(json_array_size(json_object_get(scene->report, "errors")) > 0);
    assert_read_off_loop();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_project, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_failure, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
