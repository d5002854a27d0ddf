/* The steps of the demo. Each uses the real programs and checks what they answer. */
#include <string.h>

#include "cli/demo/demo_internal.h"

enum { END_WAIT_MS = 10000 };

/* ---- asking, as one line each ---- */

/* The service's failure as our own; what the reader sees is the detail. */
static int failed(struct sbx_error *from, struct error *reterr) {
    enum error_code code = error_code_from_slug(from->code);
    error_set(reterr, code ? code : E_SYSTEM, "%s", from->detail);
    sbx_error_clear(from);
    return -(int)reterr->code;
}

static int parsed(const char *text, json_t **ret, struct error *reterr) {
    *ret = json_loads(text, JSON_DECODE_ANY, NULL);
    return *ret ? 0 : error_set(reterr, E_NO_MEMORY, "no memory for an answer");
}

static int create(struct demo *demo, const char *id, const char *example, const char *options, json_t **ret,
                  struct error *reterr) {
    char source[PATH_MAX];
    CLEANUP_FREE char *answer = NULL;
    struct sbx_error error;
    int result = string_format(source, sizeof source, reterr, "%s/%s", demo->examples, example);
    if (result < 0) return result;
    if (sbx_create(demo->sbx, id, source, options, &answer, &error) < 0) return failed(&error, reterr);
    return parsed(answer, ret, reterr);
}

static int info(struct demo *demo, const char *id, json_t **ret, struct error *reterr) {
    CLEANUP_FREE char *answer = NULL;
    struct sbx_error error;
    if (sbx_info(demo->sbx, id, &answer, &error) < 0) return failed(&error, reterr);
    return parsed(answer, ret, reterr);
}

/* Evaluate, show the text, and insist on what it is where `expected` says so. */
static int eval(struct demo *demo, const char *id, const char *code, const char *expected, struct buf *shown,
                struct error *reterr) {
    CLEANUP_FREE char *answer = NULL;
    CLEANUP_JSON json_t *parsed_answer = NULL;
    struct sbx_error error;
    if (sbx_eval(demo->sbx, id, code, NULL, &answer, &error) < 0) return failed(&error, reterr);
    int result = parsed(answer, &parsed_answer, reterr);
    if (result < 0) return result;
    const char *text = json_string_value(json_object_get(parsed_answer, "text"));
    text_clean(shown, text ? text : "", text ? strlen(text) : 0);
    if (expected && !string_equal(text, expected))
        return error_set(reterr, E_RUNTIME, "%s gave %s, not %s", code, text ? text : "nothing", expected);
    return 0;
}

static void show_field(struct buf *shown, json_t *object, const char *before, const char *path) {
    const char *key = strrchr(path, '.');
    buf_append_string(shown, before);
    format_value(key ? key + 1 : path, json_at(object, path), shown);
}

static int expect_running(json_t *sandbox, struct error *reterr) {
    const char *status = json_string_value(json_object_get(sandbox, "status"));
    if (string_equal(status, "running")) return 0;
    return error_set(reterr, E_CONFLICT, "the sandbox is %s, not running", status ? status : "in no state");
}

static int show_sandbox(json_t *sandbox, struct buf *shown, struct error *reterr) {
    show_field(shown, sandbox, "", "id");
    show_field(shown, sandbox, " is ", "status");
    show_field(shown, sandbox, ", profile ", "profile");
    show_field(shown, sandbox, ", a VM of its own with os pid ", "os_pid");
    return expect_running(sandbox, reterr);
}

/* ---- the story ---- */

static int start_service(struct demo *demo, struct buf *shown, struct error *reterr) {
    struct sbx_options options = SBX_OPTIONS_INIT;
    struct sbx_error error;
    options.home = demo->home;
    options.timeout_ms = demo->cli->timeout_ms;
    if (sbx_open_with(&options, &demo->sbx, &error) < 0) return failed(&error, reterr);
    buf_printf(shown, "started by the first command, in %s", demo->home);
    return 0;
}

static int create_counter(struct demo *demo, struct buf *shown, struct error *reterr) {
    CLEANUP_JSON json_t *sandbox = NULL;
    int result = create(demo, "counter", "counter", NULL, &sandbox, reterr);
    if (result < 0) return result;
    demo->os_pid = json_integer_value(json_object_get(sandbox, "os_pid"));
    return show_sandbox(sandbox, shown, reterr);
}

static int create_erlang(struct demo *demo, struct buf *shown, struct error *reterr) {
    CLEANUP_JSON json_t *sandbox = NULL;
    int result = create(demo, "strict", "counter_erl", "{\"profile\": \"high\"}", &sandbox, reterr);
    return result < 0 ? result : show_sandbox(sandbox, shown, reterr);
}

static int list_both(struct demo *demo, struct buf *shown, struct error *reterr) {
    CLEANUP_FREE char *answer = NULL;
    CLEANUP_JSON json_t *list = NULL;
    struct sbx_error error;
    if (sbx_list(demo->sbx, &answer, &error) < 0) return failed(&error, reterr);
    int result = parsed(answer, &list, reterr);
    if (result < 0) return result;
    size_t index;
    json_t *sandbox;
    json_array_foreach(list, index, sandbox) {
        show_field(shown, sandbox, index ? "; " : "", "id");
        show_field(shown, sandbox, " ", "status");
        show_field(shown, sandbox, ", ", "usage.memory_bytes");
    }
    if (json_array_size(list) == 2) return 0;
    return error_set(reterr, E_CONFLICT, "there are %zu sandboxes, not 2", json_array_size(list));
}

static int count_up(struct demo *demo, struct buf *shown, struct error *reterr) {
    static const char *const expected[] = {"1", "2", "3"};
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
        if (i > 0) buf_append_string(shown, ", ");
        int result = eval(demo, "counter", "Counter.increment()", expected[i], shown, reterr);
        if (result < 0) return result;
    }
    return 0;
}

/* The supervisor's new child is awaited inside, so the answer is the healed tree's. */
static int crash_and_heal(struct demo *demo, struct buf *shown, struct error *reterr) {
    static const char code[] = "old = Process.whereis(Counter.Server)\n"
                               "Process.exit(old, :kill)\n"
                               "Stream.repeatedly(fn -> Process.sleep(1); Process.whereis(Counter.Server) end)\n"
                               "|> Enum.find(&(is_pid(&1) and &1 != old))\n"
                               "Counter.value()";
    buf_append_string(shown, "killed; its supervisor started another, which counts from ");
    return eval(demo, "counter", code, "0", shown, reterr);
}

static int read_secrets(struct demo *demo, struct buf *shown, struct error *reterr) {
    return eval(demo, "counter", "File.read(\"/etc/shadow\")", "{:error, :enoent}", shown, reterr);
}

/* What the kernel refused, told by the service as an event. */
struct sighting {
    struct buf *shown;
    bool seen;
};

static int look_for_violation(const char *text, void *data) {
    struct sighting *sighting = data;
    CLEANUP_JSON json_t *event = json_loads(text, 0, NULL);
    if (!string_equal(json_string_value(json_object_get(event, "kind")), "violation")) return 0;
    show_field(sighting->shown, event, "refused by the kernel, and told as an event: ", "data.what");
    show_field(sighting->shown, event, " ", "data.detail");
    sighting->seen = true;
    return 1;
}

/* The number of the newest event, so that only later ones are looked at. */
static int newest_event(struct demo *demo, json_int_t *ret_seq, struct error *reterr) {
    CLEANUP_FREE char *answer = NULL;
    CLEANUP_JSON json_t *events = NULL;
    struct sbx_error error;
    if (sbx_op(demo->sbx, "events", NULL, &answer, &error) < 0) return failed(&error, reterr);
    int result = parsed(answer, &events, reterr);
    if (result < 0) return result;
    size_t count = json_array_size(events);
    *ret_seq = count ? json_integer_value(json_object_get(json_array_get(events, count - 1), "seq")) : 0;
    return 0;
}

static int await_violation(struct demo *demo, json_int_t since, struct buf *shown, struct error *reterr) {
    struct sighting sighting = {.shown = shown};
    struct sbx_error error;
    char options[128];
    snprintf(options, sizeof options, "{\"sandbox_id\": \"counter\", \"follow\": true, \"since\": %lld}",
             (long long)since);
    if (sbx_events(demo->sbx, options, look_for_violation, &sighting, &error) < 0) return failed(&error, reterr);
    return sighting.seen ? 0 : error_set(reterr, E_RUNTIME, "no event tells of the attempt");
}

static int run_a_shell(struct demo *demo, struct buf *shown, struct error *reterr) {
    CLEANUP(buf_free) struct buf output = BUF_INIT;
    struct error evaluation; /* a VM that refuses by raising is as good as one that answers nothing */
    json_int_t before = 0;
    int result = newest_event(demo, &before, reterr);
    if (result < 0) return result;
    eval(demo, "counter", ":os.cmd('cat /etc/shadow')", NULL, &output, &evaluation);
    if (strstr(buf_string(&output), "root:")) return error_set(reterr, E_POLICY, "the shell ran");
    return await_violation(demo, before, shown, reterr);
}

static int neighbour_runs(struct demo *demo, struct buf *shown, struct error *reterr) {
    CLEANUP_JSON json_t *sandbox = NULL;
    int result = info(demo, "strict", &sandbox, reterr);
    if (result < 0) return result;
    show_field(shown, sandbox, "strict is ", "status");
    show_field(shown, sandbox, " as before, restarts: ", "restart_count");
    return expect_running(sandbox, reterr);
}

static int restart_counter(struct demo *demo, struct buf *shown, struct error *reterr) {
    CLEANUP_FREE char *answer = NULL;
    CLEANUP_JSON json_t *sandbox = NULL;
    struct sbx_error error;
    if (sbx_restart(demo->sbx, "counter", true, &answer, &error) < 0) return failed(&error, reterr);
    int result = parsed(answer, &sandbox, reterr);
    if (result == 0) result = show_sandbox(sandbox, shown, reterr);
    if (result < 0) return result;
    json_int_t os_pid = json_integer_value(json_object_get(sandbox, "os_pid"));
    if (os_pid == demo->os_pid) return error_set(reterr, E_CONFLICT, "the VM is still the old one");
    demo->os_pid = os_pid;
    return 0;
}

static int destroy_all(struct demo *demo, struct buf *shown, struct error *reterr) {
    static const char *const ids[] = {"counter", "strict"};
    struct sbx_error error;
    for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
        if (sbx_destroy(demo->sbx, ids[i], &error) < 0) return failed(&error, reterr);
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld", (long long)demo->os_pid);
    if (access(path, F_OK) == 0) return error_set(reterr, E_CONFLICT, "the VM is still there");
    buf_append_string(shown, "both are gone: processes, cgroups, files");
    return 0;
}

static int stop_service(struct demo *demo, struct buf *shown, struct error *reterr) {
    CLEANUP(client_watch_close) struct client_watch watch;
    struct sbx_error error;
    client_watch_open(demo->home, &watch);
    if (sbx_op(demo->sbx, "shutdown", NULL, NULL, &error) < 0) return failed(&error, reterr);
    if (!client_watch_wait(&watch, END_WAIT_MS)) return error_set(reterr, E_TIMEOUT, "the service goes on");
    buf_append_string(shown, "the service has ended");
    return 0;
}

const struct demo_step *demo_steps(size_t *ret_count) {
    static const struct demo_step steps[] = {
        {"A service starts by itself", NULL, start_service},
        {"A Mix project becomes a running supervision tree in a jail", "sandbox create counter examples/counter",
         create_counter},
        {"An Erlang project, in the strictest profile", "sandbox create strict examples/counter_erl --profile high",
         create_erlang},
        {"Two virtual machines, two jails", "sandbox list", list_both},
        {"Code runs inside", "sandbox eval counter 'Counter.increment()'   (three times)", count_up},
        {"A process crashes, and its own supervisor heals it", "sandbox eval counter 'Process.exit(…, :kill)'",
         crash_and_heal},
        {"An attack: read the host's passwords", "sandbox eval counter 'File.read(\"/etc/shadow\")'", read_secrets},
        {"An attack: run a shell", "sandbox eval counter \":os.cmd('cat /etc/shadow')\"", run_a_shell},
        {"The neighbour has not noticed", "sandbox info strict", neighbour_runs},
        {"A fresh start: a new VM, the same configuration", "sandbox restart counter --fresh", restart_counter},
        {"Nothing stays behind", "sandbox destroy counter strict", destroy_all},
        {"The end", "sandbox shutdown", stop_service},
    };
    *ret_count = ARRAY_SIZE(steps);
    return steps;
}
