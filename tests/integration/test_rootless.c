/* The service of an ordinary user: less is promised, which is said, and the jail still holds. And under root the daemon
   is an ordinary user too. */
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "folder.h"
#include "leftovers.h"
#include "processes.h"
#include "support.h"

enum { USER = 12345 };

/* ---- under root ---- */

static void assert_status(pid_t pid, const char *name, const char *expected) {
    CLEANUP_FREE char *text = process_status(pid, name);
    if (strcmp(text, expected) != 0) fail_msg("%s of process %d is %s, not %s", name, (int)pid, text, expected);
}

static void the_daemon_of_root_has_no_privileges(void **state) {
    (void)state;
    struct world *world = world_open(NULL);
    pid_t daemon = world_pid(world, "daemon.lock");
    unsigned ids[4];
    for (int i = 0; i < 2; i++) {
        CLEANUP_FREE char *text = process_status(daemon, i == 0 ? "Uid" : "Gid");
        assert_int_equal(sscanf(text, "%u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]), 4);
        for (int j = 0; j < 4; j++) assert_true(ids[j] >= 1000000000); /* of no account */
    }
    static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
    for (size_t i = 0; i < ARRAY_SIZE(sets); i++) assert_status(daemon, sets[i], "0000000000000000");
    assert_status(daemon, "NoNewPrivs", "1");
    assert_status(daemon, "Groups", "");
    world_close(world);
}

/* ---- as an ordinary user, in a process of its own ---- */

static bool is_lost(json_t *sandbox, const char *guarantee) {
    size_t i;
    json_t *lost;
    json_array_foreach(json_object_get(sandbox, "lost_guarantees"), i, lost) {
        if (strcmp(json_string_value(lost), guarantee) == 0) return true;
    }
    return false;
}

static void assert_guarantees(json_t *sandbox) {
    static const char *const lost[] = {"uid_per_node", "cgroups",           "memory_limit",
                                       "cpu_limit",    "listener_takeover", "egress"};
    static const char *const kept[] = {"namespaces", "network_namespace", "seccomp", "landlock", "violation_events"};
    for (size_t i = 0; i < ARRAY_SIZE(lost); i++)
        if (!is_lost(sandbox, lost[i])) fail_msg("%s is not said to be lost", lost[i]);
    for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
        if (is_lost(sandbox, kept[i])) fail_msg("%s is said to be lost", kept[i]);
}

static void assert_evaluates(struct world *world, const char *code, const char *expected) {
    CLEANUP_FREE char *text = world_try_eval(world, "a", "erlang", code, 5000);
    if (!string_starts(text, expected)) fail_msg("%s gives %s", code, text);
}

/* What only root may read, what the user itself may, and the host's processes. */
static void assert_jail_holds(struct world *world) {
    char code[256];
    assert_evaluates(world, "file:read_file(\"/etc/shadow\")", "{error,");
    snprintf(code, sizeof code, "file:read_file(\"%s/sandbox.conf\")", world_home(world));
    assert_evaluates(world, code, "{error,");
    snprintf(code, sizeof code, "filelib:is_file(\"/proc/%d\")", (int)world_pid(world, "daemon.lock"));
    assert_evaluates(world, code, "false");
    uint64_t before = world_now(world);
    free(world_try_eval(world, "a", "erlang", "os:cmd(\"id\")", 5000));
    json_decref(world_wait_event(world, before, &(struct event_pattern){"violation", "a", "what", "execve"}));
}

/* There is no freezer without root: processes are stopped one by one, and a new launcher finds them so. */
static void assert_stops_and_goes_on(struct world *world) {
    uint64_t since = world_now(world);
    world_do(world, "freeze", "{s:s}", "id", "a");
    json_t *info = world_info(world, "a");
    assert_true(json_is_true(json_object_get(info, "frozen")));
    json_decref(info);
    json_decref(world_fails(world, "eval", "conflict", "{s:s, s:s}", "id", "a", "code", "1."));
    process_end(world_pid(world, "launcher.lock"), SIGKILL);
    json_decref(world_info(world, "a")); /* which starts another */
    json_decref(world_wait_event(world, since, &(struct event_pattern){.kind = "launcher_back"}));
    world_do(world, "thaw", "{s:s}", "id", "a");
    assert_evaluates(world, "counter:value()", "5");
}

static char project[64];

static void use_the_service(void **state) {
    (void)state;
    struct world *world = world_open("heartbeat = 1s\n[profile web]\nhosts = 1.2.3.4:443\n");
    json_decref(world_fails(world, "create", "guarantee_missing", "{s:s, s:s, s:[s]}", "id", "a", "source", project,
                            "require", "cgroups"));
    json_t *problem = world_fails(world, "create", "guarantee_missing", "{s:s, s:s, s:s}", "id", "a", "source", project,
                                  "profile", "web");
    assert_non_null(strstr(json_string_value(json_object_get(problem, "detail")), "start the service as root"));
    json_decref(problem);
    json_t *sandbox = world_create(world, "a", project, "medium");
    assert_string_equal(json_string_value(json_object_get(sandbox, "status")), "running");
    assert_guarantees(sandbox);
    assert_evaluates(world, "counter:increment(5)", "5");
    assert_jail_holds(world);
    assert_true(is_lost(sandbox, "freezer"));
    assert_stops_and_goes_on(world);
    world_do(world, "watch", "{s:s, s:s}", "id", "a", "action", "on");
    uint64_t before = world_now(world);
    process_end(world_pid(world, "daemon.lock"), SIGKILL);
    json_t *again = world_info(world, "a"); /* known again, with what it lost, and watched again */
    json_decref(world_wait_event(world, before, &(struct event_pattern){"watch", "a", "state", "watching"}));
    assert_true(json_equal(json_object_get(again, "os_pid"), json_object_get(sandbox, "os_pid")));
    assert_true(json_equal(json_object_get(again, "lost_guarantees"), json_object_get(sandbox, "lost_guarantees")));
    assert_evaluates(world, "counter:value()", "5");
    json_decref(again);
    json_decref(sandbox);
    world_destroy(world, "a");
    world_close(world);
}

/* The build may lie where that user can't go: give it programs, agent and project of its own. */
static void install_for_user(const char *folder) {
    char command[PATH_MAX * 8], own[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    assert_true(length > 0);
    own[length] = '\0';
    for (int i = 0; i < 3; i++) *strrchr(own, '/') = '\0'; /* BUILD/tests/integration/test_rootless */
    snprintf(command, sizeof command,
             "mkdir -p %s/bin %s/lib/sandbox && cp %s/bin/sandbox-launcher %s/bin/sandboxd %s/bin/ && "
             "cp -r %s/lib/sandbox/ebin %s/lib/sandbox/ && cp -r %s/counter_erl %s/ && chmod -R a+rX %s",
             folder, folder, own, own, folder, own, folder, EXAMPLES, folder, folder);
    assert_int_equal(system(command), 0);
}

static int run_as_user(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(use_the_service)};
    static const char *const variables[] = {"HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "SANDBOX_HOME"};
    for (size_t i = 0; i < ARRAY_SIZE(variables); i++) unsetenv(variables[i]);
    if (setgroups(0, NULL) < 0 || setgid(USER) < 0 || setuid(USER) < 0) return 1;
    return cmocka_run_group_tests_name("as an ordinary user", tests, NULL, NULL);
}

static void an_ordinary_user_has_a_service_too(void **state) {
    (void)state;
    int status;
    char folder[TEST_FOLDER_BYTES], launcher[64];
    assert_non_null(test_folder_make(folder));
    install_for_user(folder);
    snprintf(launcher, sizeof launcher, "%s/bin/sandbox-launcher", folder);
    snprintf(project, sizeof project, "%s/counter_erl", folder);
    setenv("SANDBOX_LAUNCHER", launcher, 1);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) exit(run_as_user());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    unsetenv("SANDBOX_LAUNCHER");
    remove_tree(folder);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_daemon_of_root_has_no_privileges),
        cmocka_unit_test(an_ordinary_user_has_a_service_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
