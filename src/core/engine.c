/* The engine: its events, what the launcher tells of nodes, and opening, which restores what the registry and the disk
   keep of sandboxes. */
#include "audit/audit.h"
#include "core/core_internal.h"
#include "core/network/names.h"
#include "core/notify.h"
#include "core/policy/audit.h"
#include "core/policy/event_bound.h"
#include "core/queue.h"
#include "core/reload/reload.h"
#include "core/sandbox/sandbox.h"
#include "core/sandbox/tree.h"
#include "core/toolchains/own.h"
#include "core/volumes/volumes.h"
#include "core/watch/watching.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void engine_config_defaults(struct engine_config *ret) {
    *ret = (struct engine_config){
        .sandboxes_max = 2000,
        .heartbeat_ms = 5000,
        .heartbeat_deadline_ms = 15000,
        .boot_deadline_ms = 30000,
        .settle_ms = 1000,
        .compile_deadline_ms = 300000,
        .compile_deadline_max_ms = 3600000,
        .compile_memory_max_bytes = UINT64_C(4) << 30,
        .warm_nodes = 8,
        .compiler = {.idle_ms = 60000, .warm_max = 4, .spares = 1, .cache_max_bytes = UINT64_C(1) << 30},
        .grace_ms = 600000,
        .audit_file_max_bytes = audit_default_limits.file_max_bytes,
        .audit_files_kept = audit_default_limits.files_kept,
    };
}

/* ---- events ---- */

static const char *const event_slugs[] = {
#define X(name, slug, meaning, data) [EVENT_##name] = slug,
    EVENT_KIND_LIST(X)
#undef X
};

const char *event_slug(enum event_kind kind) {
    return event_slugs[kind];
}

static void tell(struct engine *engine, enum event_kind kind, const char *sandbox_id, const uid_t *owner,
                 json_t *data) {
    char text[OWNER_TEXT_BYTES];
    json_t *event =
        json_pack("{s:s, s:s?, s:s?, s:o}", "kind", event_slugs[kind], "sandbox_id", sandbox_id, "owner",
                  owner ? owner_text(*owner, text) : NULL, "data", data ? event_bounded(data) : json_object());
    if (!event) return;
    store_add_event(engine->store, feed_add(engine->events, event));
    notify_event(engine, kind, event);
}

void engine_event(struct engine *engine, enum event_kind kind, const char *sandbox_id, json_t *data) {
    const struct sandbox *sandbox = sandbox_id ? map_get(&engine->sandboxes, sandbox_id) : NULL;
    tell(engine, kind, sandbox_id, sandbox ? &sandbox->owner : NULL, data);
}

void engine_event_of(struct engine *engine, enum event_kind kind, uid_t owner, json_t *data) {
    tell(engine, kind, NULL, &owner, data);
}

void engine_log_error(struct engine *engine, const char *event, const char *sandbox_id, const struct error *error) {
    if (engine->config.log)
        log_line(engine->config.log, LOG_ERROR_LEVEL, event, "sandbox", sandbox_id, "code",
                 error_kind(error->code)->slug, "detail", error->detail, NULL);
}

/* ---- the launcher ---- */

static void on_stranger_buried(void *data, const struct jail_death *death, const struct error *error) {
    (void)data;
    (void)death;
    (void)error;
}

static void on_link_node(void *data, const struct link_node *info) {
    struct engine *engine = data;
    struct node *node = node_find(&engine->host, info->name);
    if (node) {
        node_adopted(node, info);
        return;
    }
    fd_close(info->pidfd);
    fd_close(info->output_fd);
    link_bury(engine->host.link, info->name, on_stranger_buried,
              NULL); /* no sandbox's: its create or destroy was cut short */
}

/* Whether its VM was started in another boot of the machine. */
static bool is_of_another_boot(const struct sandbox *sandbox) {
    const char *now = sandbox->engine->wall_clock.boot_id;
    return now[0] && sandbox->boot_id[0] && strcmp(now, sandbox->boot_id) != 0;
}

/* One that the registry says runs, without a node. */
static void settle_without_node(struct sandbox *sandbox) {
    if (is_of_another_boot(sandbox))
        tree_ended_with_host(sandbox);
    else
        sandbox_set_status(sandbox, STATUS_ERROR, "its VM ended while no daemon ran");
}

/* What became of a sandbox while no daemon ran, and what was to come next. */
static void settle(struct sandbox *sandbox) {
    bool lost = sandbox->node && node_os_pid(sandbox->node) == 0;
    if (lost) /* its end decides what follows, unless a restart was under way */
        node_lost(sandbox->node, is_of_another_boot(sandbox));
    else if (!sandbox->node && sandbox->status == STATUS_RUNNING)
        settle_without_node(sandbox);
    if (sandbox->status == STATUS_STARTING)
        sandbox_resume_restart(sandbox);
    else if (!lost && (sandbox->status == STATUS_ERROR || sandbox->status == STATUS_STOPPED))
        sandbox_schedule_restart(sandbox, sandbox->status == STATUS_ERROR);
}

static void on_first_probe(void *data, const struct error *error) {
    struct engine *engine = data;
    size_t at = 0;
    void *sandbox;
    /* The job that needs the toolchain reports an error. */
    if (!error) pool_begin(engine->pool, &toolchains_default(engine)->toolchain);
    engine->ready = true;
    while (map_next(&engine->sandboxes, &at, NULL, &sandbox))
        if (((struct sandbox *)sandbox)->config.watch) watching_begin(sandbox);
    engine_event(engine, EVENT_SERVICE_READY, NULL, json_pack("{s:i}", "sandboxes", (int)engine->sandboxes.count));
}

static void on_link_up(void *data, const struct jail_features *features) {
    struct engine *engine = data;
    size_t at = 0;
    void *sandbox;
    engine->host.features = *features;
    engine->link_up = true;
    if (engine->ready) {
        volumes_learn(engine);
        engine_event(engine, EVENT_LAUNCHER_BACK, NULL, NULL);
        return;
    }
    own_sweep_permissions(engine);
    volumes_sweep(engine);
    volumes_learn(engine);
    while (map_next(&engine->sandboxes, &at, NULL, &sandbox)) settle(sandbox);
    toolchain_need(toolchains_default(engine), on_first_probe, engine);
}

static void on_link_down(void *data) {
    struct engine *engine = data;
    if (engine->link_up && !engine->closing.is_begun) engine_event(engine, EVENT_LAUNCHER_LOST, NULL, NULL);
    engine->link_up = false;
}

static void on_link_port(void *data, const struct link_port *port) {
    ports_told(data, port);
}

static void on_link_violation(void *data, const struct link_violation *violation) {
    struct engine *engine = data;
    struct node *node = node_find(&engine->host, violation->node);
    if (node) node_violation(node, violation);
}

/* ---- opening ---- */

static int make_folder(const char *home, const char *name, mode_t mode, struct error *reterr) {
    char path[PATH_MAX];
    int result = string_format(path, sizeof path, reterr, "%s/%s", home, name);
    if (result == 0 && mkdir(path, mode) < 0 && errno != EEXIST) result = error_errno(reterr, errno, "making %s", path);
    return result;
}

static int make_folders(const char *home, struct error *reterr) {
    static const char *const names[] = {"nodes", "toolchain", "store"};
    int result = 0;
    for (size_t i = 0; i < ARRAY_SIZE(names) && result == 0; i++) result = make_folder(home, names[i], 0700, reterr);
    return result;
}

struct restored {
    struct engine *engine;
    size_t count;
    bool ended_well; /* the daemon that wrote the last of them */
};

static void restore_event(void *data, json_t *event) {
    struct restored *restored = data;
    const char *kind = json_string_value(json_object_get(event, "kind"));
    feed_restore(restored->engine->events, event);
    restored->count++;
    restored->ended_well = string_equal(kind, event_slugs[EVENT_SERVICE_ENDED]);
}

/* The number of the first event of this daemon is on disk before it is told: were it killed before the store had any of
   its events, the next one would begin with the same. Fixed in width, so that a new number replaces the old. Best
   effort: a disk that is full is no reason not to start. */
static void note_first_event(struct engine *engine, const struct restored *restored) {
    char path[PATH_MAX], text[32] = "";
    uint64_t before = 0, *next = &engine->events->next_seq;
    if (string_format(path, sizeof path, NULL, "%s/store/first_event", engine->config.home) < 0) return;
    CLEANUP_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    ssize_t length = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    text[length > 0 ? strcspn(text, "\n") : 0] = '\0';
    if (!parse_u64(text, &before)) before = 0;
    bool is_first = before == 0 && restored->count == 0;
    bool ended_well = restored->ended_well && *next > before; /* else the last one left no event at all */
    if (before > *next) *next = before;
    engine->has_run = !is_first;
    if (!is_first && !ended_well) feed_skip(engine->events, EVENTS_UNSAVED_MAX);
    snprintf(text, sizeof text, "%020llu\n", (unsigned long long)*next);
    if (fd >= 0 && pwrite(fd, text, strlen(text), 0) < 0) unlink(path);
}

/* A daemon that was killed may have told events that the store did not have yet. Their numbers are not used again: a
   follower asks for what comes after the last one it saw. */
static int restore_events(struct engine *engine, struct error *reterr) {
    struct restored restored = {.engine = engine};
    int result = store_load_events(engine->store, EVENTS_KEPT, restore_event, &restored, reterr);
    if (result == 0) note_first_event(engine, &restored);
    return result;
}

static void restore_row(void *data, const struct store_sandbox *row) {
    struct engine *engine = data;
    struct error error;
    if (sandbox_restore(engine, row, &error) < 0) {
        engine_log_error(engine, "sandbox_not_restored", row->id, &error);
        store_delete_sandbox(engine->store, row->id, NULL, NULL);
    }
}

/* Control directories of nodes that are in no registry. */
static void sweep_control_dirs(struct engine *engine) {
    char path[PATH_MAX], below[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/nodes", engine->config.home);
    DIR *directory = opendir(path);
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        if (entry->d_name[0] == '.' || node_find(&engine->host, entry->d_name)) continue;
        snprintf(below, sizeof below, "%s/%s/agent.sock", path, entry->d_name);
        unlink(below);
        *strrchr(below, '/') = '\0';
        rmdir(below);
    }
    if (directory) closedir(directory);
}

static void restore_usage(void *data, const struct store_usage *row) {
    metering_restore(data, row->sandbox, row->at_ms, row->text);
}

static void restore_history(void *data, const struct store_history *row) {
    live_code_restore(data, row);
}

static void restore_code(struct engine *engine) {
    size_t at = 0;
    void *value;
    while (map_next(&engine->sandboxes, &at, NULL, &value)) {
        struct sandbox *sandbox = value;
        const struct build *build = &sandbox->code.build;
        live_code_restored(sandbox);
        if (build->facts)
            ledger_add(&engine->builds.ledger, sandbox->owner, build->digest, build_bytes(build->facts), false);
    }
}

/* ---- builds ---- */

static int on_build_wanted(void *data, uid_t owner, uint64_t bytes, struct error *reterr) {
    struct engine *engine = data;
    return ledger_admit(&engine->builds.ledger, owner, bytes, reterr);
}

static void on_build_kept(void *data, uid_t owner, const char *digest, uint64_t bytes) {
    struct engine *engine = data;
    if (digest[0])
        ledger_add(&engine->builds.ledger, owner, digest, bytes, true);
    else
        ledger_give_back(&engine->builds.ledger, owner, bytes);
}

static void on_quiet(void *data) {
    engine_wake(data);
}

static bool is_start_awaited(void *data) {
    const struct engine *engine = data;
    size_t at = 0;
    void *sandbox;
    while (map_next(&engine->sandboxes, &at, NULL, &sandbox))
        if (((struct sandbox *)sandbox)->status == STATUS_STARTING) return true;
    return false;
}

static int open_audit(struct engine *engine, struct error *reterr) {
    struct audit_limits limits = {.file_max_bytes = engine->config.audit_file_max_bytes,
                                  .files_kept = engine->config.audit_files_kept};
    return audit_open(engine->loop, engine->config.home, &limits, audit_feed_record, engine, &engine->trail.audit,
                      reterr);
}

/* A trail that is not what the last service left is told, and goes on. */
static void tell_audit_damage(struct engine *engine, bool has_run) {
    char text[256];
    const char *damage = audit_damage(engine->trail.audit, has_run, text, sizeof text);
    struct error error;
    if (!damage) return;
    error_set(&error, E_FORMAT, "%s", damage);
    engine_log_error(engine, "audit_damaged", NULL, &error);
    engine_event(engine, EVENT_AUDIT_DAMAGED, NULL, json_pack("{s:s}", "detail", damage));
}

static int open_parts(struct engine *engine, struct error *reterr) {
    static const struct link_handler handler = {.up = on_link_up,
                                                .down = on_link_down,
                                                .node = on_link_node,
                                                .port = on_link_port,
                                                .violation = on_link_violation};
    const char *home = engine->config.home;
    int result = make_folders(home, reterr);
    if (result == 0) result = loop_workers_open(&engine->host.workers, engine->loop, reterr);
    loop_turns_open(&engine->lists, engine->loop, "list", LOOP_TURN_FULL_US);
    loop_turns_open(&engine->host.reading, engine->loop, "node", NODE_READING_US);
    wall_clock_open(engine);
    if (result == 0) result = guard_profiles_read(engine->config.profiles, &engine->profiles, reterr);
    if (result == 0) result = names_take(engine, &engine->profiles, reterr);
    if (result == 0) result = notify_open(engine, reterr);
    if (result == 0) result = toolchains_open(engine, engine->config.toolchains, reterr);
    if (result == 0) result = open_audit(engine, reterr);
    if (result == 0) result = store_open(engine->loop, home, &engine->store, reterr);
    if (result == 0) result = restore_events(engine, reterr);
    if (result == 0) result = store_load_sandboxes(engine->store, restore_row, engine, reterr);
    if (result == 0) result = reload_key_open(engine, reterr);
    if (result == 0) result = store_load_histories(engine->store, restore_history, engine, reterr);
    if (result == 0) result = store_load_usage(engine->store, restore_usage, engine, reterr);
    if (result < 0) return result;
    engine->builds.ledger.quotas = engine->config.quotas;
    restore_code(engine);
    sweep_control_dirs(engine);
    own_sweep_boot_files(home);
    sweep_at_start(engine);
    engine->watcher = watcher_open(engine->loop);
    engine->builds.keeper = (struct build_keeper){on_build_wanted, on_build_kept, engine};
    engine->config.compiler.keeper = &engine->builds.keeper;
    result = compiler_open(&engine->host, engine->store, &engine->config.compiler, on_quiet, engine, &engine->compiler,
                           reterr);
    struct pool_settings pool = {.nodes_max = engine->config.warm_nodes,
                                 .standing = jail_profile_find(JAIL_DEFAULT_PROFILE),
                                 .is_awaited = is_start_awaited};
    if (result == 0) result = pool_open(&engine->host, &pool, on_quiet, engine, &engine->pool, reterr);
    if (result < 0) return result;
    int failed = link_open(engine->loop, home, &handler, engine, &engine->host.link, reterr);
    if (!failed) link_use_principals(engine->host.link, engine->config.principals);
    return failed;
}

static void host_init(struct engine *engine) {
    const struct engine_config *config = &engine->config;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    engine->host = (struct node_host){
        .loop = engine->loop,
        .home = config->home,
        .agent_dir = config->agent_dir,
        .heartbeat_ms = config->heartbeat_ms,
        .heartbeat_deadline_ms = config->heartbeat_deadline_ms,
        .boot_deadline_ms = config->boot_deadline_ms,
        .grace_ms = config->grace_ms,
        .cores = cores > 0 ? (unsigned)cores : 1,
        .turns = {.service = geteuid()},
        .principals = config->principals,
    };
}

int engine_open(uv_loop_t *loop, const struct engine_config *config, struct engine **ret, struct error *reterr) {
    struct engine *engine = calloc(1, sizeof *engine);
    if (engine) {
        engine->events = feed_new(EVENTS_KEPT, 0);
        engine->trail.feed = feed_new(AUDIT_RECORDS_KEPT, 0);
    }
    if (!engine || !engine->events || !engine->trail.feed) {
        free(engine);
        return error_set(reterr, E_NO_MEMORY, "no memory for the engine");
    }
    engine->loop = loop;
    engine->config = *config;
    engine->config.compiler.quotas = config->quotas;
    engine->started_at_ms = clock_wall_ms();
    answers_init(&engine->answers);
    uv_idle_init(loop, &engine->answer_idle);
    metering_open(engine);
    cpu_watch_open(engine);
    launcher_push_open(engine);
    feed_pump_open(engine);
    engine->answer_idle.data = engine;
    host_init(engine);
    int result = open_parts(engine, reterr);
    if (result == 0) {
        tell_audit_damage(engine, engine->has_run);
        engine_event(engine, EVENT_SERVICE_STARTED, NULL, json_pack("{s:s}", "version", SANDBOX_VERSION));
        *ret = engine;
    }
    return result;
}
