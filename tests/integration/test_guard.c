/* What policies refuse and what the audit trail says of it, on the real service; no VM is booted for any of it. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "own_mounts.h"
#include "processes.h"
#include "support.h"

#define COUNTER EXAMPLES "/counter_erl"
#define SETTINGS                                                                                                       \
    "log-max = 64K\n"                                                                                                  \
    "audit-file = 64K\n"                                                                                               \
    "[profile sums]\n"                                                                                                 \
    "inherits = high\n"                                                                                                \
    "operations = math\n"                                                                                              \
    "scan = refuse\n"

static json_t *find_records(struct world *world, const char *op, const char *outcome) {
    return world_op(world, "audit", "{s:s, s:s*}", "op", op, "outcome", outcome);
}

static const char *text_at(json_t *list, size_t index, const char *name) {
    const char *text = json_string_value(json_object_get(json_array_get(list, index), name));
    return text ? text : "";
}

static void assert_recorded(struct world *world, const char *op, const char *outcome, const char *id) {
    json_t *records = find_records(world, op, outcome), *record = json_array_get(records, 0);
    if (json_array_size(records) != 1) fail_msg("%s %s: %zu records", op, outcome, json_array_size(records));
    assert_string_equal(text_at(records, 0, "phase"), "end");
    assert_string_equal(text_at(records, 0, "sandbox_id"), id);
    assert_string_equal(text_at(records, 0, "from"), "unix");
    assert_int_equal(json_integer_value(json_object_get(record, "uid")), getuid());
    assert_int_equal(json_integer_value(json_object_get(record, "pid")), getpid());
    assert_true(text_at(records, 0, "correlation_id")[0] != '\0');
    assert_true(json_is_integer(json_object_get(record, "duration_ms")));
    json_decref(records);
}

static bool is_whole(struct world *world) {
    json_t *verdicts = world_op(world, "audit", "{s:b}", "verify", true);
    bool valid = json_is_true(json_object_get(json_array_get(verdicts, 0), "valid"));
    json_decref(verdicts);
    return valid;
}

/* ---- policies ---- */

static void test_a_scan_names_what_is_not_allowed(void **state) {
    struct world *world = *state;
    json_t *report = world_op(world, "scan", "{s:s, s:s}", "path", LABELLED "/guilty_cmd.beam", "profile", "sums");
    json_t *findings = json_object_get(report, "findings");
    assert_string_equal(text_at(findings, 0, "operation"), "os_command");
    assert_string_equal(text_at(findings, 0, "module"), "guilty_cmd");
    json_decref(report);
    assert_recorded(world, "scan", "ok", "");
}

static void test_code_that_a_profile_refuses_never_runs(void **state) {
    struct world *world = *state;
    uint64_t since = world_now(world);
    json_t *problem = world_fails(world, "create", "refused_by_policy", "{s:s, s:s, s:s}", "id", "a", "source", COUNTER,
                                  "profile", "sums");
    json_t *scan = json_object_get(json_object_get(problem, "result"), "scan");
    assert_true(json_integer_value(json_object_get(scan, "finding_count")) > 0);
    assert_string_equal(json_string_value(json_object_get(scan, "policy")), "refuse");
    json_decref(problem);
    json_decref(world_wait_event(
        world, since,
        &(struct event_pattern){.kind = "violation", .sandbox_id = "a", .field = "what", .value = "scan"}));
    json_t *list = world_op(world, "list", NULL);
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
    assert_recorded(world, "create", "refused_by_policy", "a");
}

static void test_profiles_are_shown(void **state) {
    json_t *profiles = world_op(*state, "profiles", NULL);
    assert_int_equal(json_array_size(profiles), 4);
    assert_string_equal(text_at(profiles, 3, "name"), "sums");
    assert_string_equal(text_at(profiles, 3, "inherits"), "high");
    assert_string_equal(text_at(profiles, 3, "scan"), "refuse");
    assert_string_equal(text_at(profiles, 3, "network"), "none");
    json_decref(profiles);
}

/* ---- the trail ---- */

static void test_what_fails_is_recorded(void **state) {
    struct world *world = *state;
    json_decref(world_fails(world, "create", "invalid_input", "{s:s, s:s, s:s}", "id", "b", "source", COUNTER,
                            "profile", "none"));
    assert_recorded(world, "create", "invalid_input", "b");
    json_decref(world_fails(world, "destroy", "not_found", "{s:s}", "id", "nobody"));
    assert_recorded(world, "destroy", "not_found", "nobody");
    json_t *begun = world_op(world, "audit", "{s:s}", "op", "destroy");
    assert_string_equal(text_at(begun, 0, "phase"), "begin");
    assert_string_equal(text_at(begun, 0, "correlation_id"), text_at(begun, 1, "correlation_id"));
    json_decref(begun);
}

static void flip_byte(const char *path) {
    char byte;
    CLEANUP_FD int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &byte, 1, 100), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 100), 1);
}

static void test_a_changed_byte_is_found(void **state) {
    struct world *world = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/audit/00000000000000000001.jsonl", world_home(world));
    assert_true(is_whole(world));
    flip_byte(path);
    assert_false(is_whole(world));
    flip_byte(path);
    assert_true(is_whole(world));
}

static void test_a_killed_daemon_leaves_a_whole_trail(void **state) {
    struct world *world = *state;
    pid_t daemon = world_pid(world, "daemon.lock");
    CLEANUP_FD int pidfd = process_open(daemon);
    process_end(daemon, SIGKILL);
    assert_true(process_ends(pidfd, WORLD_DEADLINE_MS));
    json_decref(world_fails(world, "destroy", "not_found", "{s:s}", "id", "later"));
    assert_true(is_whole(world));
    assert_recorded(world, "create", "refused_by_policy", "a"); /* it is all there */
}

/* ---- the log ---- */

static bool log_exists(struct world *world, const char *name) {
    CLEANUP_FREE char *path = string_print("%s/%s", world_home(world), name);
    return access(path, F_OK) == 0;
}

static void assert_writes_to_log(struct world *world, const char *lock) {
    CLEANUP_FREE char *log = string_print("%s/daemon.log", world_home(world));
    CLEANUP_FREE char *output = string_print("/proc/%d/fd/2", (int)world_pid(world, lock));
    struct stat named, used;
    assert_int_equal(stat(log, &named), 0);
    assert_int_equal(stat(output, &used), 0);
    assert_int_equal(named.st_ino, used.st_ino);
}

/* Any user's failing requests fill it. The launcher finds the new file when it starts the next helper or daemon. */
static void test_the_log_is_rotated(void **state) {
    struct world *world = *state;
    for (int i = 0; i < 2000 && !log_exists(world, "daemon.log.3"); i++)
        json_decref(world_fails(world, "restart", "not_found", "{s:s}", "id", "nobody"));
    assert_true(log_exists(world, "daemon.log.3"));
    assert_writes_to_log(world, "daemon.lock");
    /* The process that waits to open the next project inherits the launcher's file, and callers can have it write. */
    for (int i = 0; i < 2; i++) json_decref(world_fails(world, "compile", "not_found", "{s:s}", "source", "/nowhere"));
    assert_writes_to_log(world, "launcher.lock");
    pid_t daemon = world_pid(world, "daemon.lock");
    CLEANUP_FD int pidfd = process_open(daemon);
    process_end(daemon, SIGKILL);
    assert_true(process_ends(pidfd, WORLD_DEADLINE_MS));
    json_decref(world_op(world, "list", NULL));
    assert_writes_to_log(world, "daemon.lock");
    assert_writes_to_log(world, "launcher.lock");
    assert_false(log_exists(world, "daemon.log.4"));
}

/* ---- an emptied trail ---- */

static void test_an_emptied_trail_is_found(void **state) {
    struct world *world = *state;
    CLEANUP_FREE char *folder = string_print("%s/audit", world_home(world));
    CLEANUP_FREE char *first = string_print("%s/00000000000000000001.jsonl", folder);
    CLEANUP_FREE char *head = string_print("%s/head", folder);
    uint64_t since = world_now(world);
    assert_true(is_whole(world));
    assert_int_equal(truncate(first, 0), 0);
    assert_int_equal(unlink(head), 0);
    assert_false(is_whole(world));
    pid_t daemon = world_pid(world, "daemon.lock");
    CLEANUP_FD int pidfd = process_open(daemon);
    process_end(daemon, SIGKILL);
    assert_true(process_ends(pidfd, WORLD_DEADLINE_MS));
    json_decref(world_op(world, "list", NULL)); /* starts another, should the launcher not have */
    json_decref(world_wait_event(world, since, &(struct event_pattern){.kind = "audit_damaged"}));
}

/* ---- a full disk ---- */

static void mount_audit(struct world *world, const char *audit) {
    struct stat status;
    CLEANUP_FD int launcher = process_open(world_pid(world, "launcher.lock"));
    process_end(world_pid(world, "daemon.lock"), SIGTERM);
    assert_true(process_ends(launcher, WORLD_DEADLINE_MS));
    assert_int_equal(stat(audit, &status), 0);
    CLEANUP_FREE char *options =
        string_print("size=512k,mode=0700,uid=%u,gid=%u", (unsigned)status.st_uid, (unsigned)status.st_gid);
    assert_int_equal(mount("audit", audit, "tmpfs", 0, options), 0);
}

static void fill(const char *audit) {
    static const char page[4096];
    CLEANUP_FREE char *path = string_print("%s/filler", audit);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(fd, page, sizeof page) > 0) continue;
}

/* Until what is kept for the end of things is all that is left. */
static void use_up(struct world *world) {
    for (int i = 0; i < 1000; i++) {
        struct sbx_error error;
        char *text = NULL;
        if (sbx_op(world_client(world), "restart", "{\"id\":\"nobody\"}", &text, &error) == 0) free(text);
        bool is_full = strcmp(error.code, "disk_full") == 0;
        sbx_error_clear(&error);
        if (is_full) return;
    }
    fail_msg("the disk is never full");
}

static void refuse_what_cannot_be_recorded(void **state) {
    (void)state;
    struct world *world = world_open(NULL);
    char audit[64];
    snprintf(audit, sizeof audit, "%s/audit", world_home(world));
    mount_audit(world, audit);
    json_decref(world_fails(world, "restart", "not_found", "{s:s}", "id", "nobody"));
    fill(audit);
    use_up(world);
    json_t *problem =
        world_fails(world, "create", "disk_full", "{s:s, s:s, s:s}", "id", "a", "source", COUNTER, "profile", "medium");
    assert_non_null(strstr(json_string_value(json_object_get(problem, "detail")), "audit trail"));
    json_decref(problem);
    json_t *list = world_op(world, "list", NULL); /* looking changes nothing */
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
    json_decref(world_fails(world, "destroy", "not_found", "{s:s}", "id", "nobody")); /* and ending things goes on */
    assert_true(is_whole(world));
    CLEANUP_FREE char *filler = string_print("%s/filler", audit);
    assert_int_equal(unlink(filler), 0);
    json_decref(world_fails(world, "restart", "not_found", "{s:s}", "id", "nobody"));
    assert_int_equal(umount2(audit, MNT_DETACH), 0);
    world_close(world);
}

static void test_a_full_disk_stops_what_must_be_recorded(void **state) {
    (void)state;
    test_in_own_mounts((struct CMUnitTest)cmocka_unit_test(refuse_what_cannot_be_recorded));
}

static int open_world(void **state) {
    *state = world_open(SETTINGS);
    return 0;
}

static int close_world(void **state) {
    world_close(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_scan_names_what_is_not_allowed),
        cmocka_unit_test(test_code_that_a_profile_refuses_never_runs),
        cmocka_unit_test(test_profiles_are_shown),
        cmocka_unit_test(test_what_fails_is_recorded),
        cmocka_unit_test(test_a_changed_byte_is_found),
        cmocka_unit_test(test_a_killed_daemon_leaves_a_whole_trail),
        cmocka_unit_test(test_the_log_is_rotated),
        cmocka_unit_test(test_an_emptied_trail_is_found),
        cmocka_unit_test(test_a_full_disk_stops_what_must_be_recorded),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
