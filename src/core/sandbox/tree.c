/* The node of a sandbox and the application on it: starting, hearing from it, ending, and what to make of its end. */
#include <stdio.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/network/names.h"
#include "core/policy/containment.h"
#include "core/reload/reload.h"
#include "core/sandbox/logs.h"
#include "core/sandbox/sandbox.h"
#include "core/sandbox/tree.h"
#include "core/volumes/volumes.h"

enum { STEADY_MS = 60000 }; /* after running so long, a crash counts as the first in a row again */

/* ---- starting ---- */

static void start_failed(struct sandbox *sandbox, const struct error *error) {
    void (*started)(void *, const struct error *) = take_ptr(sandbox->tree.started);
    struct error why = *error;
    limit_blame(sandbox, &why);
    if (started) started(sandbox->tree.started_data, &why);
}

static bool is_short_text(const char *text) {
    size_t length = strlen(text);
    return length <= NODE_TEXT_MAX_BYTES && utf8_valid((const uint8_t *)text, length);
}

static char *text_of(const struct term *map, const char *key, bool is_module) {
    CLEANUP_FREE char *text = NULL;
    const struct term *value = map ? term_map_get(map, key) : NULL;
    if (!value || term_is_atom(value, "nil") || term_is_atom(value, "undefined")) return NULL;
    if (value->type == TERM_PID) {
        struct buf printed = BUF_INIT;
        term_print(&printed, value, TERM_ERLANG, 64);
        return buf_take_string(&printed);
    }
    if (!term_to_text(value, NODE_TEXT_MAX_BYTES + 1, &text) || !is_short_text(text)) return NULL;
    return strdup(is_module ? term_module_name(text) : text);
}

/* What a node tells of the tree that runs in it. */
struct told_tree {
    char *app_name, *supervisor_module, *app_pid, *supervisor_pid;
    struct kept_states refused; /* of the states that it was started with */
};

static struct told_tree read_tree(const struct term *map) {
    return (struct told_tree){.app_name = text_of(map, "app_name", false),
                              .supervisor_module = text_of(map, "supervisor", true),
                              .app_pid = text_of(map, "app_pid", false),
                              .supervisor_pid = text_of(map, "supervisor_pid", false)};
}

static void replace_text(char **field, char **text) {
    free(*field);
    *field = take_ptr(*text);
}

static void take_tree(struct sandbox *sandbox, struct told_tree *told) {
    replace_text(&sandbox->tree.app_name, &told->app_name);
    replace_text(&sandbox->tree.supervisor_module, &told->supervisor_module);
    replace_text(&sandbox->tree.app_pid, &told->app_pid);
    replace_text(&sandbox->tree.supervisor_pid, &told->supervisor_pid);
}

/* On a thread where it is long: it names the states that the tree did not take, in the node's own words. */
static void *make_tree(const struct term *result) {
    struct told_tree *told = malloc(sizeof *told);
    if (!told) return NULL;
    *told = read_tree(result);
    states_read_refused(result, &told->refused);
    return told;
}

static void release_tree(void *made) {
    struct told_tree *told = made;
    if (!told) return;
    free(told->app_name);
    free(told->supervisor_module);
    free(told->app_pid);
    free(told->supervisor_pid);
    states_free(&told->refused);
    free(told);
}

static const struct node_preparation as_tree = {.make = make_tree, .release = release_tree};

static void on_tree_started(void *data, void *made, const struct term *reason, const struct error *error) {
    struct sandbox *sandbox = data;
    struct told_tree *told = made;
    struct error no_memory;
    (void)reason;
    if (!error && !told) {
        error_set(&no_memory, E_NO_MEMORY, "no memory for what the node told of its start");
        error = &no_memory;
    }
    if (!sandbox->tree.started || error) {
        release_tree(told);
        /* A lost connection is mostly the VM's end, which tells better why. */
        sandbox->tree.is_lost = error && error->code == E_NODE && sandbox->node;
        if (sandbox->tree.started && !sandbox->tree.is_lost) start_failed(sandbox, error);
        return;
    }
    take_tree(sandbox, told);
    metering_begin(sandbox);
    if (sandbox->tree.states) states_arrived(sandbox->tree.states, &told->refused);
    release_tree(told);
    sandbox->times.started_at_ms = clock_wall_ms();
    sandbox->times.started_ms = (int64_t)clock_boot_ms();
    void (*started)(void *, const struct error *) = take_ptr(sandbox->tree.started);
    started(sandbox->tree.started_data, NULL);
}

static bool is_elixir(const struct sandbox *sandbox) {
    return string_equal(json_string_value(json_object_get(sandbox->code.build.facts, "language")), "elixir");
}

static void send_start(struct sandbox *sandbox, struct buf *args) {
    uint64_t deadline_ms = sandbox->engine->config.boot_deadline_ms + sandbox->tree.settle_ms;
    node_call_prepared(sandbox->node, "start", args, deadline_ms, &as_tree, on_tree_started, sandbox);
}

static int node_of_build(struct sandbox *sandbox, bool may_be_warm, struct error *reterr) {
    struct engine *engine = sandbox->engine;
    struct node_app apps[NODE_APPS_MAX];
    char paths[NODE_APPS_MAX][PATH_MAX];
    char build[PATH_MAX];
    json_t *list = json_object_get(sandbox->code.build.facts, "apps");
    size_t count = json_array_size(list);
    int result = store_build_path(engine->store, sandbox->code.build.digest, build, sizeof build, reterr);
    if (result == 0 && count > NODE_APPS_MAX)
        result = error_set(reterr, E_TOO_LARGE, "the project has more than %d applications", NODE_APPS_MAX);
    for (size_t i = 0; i < count && result == 0; i++) {
        apps[i].name = json_string_value(json_object_get(json_array_get(list, i), "name"));
        apps[i].path = paths[i];
        result = string_format(paths[i], sizeof paths[i], reterr, "%s/%s", build, apps[i].name);
    }
    if (result < 0) return result;
    struct jail_host resolved[JAIL_RESOLVED_MAX];
    char data_volume[VOLUMES_NAME_BYTES];
    struct node_spec spec = {
        .kind = NODE_APPLICATION,
        .toolchain = &sandbox->toolchain->toolchain,
        .profile = &sandbox->config.profile->jail,
        .limits = sandbox->config.limits,
        .apps = apps,
        .app_count = count,
        .env = sandbox->config.env,
        .elixir = is_elixir(sandbox),
        .has_loopback = sandbox->config.ports.has_loopback,
        .resolved = resolved,
        .resolved_count = names_addresses(sandbox, resolved),
        .data_volume = volumes_name_data(sandbox, data_volume),
    };
    sandbox->tree.is_warm = false;
    sandbox->tree.schedulers = node_schedulers(&engine->host, &sandbox->config.limits);
    memcpy(sandbox->code.booted_build, sandbox->code.build.digest, sizeof sandbox->code.booted_build);
    memcpy(sandbox->boot_id, engine->wall_clock.boot_id, sizeof sandbox->boot_id);
    return may_be_warm && !spec.has_loopback
               ? pool_start_node(engine->pool, &spec, &tree_node_handler, sandbox, &sandbox->node,
                                 &sandbox->tree.is_warm, reterr)
               : node_start(&engine->host, &spec, &tree_node_handler, sandbox, &sandbox->node, reterr);
}

static void node_began(struct sandbox *sandbox) {
    node_set_owner(sandbox->node, sandbox->owner);
    sandbox->lost_guarantees = node_lost_guarantees(sandbox->node);
}

static void start_node(struct sandbox *sandbox, bool may_be_warm) {
    struct error error;
    if (node_of_build(sandbox, may_be_warm, &error) < 0)
        start_failed(sandbox, &error);
    else
        node_began(sandbox);
}

void tree_start(struct sandbox *sandbox, struct kept_states *states,
                void (*started)(void *data, const struct error *error), void *data) {
    sandbox->tree.started = started;
    sandbox->tree.started_data = data;
    sandbox->tree.states = states;
    sandbox->tree.start_asked = sandbox->tree.is_lost = false;
    sandbox->tree.stop_seen = false;
    sandbox->tree.exit_status = -1;
    sandbox->limits.killed = (struct error){0};
    sandbox->code.is_known = true;
    sandbox->code.is_asked = false;
    live_code_forget(sandbox);
    metering_end(sandbox);
    if (!names_await(sandbox)) start_node(sandbox, true);
}

void tree_go_on(struct sandbox *sandbox) {
    start_node(sandbox, true);
}

static void on_known_again(void *data, const struct term *result, const struct term *reason,
                           const struct error *error) {
    (void)reason;
    if (error) return;
    struct told_tree told = read_tree(result);
    take_tree(data, &told);
}

/* Once: an agent may dial again as often as it likes. */
static void take_up(struct sandbox *sandbox) {
    if (sandbox->metering.next_ms) return;
    limit_take_up(sandbox);
    names_take_up(sandbox);
    metering_begin(sandbox);
}

/* Whatever it connects to first is there. */
static void on_served(void *data, const struct error *error) {
    struct sandbox_ref *ref = data;
    struct sandbox *sandbox = sandbox_deref(ref);
    free(ref);
    if (!sandbox || !sandbox->tree.started || !sandbox->node) return; /* called off, or the node's end tells why */
    if (error)
        start_failed(sandbox, error);
    else
        start_args_make(sandbox, is_elixir(sandbox), send_start);
}

static void open_doors(struct sandbox *sandbox) {
    struct sandbox_ref *ref = new_or_abort(struct sandbox_ref);
    *ref = sandbox_ref(sandbox);
    ports_serve(sandbox, 0, on_served, ref);
}

/* The application finds what is mounted, and reaches its services, from its first moment on. */
static void on_volumes(struct sandbox *sandbox, const struct error *error) {
    if (!sandbox->tree.started) return;
    if (error)
        start_failed(sandbox, error);
    else
        open_doors(sandbox);
}

static void on_ready(void *data, struct node *node) {
    struct sandbox *sandbox = data;
    if (sandbox->tree.started && !sandbox->tree.start_asked) {
        sandbox->tree.start_asked = true;
        create_timing_mark(&sandbox->tree.timing, CREATE_NODE);
        volumes_mount(sandbox, on_volumes);
    } else if (sandbox->tree.started && sandbox->tree.is_lost) { /* the VM lives, and dialled again */
        struct error error;
        error_set(&error, E_NODE, "the node closed its control channel before its application had started");
        start_failed(sandbox, &error);
    } else if (!sandbox->tree.started) { /* it ran before this daemon did, or its agent dialled again */
        struct buf args = BUF_INIT;
        term_put_map(&args, 0);
        node_call(node, "info", &args, sandbox->engine->config.heartbeat_deadline_ms, on_known_again, sandbox);
        live_code_ask(sandbox);
        take_up(sandbox);
    }
}

/* ---- hearing from it ---- */

static void take_stop_text(struct sandbox *sandbox, const char *words) {
    CLEANUP(buf_free) struct buf escaped = BUF_INIT;
    size_t length = utf8_cut(words, strlen(words), sizeof sandbox->tree.stop_text - 1);
    if (!utf8_valid((const uint8_t *)words, length)) {
        escape_text(&escaped, words, length);
        words = buf_string(&escaped);
        length = utf8_cut(words, strlen(words), sizeof sandbox->tree.stop_text - 1);
    }
    memcpy(sandbox->tree.stop_text, words, length);
    sandbox->tree.stop_text[length] = '\0';
}

/* The tree has ended by itself: nothing useful runs in that VM any more. */
static void on_stopped_event(struct sandbox *sandbox, const struct term *term) {
    const struct term *reason = term_map_get(term, "reason");
    const struct term *text = term_map_get(term, "text");
    CLEANUP_FREE char *words = NULL;
    if (sandbox->tree.started || !sandbox->node) return; /* the failed start tells it better */
    if (sandbox->tree.ended) return;                     /* it was asked to stop, and others may have to stop yet */
    sandbox->tree.stop_seen = true;
    sandbox->tree.stop_crashed = !reason || term_is_atom(reason, "crash");
    if (!text || !term_to_string(text, &words)) words = NULL;
    take_stop_text(sandbox, words ? words : "");
    node_kill(sandbox->node, "its application has ended");
}

static uint64_t number_at(const struct term *map, const char *key) {
    uint64_t value = 0;
    const struct term *term = term_map_get(map, key);
    return term && term_to_uint64(term, &value) && value <= INT64_MAX ? value : 0;
}

static void on_process_limit_event(struct sandbox *sandbox, const struct term *term) {
    uint64_t count = number_at(term, "count"), limit = number_at(term, "limit");
    limit_reached(sandbox, JAIL_LIMIT_PROCESSES, count, limit, count > limit ? count - limit : 0);
    containment_note(sandbox, "processes");
}

static void on_limit_event(struct sandbox *sandbox, const struct term *term) {
    const struct term *name = term_map_get(term, "limit");
    enum jail_limit limit;
    if (!name || name->type != TERM_ATOM || !limit_find_recorded(name->atom.text, &limit)) return;
    limit_reached(sandbox, limit, number_at(term, "count"), number_at(term, "max"), number_at(term, "killed"));
    containment_note(sandbox, jail_limit_kind(limit)->name);
}

static void on_event(void *data, struct node *node, const char *kind, const struct term *term) {
    static const struct {
        const char *kind;
        void (*take)(struct sandbox *sandbox, const struct term *term);
    } kinds[] = {{"output", log_take_output},   {"log", log_take_record},
                 {"stopped", on_stopped_event}, {"process_limit", on_process_limit_event},
                 {"limit", on_limit_event},     {"reload_settled", live_code_settled}};
    (void)node;
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (strcmp(kinds[i].kind, kind) == 0) kinds[i].take(data, term);
}

static void on_vm_output(void *data, struct node *node, const char *bytes, size_t size) {
    (void)node;
    log_add(data, "vm", NULL, NULL, bytes, size);
}

void tree_violation(struct sandbox *sandbox, struct node *node, const char *what, const char *detail) {
    if (strcmp(what, "limit") == 0) {
        limit_bound_reached(sandbox, detail);
        return;
    }
    struct alarms *alarms = strcmp(what, "network") == 0 ? &sandbox->network.alarms : &sandbox->security.alarms;
    alarm_violation(sandbox->engine, alarms, sandbox->id, node, what, detail);
    containment_note(sandbox, what);
}

static void on_violation(void *data, struct node *node, const char *what, const char *detail) {
    tree_violation(data, node, what, detail);
}

/* ---- ending ---- */

/* The kernel was quicker than any look. */
static void out_of_memory(struct sandbox *sandbox) {
    uint64_t limit = sandbox->config.limits.memory_bytes;
    limit_reached(sandbox, JAIL_LIMIT_MEMORY, limit, limit, 0);
    containment_note(sandbox, "memory");
}

/* Whatever a VM ends of, that it does so again and again is one pattern. */
static void note_end(struct sandbox *sandbox, bool was_steady, const struct error *crash) {
    struct error end;
    if (was_steady) patterns_note(sandbox->engine, sandbox, PATTERN_OWN_END, NULL);
    if (!crash) return;
    error_set(&end, E_NODE, "%s", crash->detail);
    patterns_note(sandbox->engine, sandbox, PATTERN_OWN_END, &end);
}

void tree_ended_with_host(struct sandbox *sandbox) {
    struct error error;
    bool comes_back = sandbox->restarts.policy.kind != RESTART_NEVER;
    error_set(&error, E_NODE, "the host was restarted");
    sandbox->restarts.in_a_row = 0;
    sandbox_set_error(sandbox, &error);
    /* An error while it waits to be started: a daemon that is killed meanwhile leaves it to the next. */
    sandbox_set_status(sandbox, comes_back ? STATUS_ERROR : STATUS_STOPPED, error.detail);
    sandbox_schedule_restart(sandbox, true);
    sandbox_save(sandbox, NULL, NULL);
}

static void ended_by_itself(struct sandbox *sandbox, const struct node_end *end) {
    struct error error = end->error;
    bool crashed = sandbox->tree.stop_seen ? sandbox->tree.stop_crashed : end->cause != NODE_EXITED;
    bool is_for_a_limit = sandbox->limits.error.code != E_NONE;
    if (is_for_a_limit) {
        error = sandbox->limits.error;
        crashed = true;
        sandbox->limits.error = (struct error){0};
    }
    if (sandbox->tree.stop_seen && !is_for_a_limit)
        error_set(&error, E_RUNTIME, "the application ended: %s", sandbox->tree.stop_text);
    if (crashed && !is_for_a_limit) limit_blame(sandbox, &error);
    bool was_steady = (int64_t)clock_boot_ms() - sandbox->times.started_ms > STEADY_MS;
    if (was_steady) sandbox->restarts.in_a_row = 0;
    note_end(sandbox, was_steady, crashed ? &error : NULL);
    sandbox_set_error(sandbox, crashed ? &error : NULL);
    sandbox_set_status(sandbox, crashed ? STATUS_ERROR : STATUS_STOPPED, error.detail);
    if (end->cause == NODE_OUT_OF_MEMORY) out_of_memory(sandbox);
    if (is_for_a_limit ||
        (end->cause == NODE_OUT_OF_MEMORY && sandbox->config.policies.of[JAIL_LIMIT_MEMORY] == JAIL_POLICY_RESTART))
        sandbox_restart_later(sandbox);
    else
        sandbox_schedule_restart(sandbox, crashed);
    sandbox_save(sandbox, NULL, NULL);
}

static void on_gone(void *data, struct node *node, const struct node_end *end) {
    struct sandbox *sandbox = data;
    (void)node;
    sandbox->node = NULL;
    sandbox->tree.exit_status = end->has_exited ? end->status : -1;
    metering_end(sandbox);
    launcher_push_forget(sandbox);
    if (sandbox->tree.ended) {
        void (*ended)(void *) = take_ptr(sandbox->tree.ended);
        ended(sandbox->tree.ended_data);
    } else if (sandbox->tree.started && sandbox->tree.is_warm && !sandbox->tree.start_asked) {
        start_node(sandbox, false); /* one that ended while it waited is no fault of the application's */
    } else if (sandbox->tree.started) {
        start_failed(sandbox, &end->error);
    } else if (sandbox->status == STATUS_RUNNING || sandbox->status == STATUS_RELOADING) {
        if (end->cause == NODE_HOST_RESTARTED)
            tree_ended_with_host(sandbox);
        else
            ended_by_itself(sandbox, end);
        sandbox->security.containment.due = GUARD_LOG; /* the VM that is to come has done nothing yet */
        reload_lost(sandbox, &end->error);
    }
    live_code_gone(sandbox); /* last: a restart that waited for its word begins a new tree */
}

static void kill_on_request(struct sandbox *sandbox) {
    if (sandbox->node) node_kill(sandbox->node, "it was ended on request");
}

static void on_application_stopped(void *data, const struct term *result, const struct term *reason,
                                   const struct error *error) {
    (void)result;
    (void)reason;
    (void)error; /* one that does not stop in time is ended all the same */
    kill_on_request(data);
}

/* Files that outlive the VM are left as the application leaves them, such as a database's. Its own /data goes with the
   sandbox. */
static bool must_stop(const struct sandbox *sandbox) {
    bool may_stop = sandbox->status == STATUS_STOPPING && !sandbox->ending.is_punished;
    bool has_files = json_array_size(sandbox->config.volumes) > 0 ||
                     (sandbox->config.data_size_bytes && !sandbox->ending.is_destroying);
    return has_files && may_stop && !node_is_frozen(sandbox->node);
}

static void stop_application(struct sandbox *sandbox) {
    struct buf args = BUF_INIT;
    term_put_map(&args, 0);
    node_call(sandbox->node, "stop", &args, STOP_MAX_MS, on_application_stopped, sandbox);
}

/* The job that waited for the start ends it, or has been told: it does not hear of a failure from here on. */
void tree_end(struct sandbox *sandbox, void (*ended)(void *data), void *data) {
    names_forgo(sandbox);
    sandbox->tree.started = NULL;
    if (!sandbox->node) {
        ended(data);
        return;
    }
    sandbox->tree.ended = ended;
    sandbox->tree.ended_data = data;
    if (must_stop(sandbox))
        stop_application(sandbox);
    else
        kill_on_request(sandbox);
}

const struct node_handler tree_node_handler = {
    .ready = on_ready, .event = on_event, .output = on_vm_output, .violation = on_violation, .gone = on_gone};
