/* Queries: info, events, profiles, doctor, health. None of them waits for a busy sandbox. */
#include <string.h>

#include "confine/confine.h"
#include "core/core_internal.h"
#include "core/notify.h"
#include "core/sandbox/sandbox.h"

/* ---- info ---- */

static json_t *make_info(struct engine *engine, struct request *request, struct error *reterr) {
    struct sandbox *sandbox = sandbox_find(engine, request, reterr);
    return sandbox ? sandbox_to_json(sandbox) : NULL;
}

static void on_asked(void *data, struct sandbox *sandbox) {
    struct request *request = data;
    (void)sandbox;
    answer_made(request->state, request, make_info);
}

void engine_info(struct engine *engine, struct request *request) {
    struct error error;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    request->state = engine;
    if (sandbox)
        metering_ask_recent(sandbox, on_asked, request);
    else
        answer_error(engine, request, &error, NULL);
}

/* ---- events ---- */

/* An event belongs to the user who owned its sandbox at the time; the id may be another user's by now. An event without
   an owner is the service's own, or older than this member: it is for admins. */
bool event_visible(const struct caller *caller, const json_t *event) {
    char text[OWNER_TEXT_BYTES];
    const char *owner = json_string_value(json_object_get(event, "owner"));
    return caller->role == ROLE_ADMIN || (owner && strcmp(owner, owner_text(caller->uid, text)) == 0);
}

static bool may_see_event(void *data, const struct caller *caller, const json_t *record) {
    (void)data;
    return event_visible(caller, record);
}

void engine_events(struct engine *engine, struct request *request) {
    json_t *params = request->params;
    struct feed_filter filter = {
        .since = (uint64_t)json_integer_value(json_object_get(params, "since")),
        .tail = SIZE_MAX,
        .sandbox_id = json_string_value(json_object_get(params, "sandbox_id")),
        .may_see = may_see_event,
    };
    feed_stream(engine, engine->events, request, &filter, json_is_true(json_object_get(params, "follow")));
}

/* ---- the service itself ---- */

static json_t *steps_json(const struct escalation_policy *policy) {
    json_t *steps = json_array();
    for (size_t i = 0; i < policy->step_count; i++)
        json_array_append_new(steps, json_string(guard_containment_name((enum guard_containment)policy->steps[i])));
    return steps;
}

static json_t *bound_json(uint64_t bytes) {
    return bytes ? json_integer((json_int_t)bytes) : json_null();
}

static json_t *hosts_json(const struct jail_egress *egress) {
    json_t *hosts = json_array();
    for (size_t i = 0; i < egress->host_count; i++) {
        char host[JAIL_HOST_TEXT_BYTES];
        jail_host_print(&egress->hosts[i], host);
        json_array_append_new(hosts, json_string(host));
    }
    for (size_t i = 0; i < egress->name_count; i++) {
        CLEANUP(buf_free) struct buf name = BUF_INIT;
        jail_named_print(&egress->names[i], &name);
        json_array_append_new(hosts, json_string(buf_string(&name)));
    }
    return hosts;
}

static json_t *egress_json(const struct jail_egress *egress, const struct jail_limits *limits) {
    json_t *ports = json_array();
    for (size_t i = 0; i < egress->port_count; i++) json_array_append_new(ports, json_integer(egress->ports[i]));
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "reach", jail_reach_name(egress->reach), "hosts",
                     hosts_json(egress), "ports", ports, "connections", bound_json(limits->connections),
                     "network_rate_bytes", bound_json(limits->network_rate_bytes), "network_total_bytes",
                     bound_json(limits->network_total_bytes));
}

static json_t *names_json(const char *names) {
    json_t *array = json_array();
    for (const char *at = names; *at;) {
        size_t length = strcspn(at, ",");
        json_array_append_new(array, json_stringn(at, length));
        at += length + (at[length] == ',');
    }
    return array;
}

/* null: every user may choose it. */
static json_t *access_json(const struct guard_access *access) {
    if (!access->is_restricted) return json_null();
    return json_pack("{s:o, s:o}", "users", names_json(access->user_names), "groups", names_json(access->group_names));
}

static json_t *profile_json(const struct guard_profile *guard) {
    const struct jail_profile *profile = &guard->jail;
    const struct jail_limits *limits = &profile->limits;
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:I}", "name", profile->name, "summary",
                  profile->summary, "isolation", profile->isolation, "operations", profile->operations, "network",
                  jail_network_name(profile->network), "may_exec", profile->may_exec, "memory_bytes",
                  (json_int_t)limits->memory_bytes, "processes", (json_int_t)limits->processes, "max_run_ms",
                  (json_int_t)limits->max_run_ms, "disk_bytes", (json_int_t)limits->disk_bytes);
    json_object_set_new(object, "scan", json_string(guard_scan_name(guard->scan)));
    json_object_set_new(object, "audit", json_string(guard_audit_name(guard->audit)));
    json_object_set_new(object, "on_violation", steps_json(&guard->on_violation));
    json_object_set_new(object, "escalate_after", json_integer(guard->on_violation.after));
    json_object_set_new(object, "escalate_within_ms", json_integer((json_int_t)guard->on_violation.within_ms));
    json_object_set_new(object, "egress",
                        profile->network == JAIL_NETWORK_OUTGOING ? egress_json(&profile->egress, limits)
                                                                  : json_null());
    json_object_set_new(object, "access", access_json(&guard->access));
    json_object_set_new(object, "inherits", guard->inherits[0] ? json_string(guard->inherits) : json_null());
    json_object_set_new(object, "cpu_percent",
                        limits->cpu_percent ? json_integer((json_int_t)limits->cpu_percent) : json_null());
    return object;
}

void engine_profiles(struct engine *engine, struct request *request) {
    json_t *array = json_array();
    for (size_t i = 0; i < engine->profiles.count; i++)
        json_array_append_new(array, profile_json(&engine->profiles.items[i]));
    answer_ok(engine, request, array);
}

/* What the daemon itself is held to. */
static json_t *daemon_json(void) {
    struct confine_bounds bounds = confine_bounds();
    return json_pack("{s:o, s:b}", "memory_limit_bytes",
                     bounds.memory_bytes ? json_integer((json_int_t)bounds.memory_bytes) : json_null(), "filtered",
                     bounds.is_filtered);
}

void engine_doctor(struct engine *engine, struct request *request) {
    const struct jail_features *features = &engine->host.features;
    const struct toolchain_entry *entry = toolchains_default(engine);
    const struct toolchain *toolchain = &entry->toolchain;
    json_t *guarantees = json_array();
    for (int i = 0; i < JAIL_GUARANTEE_COUNT; i++)
        json_array_append_new(guarantees,
                              json_pack("{s:s, s:s, s:b}", "name", jail_guarantee_name((enum jail_guarantee)i),
                                        "meaning", jail_guarantee_meaning((enum jail_guarantee)i), "given",
                                        (features->guarantees & 1u << i) != 0));
    json_t *tools = json_pack("{s:s, s:s, s:s, s:s}", "otp", toolchain->otp_root, "otp_release", toolchain->otp_release,
                              "elixir", toolchain->elixir_lib, "elixir_version", toolchain->elixir_version);
    json_object_set_new(tools, "problem", entry->error.code ? json_string(entry->error.detail) : json_null());
    answer_ok(engine, request,
              json_pack("{s:o, s:i, s:i, s:b, s:b, s:o, s:o, s:o}", "guarantees", guarantees, "cgroup_version",
                        features->cgroup_version, "landlock_abi", features->landlock_abi, "root", features->root,
                        "launcher", engine->link_up, "daemon", daemon_json(), "toolchain", tools, "patterns",
                        patterns_visible(engine, &request->caller)));
}

static json_t *turn_to_json(const struct loop_turn *turn) {
    char time[RFC3339_BYTES];
    clock_rfc3339(turn->at_ms, time);
    return json_pack("{s:s, s:I, s:s, s:s}", "time", time, "cpu_us", (json_int_t)turn->cpu_us, "work", turn->work,
                     "detail", turn->detail);
}

/* How busy strangers keep the one thread that serves all callers. */
static json_t *loop_to_json(const struct engine *engine) {
    const struct loop_report *report = loop_report(engine->loop);
    json_t *worst = json_array();
    for (size_t i = 0; report && i < report->worst_count; i++)
        json_array_append_new(worst, turn_to_json(&report->worst[i]));
    return json_pack("{s:I, s:I, s:o}", "turns", (json_int_t)(report ? report->turns : 0), "turns_over_5ms",
                     (json_int_t)(report ? report->long_turns : 0), "worst", worst);
}

void engine_health(struct engine *engine, struct request *request) {
    const char *status = !engine->ready ? "starting" : engine->link_up ? "ok" : "degraded";
    answer_ok(engine, request,
              json_pack("{s:s, s:s, s:i, s:i, s:b, s:o, s:o, s:I, s:I}", "status", status, "version", SANDBOX_VERSION,
                        "sandboxes", (int)engine->sandboxes.count, "warm_nodes", (int)pool_ready(engine->pool),
                        "launcher", engine->link_up, "webhook", notify_to_json(engine), "loop", loop_to_json(engine),
                        "lost_writes", (json_int_t)store_lost_writes(engine->store, NULL), "uptime_ms",
                        (json_int_t)clock_boot_ms() - engine->wall_clock.opened_boot_ms));
}
