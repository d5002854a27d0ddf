/* The machine restarts: launcher, daemon and nodes are gone at once, and what they left is of another boot. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include <sqlite3.h>

#include "leftovers.h"
#include "processes.h"
#include "support.h"

#define COUNTER EXAMPLES "/counter_erl"
#define RESTARTED "the host was restarted"

static const char another_boot[] = "00000000-0000-4000-8000-000000000000";

/* ---- the restart ---- */

static bool nothing_runs(void *data) {
    struct footprint *footprint = footprint_take(data);
    bool runs = footprint_runs(footprint);
    footprint_free(footprint);
    return !runs;
}

/* Everything at once, as far as signals can; the launcher first, which would start another daemon. Records, sockets,
   locks and cgroups stay, of which a true restart leaves less. */
enum { SANDBOXES_MAX = 8 };

/* Their inits. One that ends may still have file systems to write back, and is seen by its pidfd alone. */
static size_t open_nodes(struct world *world, int ret[SANDBOXES_MAX]) {
    json_t *list = world_op(world, "list", NULL), *sandbox;
    size_t i, count = 0;
    json_array_foreach(list, i, sandbox) {
        pid_t pid = (pid_t)json_integer_value(json_object_get(sandbox, "os_pid"));
        if (pid > 0 && count < SANDBOXES_MAX) ret[count++] = process_open_parent(pid);
    }
    json_decref(list);
    return count;
}

static void kill_everything(struct world *world) {
    int nodes[SANDBOXES_MAX];
    size_t count = open_nodes(world, nodes);
    pid_t daemon = world_pid(world, "daemon.lock");
    process_end(world_pid(world, "launcher.lock"), SIGKILL);
    process_end(daemon, SIGKILL);
    struct footprint *footprint = footprint_take(world_home(world));
    footprint_kill(footprint);
    footprint_free(footprint);
    char home[64];
    snprintf(home, sizeof home, "%s", world_home(world));
    assert_true(wait_until(nothing_runs, home, WORLD_DEADLINE_MS));
    for (size_t i = 0; i < count; i++) {
        CLEANUP_FD int node = nodes[i];
        assert_true(process_ends(node, WORLD_DEADLINE_MS));
    }
}

static void run_sql(sqlite3 *database, const char *sql) {
    char *error = NULL;
    if (sqlite3_exec(database, sql, NULL, NULL, &error) != SQLITE_OK) fail_msg("%s: %s", sql, error);
}

/* What was noted of this boot is of another. */
static void change_boot(struct world *world) {
    char now[BOOT_ID_BYTES];
    clock_boot_id(now);
    CLEANUP_FREE char *note = string_print("%s/store/boot_id", world_home(world));
    CLEANUP_FREE char *registry = string_print("%s/registry.db", world_home(world));
    CLEANUP_FREE char *sql =
        string_print("UPDATE sandboxes SET config = replace(config, '%s', '%s')", now, another_boot);
    CLEANUP_FD int fd = open(note, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(file_write_all(fd, another_boot, strlen(another_boot)), 0);
    sqlite3 *database;
    assert_int_equal(sqlite3_open(registry, &database), SQLITE_OK);
    run_sql(database, sql);
    assert_true(sqlite3_changes(database) > 0);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
}

/* ---- what is found ---- */

static void create(struct world *world, const char *id, const char *restart) {
    world_do(world, "create", "{s:s, s:s, s:s*}", "id", id, "source", COUNTER, "restart", restart);
    free(world_eval_text(world, id, NULL, "counter:increment(5)"));
}

static void assert_came_back(struct world *world, uint64_t since, const char *id) {
    json_decref(world_wait_event(world, since, &(struct event_pattern){"status", id, "reason", RESTARTED}));
    world_wait_status(world, since, id, "running");
    CLEANUP_FREE char *value = world_eval_text(world, id, NULL, "counter:increment()");
    assert_string_equal(value, "1"); /* a new tree */
    json_t *info = world_info(world, id);
    if (json_integer_value(json_object_get(info, "restart_count")) != 1) {
        json_t *events = world_op(world, "events", "{s:s, s:I}", "sandbox_id", id, "since", (json_int_t)since);
        CLEANUP_FREE char *text = json_dumps(events, JSON_COMPACT);
        fail_msg("%s", text);
    }
    json_decref(info);
}

static void assert_ended(struct world *world, const char *id, const char *status, const char *why) {
    json_t *info = world_info(world, id), *error = json_object_get(info, "last_error");
    assert_string_equal(json_string_value(json_object_get(info, "status")), status);
    assert_string_equal(json_string_value(json_object_get(error, "detail")), why);
    assert_true(json_is_null(json_object_get(info, "os_pid")));
    json_decref(info);
}

struct remains {
    struct world *world;
    size_t nodes; /* that live */
    char *found;
};

static bool only_what_lives_is_left(void *data) {
    struct remains *remains = data;
    const char *home = world_home(remains->world);
    CLEANUP_FREE char *controls = string_print("%s/nodes", home);
    CLEANUP_FREE char *tmp = string_print("%s/store/tmp", home);
    struct footprint *footprint = footprint_take(home);
    size_t cgroups = footprint_node_count(footprint), records = footprint_stray_record_count(footprint);
    size_t control_dirs = count_entries(controls), tmp_dirs = count_entries(tmp);
    footprint_free(footprint);
    free(remains->found);
    remains->found = string_print("%zu cgroups, %zu stray records, %zu control directories, %zu folders in store/tmp",
                                  cgroups, records, control_dirs, tmp_dirs);
    return cgroups == remains->nodes && records == 0 && control_dirs == remains->nodes && tmp_dirs == 1;
}

static void assert_nothing_else_is_left(struct world *world, size_t nodes) {
    struct remains remains = {.world = world, .nodes = nodes};
    bool holds = wait_until(only_what_lives_is_left, &remains, WORLD_DEADLINE_MS);
    if (!holds) fail_msg("%zu nodes live, but there are %s", nodes, remains.found);
    free(remains.found);
}

/* ---- the tests ---- */

static void the_host_is_restarted(void **state) {
    (void)state;
    struct world *world = world_open("warm-nodes = 0\n");
    create(world, "never", NULL);
    create(world, "always", "always");
    create(world, "failing", "on-failure:1");
    uint64_t before = world_now(world);
    kill_everything(world);
    change_boot(world);
    world_do(world, "list", NULL);
    assert_came_back(world, before, "always");
    assert_came_back(world, before, "failing");
    world_wait_status(world, before, "never", "stopped");
    assert_ended(world, "never", "stopped", RESTARTED);
    assert_nothing_else_is_left(world, 2);

    /* It stays so, and what a person starts again runs. */
    process_end(world_pid(world, "daemon.lock"), SIGKILL);
    assert_ended(world, "never", "stopped", RESTARTED);
    world_do(world, "restart", "{s:s}", "id", "never");
    free(world_eval_text(world, "never", NULL, "counter:value()"));

    /* The same deaths within one boot are failures. */
    before = world_now(world);
    kill_everything(world);
    world_do(world, "list", NULL);
    world_wait_status(world, before, "never", "error");
    assert_ended(world, "never", "error", "the VM ended while no daemon watched it");
    world_close(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_host_is_restarted)};
    setenv("SANDBOX_WARM_NODES", "0", 1); /* so that every node is a sandbox's */
    setenv("SANDBOX_SPARE_COMPILERS", "0", 1);
    setenv("SANDBOX_COMPILERS_KEPT", "0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
