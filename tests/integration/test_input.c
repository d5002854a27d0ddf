/* Bad input: a precise answer, and nothing changed by it. Good input of every kind runs. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "cases.h"
#include "own_mounts.h"
#include "processes.h"
#include "support.h"

enum { ANSWER_MAX_MS = 3 * WORLD_DEADLINE_MS }; /* it may wait for a compiler that boots */

/* ---- what a problem must say ---- */

struct expected {
    const char *code, *category, *recovery;
    int status;
    const char *culprit; /* what the detail must name */
};

#define INVALID(culprit)                                                                                               \
    { "invalid_input", "system", "fix_input", 400, culprit }

static const char *text_of(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static void assert_problem(const json_t *problem, const struct expected *expected) {
    CLEANUP_FREE char *all = json_dumps(problem, JSON_COMPACT);
    if (strcmp(text_of(problem, "code"), expected->code) != 0 ||
        strcmp(text_of(problem, "category"), expected->category) != 0 ||
        strcmp(text_of(problem, "recovery"), expected->recovery) != 0 ||
        json_integer_value(json_object_get(problem, "status")) != expected->status ||
        !strstr(text_of(problem, "detail"), expected->culprit))
        fail_msg("expected %s, %s, %s, %d, '%s', but got %s", expected->code, expected->category, expected->recovery,
                 expected->status, expected->culprit, all);
}

static void assert_nothing_listed(struct world *world) {
    json_t *list = world_op(world, "list", NULL);
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
}

/* A request over HTTP as it stands, past libsandbox's own checks; the answer's body. */
static json_t *exchange(struct world *world, const char *request, size_t size) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct buf answer = {.max = 1 << 20};
    char chunk[4096];
    ssize_t got;
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/api.sock", world_home(world));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    for (size_t sent = 0; sent < size;) { /* a service that refuses early may stop reading */
        ssize_t count = send(fd, request + sent, size - sent, MSG_NOSIGNAL);
        if (count < 0) break;
        sent += (size_t)count;
    }
    while (poll(&(struct pollfd){fd, POLLIN, 0}, 1, ANSWER_MAX_MS) == 1 && (got = read(fd, chunk, sizeof chunk)) > 0)
        buf_append(&answer, chunk, (size_t)got);
    const char *body = strstr(buf_string(&answer), "\r\n\r\n");
    json_t *problem = body ? json_loads(body + 4, 0, NULL) : NULL;
    if (!problem) fail_msg("no problem object: %s", buf_string(&answer));
    buf_free(&answer);
    return problem;
}

static json_t *send_request(struct world *world, const char *method, const char *target, const char *body) {
    CLEANUP_FREE char *request =
        string_print("%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     method, target, strlen(body), body);
    return exchange(world, request, strlen(request));
}

/* ---- requests that are wrong by themselves ---- */

static void wrong_parameters_are_named(void **state) {
    static const struct {
        const char *body;
        struct expected expected;
    } cases[] = {
        {"{\"source\": \"/x\"}", INVALID("id is missing")},
        {"{\"id\": \"\", \"source\": \"/x\"}", INVALID("id: ")},
        {"{\"id\": \".hidden\", \"source\": \"/x\"}", INVALID("\".hidden\" is not an id")},
        {"{\"id\": \"a/b\", \"source\": \"/x\"}", INVALID("\"a/b\" is not an id")},
        {"{\"id\": 7, \"source\": \"/x\"}", INVALID("id: 7 is not")},
        {"{\"id\": \"a\"}", INVALID("source is missing")},
        {"{\"id\": \"a\", \"source\": \"here\"}", INVALID("\"here\" is not an absolute path")},
        {"{\"id\": \"a\", \"source\": \"/x\", \"memory_bytes\": 1}", INVALID("memory_bytes: 1 is not between 16M")},
        {"{\"id\": \"a\", \"source\": \"/x\", \"memory_bytes\": -1}", INVALID("memory_bytes: -1")},
        {"{\"id\": \"a\", \"source\": \"/x\", \"memory_bytes\": \"64X\"}", INVALID("memory_bytes: \"64X\"")},
        {"{\"id\": \"a\", \"source\": \"/x\", \"cpu_percent\": 0}", INVALID("cpu_percent: 0 is not between")},
        {"{\"id\": \"a\", \"source\": \"/x\", \"processes\": 999999999999}", INVALID("processes: 999999999999")},
        {"{\"id\": \"a\", \"source\": \"/x\", \"disk_bytes\": 1}", INVALID("disk_bytes: 1 is not between")},
        {"{\"id\": \"a\", \"source\": \"/x\", \"ttl_ms\": \"soon\"}", INVALID("ttl_ms: \"soon\" is not a duration")},
        {"{\"id\": \"a\", \"source\": \"/x\", \"max_run_ms\": 0}", INVALID("max_run_ms: 0 is not between")},
        {"{\"id\": \"a\", \"source\": \"/x\", \"colour\": 1}", INVALID("no parameter \"colour\"")},
        {"{\"id\": \"a\", \"source\": \"/x\", \"env\": [1]}", INVALID("env: ")},
        {"{\"id\": \"a\", \"source\": \"/x\", \"env\": {\"SANDBOX_X\": \"1\"}}", INVALID("SANDBOX_X is reserved")},
        {"{\"id\": \"a\", \"source\": \"/x\", \"restart\": \"often\"}", INVALID("restart: \"often\"")},
        {"{\"id\": \"a\", \"source\": \"/x\", \"profile\": \"huge\"}", INVALID("no profile 'huge'")},
        {"{\"id\": \"a\", \"source\": \"/x\", \"require\": [\"luck\"]}", INVALID("no guarantee 'luck'")},
        {"{\"id\": \"a\", \"source\": \"/x\", \"app\": \"b\", \"supervisor\": \"c\"}", INVALID("not both")},
        {"[1]", INVALID("")},
        {"{\"id\":", INVALID("")},
    };
    struct world *world = *state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_t *problem = send_request(world, "POST", "/api/v1/sandboxes", cases[i].body);
        assert_problem(problem, &cases[i].expected);
        json_decref(problem);
    }
    assert_nothing_listed(world);
}

static void wrong_requests_are_named(void **state) {
    static const struct {
        const char *method, *target;
        struct expected expected;
    } cases[] = {
        {"GET", "/api/v1/nothing", {"not_found", "system", "fix_input", 404, "/api/v1/nothing"}},
        {"PUT", "/api/v1/sandboxes", {"method_not_allowed", "system", "fix_input", 405, "PUT"}},
        {"GET", "/api/v1/events?since=soon", INVALID("since: \"soon\" is not a whole number")},
        {"GET", "/api/v1/events?until=1", INVALID("no parameter \"until\"")},
        {"GET", "/api/v1/sandboxes/none", {"not_found", "system", "fix_input", 404, "no sandbox 'none'"}},
        {"GET", "/api/v1/sandboxes/.no", INVALID("\".no\" is not an id")},
        {"DELETE", "/api/v1/sandboxes/none", {"not_found", "system", "fix_input", 404, "no sandbox 'none'"}},
    };
    struct world *world = *state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_t *problem = send_request(world, cases[i].method, cases[i].target, "");
        assert_problem(problem, &cases[i].expected);
        json_decref(problem);
    }
}

static void too_large_a_body_is_refused(void **state) {
    enum { CLAIMED_BYTES = 1 << 30 };
    struct world *world = *state;
    CLEANUP_FREE char *request = string_print(
        "POST /api/v1/sandboxes HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", CLAIMED_BYTES);
    json_t *problem = exchange(world, request, strlen(request));
    assert_problem(problem, &(struct expected){"too_large", "resource", "fix_input", 413, ""});
    json_decref(problem);
    assert_nothing_listed(world);
}

/* ---- sources that are wrong ---- */

static void refuse_source(struct world *world, const char *source, const struct expected *expected) {
    json_t *problem = world_fails(world, "create", expected->code, "{s:s, s:s}", "id", "a", "source", source);
    assert_problem(problem, expected);
    json_decref(problem);
    assert_nothing_listed(world);
}

static void wrong_paths_are_named(void **state) {
    struct world *world = *state;
    const char *missing = world_path(world, "missing");
    refuse_source(world, missing, &(struct expected){"not_found", "system", "fix_input", 404, missing});
    refuse_source(world, "/dev/null", &(struct expected)INVALID("/dev/null"));
    const char *fifo = world_path(world, "kinds/fifo");
    world_file(world, "kinds/text.txt", "hello\n");
    assert_int_equal(mkfifo(fifo, 0666), 0);
    refuse_source(world, fifo, &(struct expected)INVALID(fifo));
    const char *socket_path = world_path(world, "kinds/socket");
    assert_int_equal(mknod(socket_path, S_IFSOCK | 0666, 0), 0);
    refuse_source(world, socket_path, &(struct expected)INVALID(socket_path));
}

struct bad_project {
    const char *file, *text; /* NULL: the folder of compiled supervisors */
    const char *key, *name;  /* "app" or "supervisor" to start; NULL: the project's own */
    struct expected expected;
    int line; /* of the first of errors[]; 0: there is none */
};

#define START_FAILED(culprit)                                                                                          \
    { "start_failed", "runtime", "fix_input", 422, culprit }
#define COMPILE_FAILED                                                                                                 \
    { "compile_failed", "compilation", "fix_input", 422, "" }

static void refuse_project(struct world *world, const struct bad_project *bad) {
    const char *source = bad->file ? world_file(world, bad->file, bad->text) : COMPILED;
    json_t *params = json_pack("{s:s, s:s}", "id", "a", "source", source);
    if (bad->key) json_object_set_new(params, bad->key, json_string(bad->name));
    CLEANUP_FREE char *body = json_dumps(params, JSON_COMPACT);
    json_t *problem = send_request(world, "POST", "/api/v1/sandboxes", body);
    json_t *first = json_array_get(json_object_get(problem, "errors"), 0);
    assert_problem(problem, &bad->expected);
    assert_int_equal(json_integer_value(json_object_get(first, "line")), bad->line);
    if (bad->line) assert_string_equal(text_of(first, "file"), bad->file);
    json_decref(params);
    json_decref(problem);
    assert_nothing_listed(world);
}

/* What each compiler complains of, and the ways in which a supervisor can fail, the agent's tests have. */
static void projects_that_fail_are_told_why(void **state) {
    static const struct bad_project cases[] = {
        {"top.ex", "defmodule Top do\n  def f, do: )\nend\n", NULL, NULL, COMPILE_FAILED, 2},
        {NULL, NULL, "supervisor", "raises", START_FAILED("on_purpose"), 0},
        {NULL, NULL, "app", "absent", START_FAILED("absent"), 0},
    };
    struct world *world = *state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) refuse_project(world, &cases[i]);
}

static void a_supervisor_that_hangs_is_given_up(void **state) {
    static const struct bad_project bad = {
        NULL, NULL, "supervisor", "never_begun", {"timeout", "runtime", "retry", 504, ""}, 0};
    (void)state;
    struct world *world = world_open("boot-deadline = 3s\n");
    refuse_project(world, &bad);
    world_close(world);
}

static void an_empty_project_is_told(void **state) {
    struct world *world = *state;
    world_file(world, "empty/notes.txt", "nothing to compile\n");
    refuse_source(world, world_path(world, "empty"), &(struct expected)INVALID("the project holds no modules"));
}

/* ---- a full disk ---- */

static void assert_runs(struct world *world, const char *source, const char *supervisor, const char *code,
                        const char *expected) {
    world_do(world, "create", "{s:s, s:s, s:s*}", "id", "a", "source", source, "supervisor", supervisor);
    CLEANUP_FREE char *text = world_eval_text(world, "a", NULL, code);
    assert_string_equal(text, expected);
    world_destroy(world, "a");
}

/* Put a file system below the store, between two services; it is the test's mount namespace that they run in. */
static void mount_store(struct world *world, const char *store) {
    struct stat status;
    CLEANUP_FD int launcher = process_open(world_pid(world, "launcher.lock"));
    process_end(world_pid(world, "daemon.lock"), SIGTERM);
    assert_true(process_ends(launcher, WORLD_DEADLINE_MS));
    assert_int_equal(stat(store, &status), 0);
    CLEANUP_FREE char *options =
        string_print("size=4k,mode=0700,uid=%u,gid=%u", (unsigned)status.st_uid, (unsigned)status.st_gid);
    assert_int_equal(mount("store", store, "tmpfs", 0, options), 0);
}

static void use_a_full_disk(void **state) {
    (void)state;
    char store[64];
    struct world *world = world_open(NULL);
    snprintf(store, sizeof store, "%s/store", world_home(world));
    mount_store(world, store);
    refuse_source(world, COMPILED, &(struct expected){"disk_full", "resource", "retry", 507, "space"});
    assert_int_equal(mount("store", store, "tmpfs", MS_REMOUNT, "size=16m"), 0);
    assert_runs(world, COMPILED, "compiled", "compiled:init([])", "{ok,{#{},[]}}"); /* it goes on */
    assert_int_equal(umount2(store, MNT_DETACH), 0);
    world_close(world);
}

static void a_full_disk_is_told(void **state) {
    (void)state;
    test_in_own_mounts((struct CMUnitTest)cmocka_unit_test(use_a_full_disk));
}

/* ---- no toolchain ---- */

static void a_missing_toolchain_is_told(void **state) {
    (void)state;
    struct world *world = world_open("otp = /nonexistent\n");
    refuse_source(world, EXAMPLES "/counter_erl",
                  &(struct expected){"toolchain_missing", "system", "fix_input", 422, "/nonexistent"});
    json_t *doctor = world_op(world, "doctor", NULL);
    CLEANUP_FREE char *text = json_dumps(doctor, JSON_COMPACT);
    if (!strstr(text, "/nonexistent")) fail_msg("doctor says nothing of it: %s", text);
    json_decref(doctor);
    world_close(world);
}

/* ---- every kind of source ---- */

/* But Mix and rebar3 projects, which most other tests run. */
static void every_kind_of_source_runs(void **state) {
    static const char elixir[] = "defmodule One do\n  use Supervisor\n"
                                 "  def start_link(_ \\\\ []), do: Supervisor.start_link(__MODULE__, [])\n"
                                 "  def init(_), do: Supervisor.init([], strategy: :one_for_one)\n"
                                 "  def answer, do: 42\nend\n";
    static const char erlang[] = "-module(top).\n-behaviour(supervisor).\n-export([start_link/0, init/1]).\n"
                                 "start_link() -> supervisor:start_link(?MODULE, []).\ninit([]) -> {ok, {#{}, []}}.\n";
    struct world *world = *state;
    assert_runs(world, world_file(world, "one/one.ex", elixir), "One", "One.answer()", "42");
    world_file(world, "folder/top.erl", erlang);
    assert_runs(world, world_path(world, "folder"), "top", "top:init([])", "{ok,{#{},[]}}");
    assert_runs(world, COMPILED, "compiled", "compiled:init([])", "{ok,{#{},[]}}");
}

static int open_world(void **state) {
    *state = world_open(NULL);
    return 0;
}

static int close_world(void **state) {
    world_close(*state);
    return 0;
}

/* One group, named by the argument, so that they run side by side; all of them without one. */
int main(int count, char **arguments) {
    const struct CMUnitTest requests[] = {
        cmocka_unit_test(wrong_parameters_are_named),  cmocka_unit_test(wrong_requests_are_named),
        cmocka_unit_test(too_large_a_body_is_refused), cmocka_unit_test(wrong_paths_are_named),
        cmocka_unit_test(an_empty_project_is_told),
    };
    const struct test_case projects[] = {LONG_CASE(projects_that_fail_are_told_why)};
    const struct CMUnitTest host[] = {
        cmocka_unit_test(a_full_disk_is_told),
        cmocka_unit_test(a_missing_toolchain_is_told),
        cmocka_unit_test(a_supervisor_that_hangs_is_given_up),
    };
    const struct test_case sources[] = {LONG_CASE(every_kind_of_source_runs)};
    const char *chosen = count > 1 ? arguments[1] : NULL;
    int failed = 0;
    if (!chosen || strcmp(chosen, "requests") == 0) failed += cmocka_run_group_tests(requests, open_world, close_world);
    if (!chosen || strcmp(chosen, "projects") == 0)
        failed += cases_run(projects, ARRAY_SIZE(projects), open_world, close_world);
    if (!chosen || strcmp(chosen, "host") == 0) failed += cmocka_run_group_tests(host, NULL, NULL);
    if (!chosen || strcmp(chosen, "sources") == 0)
        failed += cases_run(sources, ARRAY_SIZE(sources), open_world, close_world);
    return failed;
}
