/* One sandbox: its state, what the registry keeps of it, and how it looks from outside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/policy/containment.h"
#include "core/sandbox/logs.h"
#include "core/sandbox/sandbox.h"
#include "core/sandbox/tree.h"
#include "core/toolchains/own.h"
#include "core/volumes/volumes.h"
#include "core/watch/watching.h"

/* What a sandbox knows of its code: as much as its project is large. */
struct known_code {
    struct build build;
    struct shared_history *history;
    struct way_back *back;
};

static void release_code(void *data) {
    struct known_code *code = data;
    build_free(&code->build);
    history_let_go(code->history);
    way_back_free(code->back);
    free(code);
}

static void discard_code(struct sandbox *sandbox) {
    struct known_code *code = new_or_abort(struct known_code);
    *code = (struct known_code){sandbox->code.build, sandbox->code.history, sandbox->code.probation.back};
    loop_discard(sandbox->engine->loop, release_code, code);
}

static void on_handle_closed(uv_handle_t *handle) {
    struct sandbox *sandbox = handle->data;
    struct engine *engine = sandbox->engine;
    if (--sandbox->open_handles > 0) return;
    loop_note(engine->loop, "destroy", sandbox->id);
    toolchain_hold(&sandbox->toolchain, NULL);
    sandbox_config_free(&sandbox->config);
    discard_code(sandbox);
    feed_release(sandbox->log);
    metering_free(sandbox);
    free(sandbox->tree.app_name);
    free(sandbox->tree.supervisor_module);
    free(sandbox->tree.app_pid);
    free(sandbox->tree.supervisor_pid);
    json_decref(sandbox->last_error);
    free(sandbox);
    engine_part_closed(engine);
}

/* ---- its timers ---- */

enum { TIMERS = 3 };

static void timers_of(struct sandbox *sandbox, uv_timer_t *ret[TIMERS]) {
    ret[0] = &sandbox->ending.ttl;
    ret[1] = &sandbox->restarts.backoff;
    ret[2] = &sandbox->security.containment.destroy;
}

static void open_timers(struct sandbox *sandbox) {
    uv_timer_t *timers[TIMERS];
    timers_of(sandbox, timers);
    for (size_t i = 0; i < TIMERS; i++) {
        uv_timer_init(sandbox->engine->loop, timers[i]);
        timers[i]->data = sandbox;
    }
    sandbox->open_handles = TIMERS;
}

void sandbox_stop_timers(struct sandbox *sandbox) {
    uv_timer_t *timers[TIMERS];
    timers_of(sandbox, timers);
    for (size_t i = 0; i < TIMERS; i++) uv_timer_stop(timers[i]);
}

static void close_timers(struct sandbox *sandbox) {
    uv_timer_t *timers[TIMERS];
    timers_of(sandbox, timers);
    for (size_t i = 0; i < TIMERS; i++) uv_close((uv_handle_t *)timers[i], on_handle_closed);
}

struct sandbox *sandbox_new(struct engine *engine, const char *id, struct error *reterr) {
    if (map_get(&engine->sandboxes, id)) {
        error_set(reterr, E_EXISTS, "there is a sandbox '%s' already; destroy it first, or choose another id", id);
        return NULL;
    }
    struct sandbox *sandbox = calloc(1, sizeof *sandbox);
    if (sandbox) sandbox->log = feed_new(LOG_RECORDS_KEPT, LOG_KEPT_BYTES);
    if (!sandbox || !sandbox->log || !map_set(&engine->sandboxes, id, sandbox)) {
        if (sandbox) feed_release(sandbox->log);
        free(sandbox);
        error_set(reterr, E_NO_MEMORY, "no memory for a sandbox");
        return NULL;
    }
    sandbox->engine = engine;
    sandbox->number = ++engine->sandboxes_made;
    snprintf(sandbox->id, sizeof sandbox->id, "%s", id);
    sandbox->times.created_at_ms = sandbox->times.updated_at_ms = clock_wall_ms();
    sandbox->times.born_ms = sandbox->times.started_ms = (int64_t)clock_boot_ms();
    open_timers(sandbox);
    sandbox->security.alarms.left = sandbox->limits.alarms.left = sandbox->network.alarms.left = ALARMS_BURST;
    metering_init(sandbox);
    engine_part_open(engine);
    return sandbox;
}

void sandbox_remove(struct sandbox *sandbox) {
    map_remove(&sandbox->engine->sandboxes, sandbox->id);
    charge_give_all(sandbox->engine, &sandbox->charge);
    feed_end(sandbox->log);
    watching_end(sandbox);
    close_timers(sandbox);
    engine_wake(sandbox->engine);
}

bool sandbox_visible(const struct sandbox *sandbox, const struct caller *caller) {
    return caller->role == ROLE_ADMIN || caller->uid == sandbox->owner;
}

struct sandbox_ref sandbox_ref(const struct sandbox *sandbox) {
    struct sandbox_ref ref = {.engine = sandbox->engine, .number = sandbox->number};
    memcpy(ref.id, sandbox->id, sizeof ref.id);
    return ref;
}

struct sandbox *sandbox_deref(const struct sandbox_ref *ref) {
    struct sandbox *sandbox = map_get(&ref->engine->sandboxes, ref->id);
    return sandbox && sandbox->number == ref->number ? sandbox : NULL;
}

int sandbox_check_runs(const struct sandbox *sandbox, struct error *reterr) {
    bool is_frozen = sandbox->node && node_is_frozen(sandbox->node);
    if (sandbox->status == STATUS_RUNNING && sandbox->node && !is_frozen) return 0;
    return error_set(reterr, E_CONFLICT, "the sandbox '%s' is %s, not running", sandbox->id,
                     is_frozen ? "frozen" : status_name(sandbox->status));
}

const char *owner_text(uid_t owner, char ret[OWNER_TEXT_BYTES]) {
    snprintf(ret, OWNER_TEXT_BYTES, "uid:%u", owner);
    return ret;
}

struct sandbox *sandbox_find(struct engine *engine, struct request *request, struct error *reterr) {
    const char *id = json_string_value(json_object_get(request->params, "id"));
    struct sandbox *sandbox = id ? map_get(&engine->sandboxes, id) : NULL;
    if (sandbox && sandbox_visible(sandbox, &request->caller)) return sandbox;
    error_set(reterr, E_NOT_FOUND, "there is no sandbox '%s'", id ? id : "");
    return NULL;
}

json_t *problem_json(const struct error *error) {
    const struct error_kind *kind = error_kind(error->code);
    return json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:b, s:s}", "code", kind->slug, "title", kind->title, "status",
                     kind->http_status, "detail", error->detail, "category", error_category_name(kind->category),
                     "recovery", error_recovery_name(kind->recovery), "retry", kind->may_pass, "advice", kind->advice);
}

void sandbox_set_error(struct sandbox *sandbox, const struct error *error) {
    json_decref(sandbox->last_error);
    sandbox->last_error = error ? problem_json(error) : NULL;
}

void sandbox_set_status(struct sandbox *sandbox, enum sandbox_status status, const char *reason) {
    enum sandbox_status from = sandbox->status;
    if (from == status) return;
    if (!status_may_follow(from, status)) {
        struct error error;
        error_set(&error, E_SYSTEM, "no way from %s to %s", status_name(from), status_name(status));
        engine_log_error(sandbox->engine, "bad_transition", sandbox->id, &error);
    }
    sandbox->status = status;
    sandbox->times.updated_at_ms = clock_wall_ms();
    engine_event(sandbox->engine, EVENT_STATUS, sandbox->id,
                 json_pack("{s:s, s:s, s:s?}", "from", status_name(from), "to", status_name(status), "reason", reason));
    watching_wake(sandbox);
    containment_wake(sandbox);
    bool is_waited_for = from == STATUS_STARTING || status == STATUS_STOPPING;
    if (is_waited_for && sandbox->engine->pool) pool_put_off(sandbox->engine->pool);
}

/* ---- the registry ---- */

static json_t *lost_json(uint32_t lost) {
    json_t *array = json_array();
    for (int i = 0; i < JAIL_GUARANTEE_COUNT; i++)
        if (lost & 1u << i) json_array_append_new(array, json_string(jail_guarantee_name((enum jail_guarantee)i)));
    return array;
}

static uint32_t lost_from_json(json_t *names) {
    uint32_t lost = 0;
    size_t i;
    json_t *name;
    json_array_foreach(names, i, name) {
        enum jail_guarantee guarantee;
        if (json_is_string(name) && jail_guarantee_find(json_string_value(name), &guarantee) == 0)
            lost |= 1u << guarantee;
    }
    return lost;
}

/* What takes a change back is printed already: it may have thousands of modules. */
static char *config_to_text(json_t *config, const struct probation *probation) {
    struct buf text = BUF_INIT;
    term_json_write(config, &text);
    if (probation->id[0] && probation->back && text.size > 0) {
        text.size--; /* the last brace */
        buf_append_string(&text, ",\"undo\":");
        buf_append_string(&text, probation->back->undo);
        buf_append_string(&text, "}");
    }
    return buf_take_string(&text);
}

void sandbox_save_as(struct sandbox *sandbox, enum sandbox_status status, store_done_fn done, void *data) {
    json_t *config = sandbox_config_to_json(&sandbox->config);
    json_object_set_new(config, "lost_guarantees", lost_json(sandbox->lost_guarantees));
    json_object_set_new(config, "restarts_in_a_row", json_integer(sandbox->restarts.in_a_row));
    json_object_set_new(config, "starts_fresh", json_boolean(sandbox->tree.starts_fresh));
    json_object_set_new(config, "born",
                        json_pack("{s:s, s:I}", "boot_id", sandbox->engine->wall_clock.boot_id, "ms",
                                  (json_int_t)sandbox->times.born_ms));
    json_object_set_new(config, "last_reload", json_string(sandbox->code.last_reload));
    json_object_set_new(config, "previous_build", json_string(sandbox->code.previous_build));
    json_object_set_new(config, "booted_build", json_string(sandbox->code.booted_build));
    json_object_set_new(config, "boot_id", json_string(sandbox->boot_id));
    json_object_set_new(config, "has_not_started", json_boolean(sandbox->tree.has_not_started));
    json_object_set_new(config, "schedulers", json_integer((json_int_t)sandbox->tree.schedulers));
    if (sandbox->code.probation.id[0])
        json_object_set_new(
            config, "probation",
            json_pack("{s:s, s:s}", "id", sandbox->code.probation.id, "build", sandbox->code.probation.build));
    CLEANUP_FREE char *config_text = config_to_text(config, &sandbox->code.probation);
    CLEANUP_FREE char *error_text = sandbox->last_error ? json_dumps(sandbox->last_error, JSON_COMPACT) : NULL;
    json_decref(config);
    struct store_sandbox row = {
        .id = sandbox->id,
        .status = status_name(status),
        .source = sandbox->config.source,
        .profile = sandbox->config.profile->jail.name,
        .owner_uid = sandbox->owner,
        .created_at_ms = sandbox->times.created_at_ms,
        .updated_at_ms = sandbox->times.updated_at_ms,
        .restart_count = sandbox->restarts.count,
        .node = sandbox->node ? node_name(sandbox->node) : NULL,
        .secret = sandbox->node ? node_secret(sandbox->node) : NULL,
        .build = sandbox->code.build.digest[0] ? sandbox->code.build.digest : NULL,
        .config = config_text,
        .last_error = error_text,
    };
    sandbox->persistent = true;
    store_put_sandbox(sandbox->engine->store, &row, done, data);
}

void sandbox_save(struct sandbox *sandbox, store_done_fn done, void *data) {
    sandbox_save_as(sandbox, sandbox->status, done, data);
}

/* An earlier version of the registry had `undo` inside. */
static void restore_probation(struct sandbox *sandbox, json_t *json, json_t *undo) {
    if (!undo) undo = json_object_get(json, "undo");
    const char *id = json_string_value(json_object_get(json, "id"));
    const char *build = json_string_value(json_object_get(json, "build"));
    if (!id || !build) return;
    snprintf(sandbox->code.probation.id, sizeof sandbox->code.probation.id, "%s", id);
    snprintf(sandbox->code.probation.build, sizeof sandbox->code.probation.build, "%s", build);
    if (json_is_object(undo)) sandbox->code.probation.back = way_back_make(history_of(NULL), sandbox->id, undo);
}

/* A profile that is not in the configuration any more can't be enforced; the strictest can. */
static void use_known_profile(const struct engine *engine, json_t *config) {
    const char *name = json_string_value(json_object_get(config, "profile"));
    if (name && !guard_profile_find(&engine->profiles, name))
        json_object_set_new(config, "profile", json_string(JAIL_STRICTEST_PROFILE));
}

/* By the machine's own clock if it has not been started again since; else by the wall clock, which may have been
   stepped: an age is at least 0. */
static int64_t restore_born(const struct sandbox *sandbox, json_t *born) {
    int64_t now_ms = (int64_t)clock_boot_ms(), born_ms = json_integer_value(json_object_get(born, "ms"));
    const char *boot_id = json_string_value(json_object_get(born, "boot_id"));
    bool is_this_run = boot_id && boot_id[0] && strcmp(boot_id, sandbox->engine->wall_clock.boot_id) == 0;
    return is_this_run && born_ms <= now_ms ? born_ms : now_ms - wall_clock_age_ms(sandbox->times.created_at_ms);
}

static int restore_toolchain(struct sandbox *sandbox, uid_t owner, struct error *reterr) {
    const struct sandbox_config *config = &sandbox->config;
    struct toolchain_entry *entry = NULL;
    int result = config->own_toolchain
                     ? own_restore(sandbox->engine, owner, config->toolchain, config->own_toolchain, &entry, reterr)
                     : toolchains_restore(sandbox->engine, config->toolchain, &entry, reterr);
    if (result == 0) toolchain_hold(&sandbox->toolchain, entry);
    return result;
}

static int restore_fields(struct sandbox *sandbox, const struct store_sandbox *row, struct error *reterr) {
    json_t *config = row->config ? json_loads(row->config, 0, NULL) : NULL;
    use_known_profile(sandbox->engine, config);
    int result = config ? sandbox_config_from_json(&sandbox->engine->profiles, config, &sandbox->config, reterr)
                        : error_set(reterr, E_SYSTEM, "the registry's configuration of '%s' is damaged", row->id);
    sandbox->lost_guarantees = lost_from_json(json_object_get(config, "lost_guarantees"));
    sandbox->restarts.in_a_row = (uint32_t)json_integer_value(json_object_get(config, "restarts_in_a_row"));
    sandbox->tree.starts_fresh = json_is_true(json_object_get(config, "starts_fresh"));
    sandbox->tree.has_not_started = json_is_true(json_object_get(config, "has_not_started"));
    sandbox->tree.schedulers = (uint64_t)json_integer_value(json_object_get(config, "schedulers"));
    const char *last_reload = json_string_value(json_object_get(config, "last_reload"));
    snprintf(sandbox->code.last_reload, sizeof sandbox->code.last_reload, "%s", last_reload ? last_reload : "");
    const char *previous_build = json_string_value(json_object_get(config, "previous_build"));
    snprintf(sandbox->code.previous_build, sizeof sandbox->code.previous_build, "%s",
             previous_build ? previous_build : "");
    const char *booted_build = json_string_value(json_object_get(config, "booted_build"));
    snprintf(sandbox->code.booted_build, sizeof sandbox->code.booted_build, "%s", booted_build ? booted_build : "");
    const char *boot_id = json_string_value(json_object_get(config, "boot_id"));
    snprintf(sandbox->boot_id, sizeof sandbox->boot_id, "%s", boot_id ? boot_id : "");
    restore_probation(sandbox, json_object_get(config, "probation"), json_object_get(config, "undo"));
    sandbox->times.created_at_ms = row->created_at_ms;
    sandbox->times.born_ms = restore_born(sandbox, json_object_get(config, "born"));
    json_decref(config);
    if (result == 0 && row->build)
        result = build_read(sandbox->engine->store, row->build, &sandbox->code.build, reterr);
    if (result == 0) result = restore_toolchain(sandbox, row->owner_uid, reterr);
    if (result < 0) return result;
    restart_policy_parse(sandbox->config.restart ? sandbox->config.restart : "never", &sandbox->restarts.policy);
    if (!status_find(row->status, &sandbox->status)) sandbox->status = STATUS_ERROR;
    if (sandbox->status == STATUS_RELOADING) sandbox->status = STATUS_RUNNING; /* its node knows how that ended */
    sandbox->owner = row->owner_uid;
    sandbox->times.updated_at_ms = sandbox->times.started_at_ms = row->updated_at_ms;
    sandbox->times.started_ms = (int64_t)clock_boot_ms() - wall_clock_age_ms(row->updated_at_ms);
    sandbox->restarts.count = row->restart_count;
    sandbox->last_error = row->last_error ? json_loads(row->last_error, 0, NULL) : NULL;
    sandbox->persistent = true;
    return 0;
}

int sandbox_restore(struct engine *engine, const struct store_sandbox *row, struct error *reterr) {
    struct sandbox *sandbox = sandbox_new(engine, row->id, reterr);
    if (!sandbox) return -(int)reterr->code;
    int result = restore_fields(sandbox, row, reterr);
    if (result == 0 && sandbox->config.ephemeral)
        result = error_set(reterr, E_CONFLICT, "it belonged to a run, whose caller is gone");
    if (result == 0 && row->node && row->secret)
        result = node_expect(&engine->host, row->node, row->secret, NODE_APPLICATION, &tree_node_handler, sandbox,
                             &sandbox->node, reterr);
    if (sandbox->node) node_set_owner(sandbox->node, sandbox->owner);
    if (result < 0) {
        sandbox_remove(sandbox);
    } else {
        charge_restored(engine, sandbox->owner, &sandbox->config.limits, &sandbox->charge);
        charge_ports(engine, &sandbox->charge, sandbox->config.ports.count, true, NULL);
        sandbox_start_ttl(sandbox);
    }
    return result;
}

/* ---- time to live ---- */

enum { EXPIRY_RETRY_MS = 1000 };

static void on_expired(uv_timer_t *timer);

/* Retry: the registry may be writable later (disk full). */
static void on_expired_destroyed(void *data, const struct error *error) {
    struct sandbox *sandbox = data;
    if (error) uv_timer_start(&sandbox->ending.ttl, on_expired, EXPIRY_RETRY_MS, 0);
}

static void on_expired(uv_timer_t *timer) {
    struct sandbox *sandbox = timer->data;
    engine_event(sandbox->engine, EVENT_EXPIRED, sandbox->id, json_object());
    sandbox_destroy(sandbox, "its time to live is over", on_expired_destroyed, sandbox);
}

void sandbox_start_ttl(struct sandbox *sandbox) {
    uint64_t life_ms = sandbox->config.limits.ttl_ms;
    if (life_ms == 0) return;
    int64_t left_ms = sandbox->times.born_ms + (int64_t)life_ms - (int64_t)clock_boot_ms();
    uv_timer_start(&sandbox->ending.ttl, on_expired, left_ms > 0 ? (uint64_t)left_ms : 0, 0);
}

/* ---- as JSON ---- */

static json_t *limits_json(const struct jail_limits *limits) {
    json_t *object = json_object();
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) {
        uint64_t value = jail_limit_value(limits, i);
        json_object_set_new(object, jail_limit_kind(i)->field, value ? json_integer((json_int_t)value) : json_null());
    }
    return object;
}

static json_t *number_or_null(bool known, uint64_t value) {
    return known ? json_integer((json_int_t)value) : json_null();
}

static json_t *usage_json(struct sandbox *sandbox) {
    static const enum meter_metric shown[] = {METER_MEMORY, METER_CPU, METER_PROCESSES, METER_ATOMS};
    bool lives = sandbox->node != NULL;
    json_t *object = json_object();
    metering_look(sandbox);
    for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
        json_object_set_new(object, meter_metric_name(shown[i]),
                            lives ? metering_value_json(shown[i], sandbox->metering.now.values[shown[i]])
                                  : json_null());
    metering_put_traffic(sandbox, object);
    json_object_set_new(
        object, "uptime_ms",
        number_or_null(lives && sandbox->times.started_at_ms, clock_boot_ms() - (uint64_t)sandbox->times.started_ms));
    return object;
}

static json_t *text_or_null(const char *text) {
    return text ? json_string(text) : json_null();
}

static void set_time(json_t *object, const char *name, int64_t wall_ms) {
    char text[RFC3339_BYTES];
    clock_rfc3339(wall_ms, text);
    json_object_set_new(object, name, json_string(text));
}

static const char *network_name(const struct sandbox *sandbox) {
    bool has_loopback = sandbox->config.ports.has_loopback;
    return jail_network_name(has_loopback ? JAIL_NETWORK_LOOPBACK : sandbox->config.profile->jail.network);
}

json_t *sandbox_to_json(struct sandbox *sandbox) {
    char owner[OWNER_TEXT_BYTES];
    json_t *modules = json_object_get(sandbox->code.build.facts, "modules");
    json_t *object = json_object();
    json_object_set_new(object, "id", json_string(sandbox->id));
    json_object_set_new(object, "status", json_string(status_name(sandbox->status)));
    json_object_set_new(object, "app_name", text_or_null(sandbox->tree.app_name));
    json_object_set_new(object, "supervisor_module", text_or_null(sandbox->tree.supervisor_module));
    json_object_set_new(object, "app_pid", text_or_null(sandbox->tree.app_pid));
    json_object_set_new(object, "supervisor_pid", text_or_null(sandbox->tree.supervisor_pid));
    json_object_set_new(object, "os_pid",
                        number_or_null(sandbox->node && node_os_pid(sandbox->node),
                                       sandbox->node ? (uint64_t)node_os_pid(sandbox->node) : 0));
    json_object_set_new(object, "schedulers",
                        number_or_null(sandbox->node && sandbox->tree.schedulers, sandbox->tree.schedulers));
    set_time(object, "created_at", sandbox->times.created_at_ms);
    set_time(object, "updated_at", sandbox->times.updated_at_ms);
    json_object_set_new(object, "restart_count", json_integer(sandbox->restarts.count));
    json_object_set_new(object, "source", json_string(sandbox->config.source));
    json_object_set_new(object, "profile", json_string(sandbox->config.profile->jail.name));
    json_object_set_new(object, "toolchain", json_string(sandbox->toolchain->name));
    json_object_set_new(object, "owner", json_string(owner_text(sandbox->owner, owner)));
    json_object_set_new(object, "limits", limits_json(&sandbox->config.limits));
    compile_bounds_put(&sandbox->config.compile_bounds, object);
    if (sandbox->config.extra == COMPILE_WITH_SOURCES) json_object_set_new(object, "with_sources", json_true());
    json_object_set_new(object, "usage", usage_json(sandbox));
    json_object_set_new(object, "network", json_string(network_name(sandbox)));
    ports_to_json(&sandbox->config.ports, object);
    json_object_set_new(object, "auto_reload", json_boolean(sandbox->config.watch));
    json_object_set_new(object, "frozen", json_boolean(sandbox->node && node_is_frozen(sandbox->node)));
    json_object_set_new(object, "modules", modules ? json_incref(modules) : json_array());
    json_object_set_new(object, "data_size_bytes",
                        number_or_null(sandbox->config.data_size_bytes > 0, sandbox->config.data_size_bytes));
    json_object_set_new(object, "volumes", volumes_to_json(sandbox->config.volumes));
    json_object_set_new(object, "lost_guarantees", lost_json(sandbox->lost_guarantees));
    json_object_set_new(object, "patterns", patterns_to_json(&sandbox->security.patterns, clock_monotonic_ms()));
    json_object_set_new(object, "last_error", sandbox->last_error ? json_incref(sandbox->last_error) : json_null());
    return object;
}
