/* Time in which the service could not run: its daemon stopped, or the disk of its home frozen. What was going on goes
   on afterwards, and no sandbox has ended. FROZEN_AT_LENGTH: for as long as would end everything by default settings.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "own_mounts.h"
#include "processes.h"
#include "support.h"

#define COUNTER EXAMPLES "/counter_erl"

enum {
    STOPPED_BRIEFLY_MS = 3000, /* longer than a node may be silent by the settings below */
    STOPPED_AT_LENGTH_MS = 60000,
    DISK_FROZEN_MS = 20000,
    PROBATION_MS = 20000,
    ANSWERED_MAX_MS = 180000,
};

/* Yet long enough for a node to answer in that gets its turn late, on a machine that runs all tests at once. */
static const char impatient[] = "heartbeat = 100ms\nheartbeat-deadline = 2000ms\n";

/* ---- callers that wait meanwhile ---- */

struct caller {
    struct world *world;
    const char *op;
    char params[256];
    pthread_t thread;
    char *answer; /* or what went wrong, after "! " */
};

static void *call(void *data) {
    struct caller *caller = data;
    struct sbx_options how = SBX_OPTIONS_INIT;
    struct sbx_error error = {0};
    struct sbx *client = NULL;
    how.home = world_home(caller->world);
    how.flags = SBX_NO_AUTOSTART;
    how.timeout_ms = ANSWERED_MAX_MS;
    if (sbx_open_with(&how, &client, &error) < 0 ||
        sbx_op(client, caller->op, caller->params, &caller->answer, &error) < 0)
        caller->answer = string_print("! %s: %s", error.code, error.detail);
    sbx_error_clear(&error);
    sbx_close(client);
    return NULL;
}

static void caller_start(struct caller *caller) {
    assert_int_equal(pthread_create(&caller->thread, NULL, call, caller), 0);
}

/* Its answer has this in it. */
static void caller_expect(struct caller *caller, const char *part) {
    pthread_join(caller->thread, NULL);
    if (!strstr(caller->answer, part)) fail_msg("%s %s got %s", caller->op, caller->params, caller->answer);
    free(take_ptr(caller->answer));
}

/* ---- sandboxes that must not notice ---- */

struct witness {
    const char *id, *profile;
    pid_t os_pid;
};

static void witness_create(struct world *world, struct witness *witness) {
    json_t *sandbox = world_create(world, witness->id, COUNTER, witness->profile);
    witness->os_pid = (pid_t)json_integer_value(json_object_get(sandbox, "os_pid"));
    json_decref(sandbox);
    free(world_eval_text(world, witness->id, NULL, "counter:increment(7)"));
}

static void witness_check(struct world *world, const struct witness *witness) {
    json_t *info = world_info(world, witness->id);
    const char *status = json_string_value(json_object_get(info, "status"));
    if (strcmp(status, "running") != 0) {
        CLEANUP_FREE char *error = json_dumps(json_object_get(info, "last_error"), JSON_ENCODE_ANY);
        fail_msg("%s is %s: %s", witness->id, status, error);
    }
    assert_int_equal(json_integer_value(json_object_get(info, "os_pid")), witness->os_pid);
    assert_int_equal(json_integer_value(json_object_get(info, "restart_count")), 0);
    json_decref(info);
    CLEANUP_FREE char *value = world_eval_text(world, witness->id, NULL, "counter:value()");
    if (atoi(value) < 7) fail_msg("%s counts %s", witness->id, value);
}

/* An evaluation that is under way: it has counted, which another one sees, and waits. */
static void begin_eval(struct world *world, struct caller *eval, const char *id, int wait_ms) {
    *eval = (struct caller){.world = world, .op = "eval"};
    snprintf(eval->params, sizeof eval->params,
             "{\"id\": \"%s\", \"timeout_ms\": %d, \"code\": "
             "\"counter:increment(100), receive after %d -> was_under_way end\"}",
             id, ANSWERED_MAX_MS, wait_ms);
    caller_start(eval);
    for (bool begun = false; !begun;) {
        CLEANUP_FREE char *value = world_eval_text(world, id, NULL, "counter:value()");
        begun = atoi(value) >= 100;
    }
}

/* ---- stopping the daemon ---- */

static void signal_daemon(int pidfd, int signal_number) {
    assert_int_equal(pidfd_send_signal(pidfd, signal_number, NULL, 0), 0);
}

static void stop_daemon(struct world *world, int time_ms) {
    CLEANUP_FD int daemon = process_open(world_pid(world, "daemon.lock"));
    signal_daemon(daemon, SIGSTOP);
    poll(NULL, 0, time_ms); /* time itself is what is tested */
    signal_daemon(daemon, SIGCONT);
}

static void a_stopped_daemon_ends_no_sandbox(void **state) {
    (void)state;
    struct world *world = world_open(impatient);
    struct witness witnesses[] = {{"a", "high", 0}, {"b", "medium", 0}};
    struct caller eval;
    for (size_t i = 0; i < ARRAY_SIZE(witnesses); i++) witness_create(world, &witnesses[i]);
    begin_eval(world, &eval, "b", STOPPED_BRIEFLY_MS / 2);
    stop_daemon(world, STOPPED_BRIEFLY_MS);
    caller_expect(&eval, "was_under_way");
    for (size_t i = 0; i < ARRAY_SIZE(witnesses); i++) witness_check(world, &witnesses[i]);
    world_close(world);
}

/* ---- at length: with everything under way that has a deadline ---- */

static const char *copy_project(struct world *world, const char *name) {
    const char *path = world_file(world, name, "");
    CLEANUP_FREE char *command = string_print("rm '%s' && cp -r '" COUNTER "' '%s'", path, path);
    assert_int_equal(system(command), 0);
    return path;
}

/* Another version of its module, as a save makes it. */
static void change_project(const char *project) {
    CLEANUP_FREE char *command =
        string_print("sed -i 's/{reply, ok, 0}/{reply, done, 0}/' '%s/src/counter.erl'", project);
    assert_int_equal(system(command), 0);
}

static void begin_probation(struct world *world, const char *project) {
    change_project(project);
    world_do(world, "reload", "{s:s, s:i}", "id", "probation", "probation_ms", PROBATION_MS);
}

/* A create that has begun, and waits for a compiler. */
static void begin_create(struct world *world, struct caller *create, const char *project) {
    uint64_t since = world_now(world);
    *create = (struct caller){.world = world, .op = "create"};
    snprintf(create->params, sizeof create->params, "{\"id\": \"late\", \"source\": \"%s\"}", project);
    change_project(project); /* so that it was never compiled */
    caller_start(create);
    world_wait_status(world, since, "late", "compiling");
}

static void assert_watches(struct world *world, uint64_t since, const char *project) {
    change_project(project);
    json_decref(
        world_wait_event(world, since, &(struct event_pattern){.kind = "watch_reloaded", .sandbox_id = "watching"}));
    CLEANUP_FREE char *value = world_eval_text(world, "watching", NULL, "counter:reset()");
    assert_string_equal(value, "done");
}

static void a_daemon_stopped_for_a_minute_ends_no_sandbox(void **state) {
    (void)state;
    struct world *world = world_open("warm-nodes = 0\n");
    struct witness witnesses[] = {{"high", "high", 0}, {"medium", "medium", 0}, {"low", "low", 0}};
    struct caller eval, create;
    char watched[128], reloaded[128], late[128];
    snprintf(watched, sizeof watched, "%s", copy_project(world, "watched"));
    snprintf(reloaded, sizeof reloaded, "%s", copy_project(world, "reloaded"));
    snprintf(late, sizeof late, "%s", copy_project(world, "late"));
    for (size_t i = 0; i < ARRAY_SIZE(witnesses); i++) witness_create(world, &witnesses[i]);
    world_do(world, "create", "{s:s, s:s, s:b}", "id", "watching", "source", watched, "watch", 1);
    world_do(world, "create", "{s:s, s:s}", "id", "probation", "source", reloaded);
    begin_eval(world, &eval, "medium", STOPPED_AT_LENGTH_MS / 2);
    begin_probation(world, reloaded);
    begin_create(world, &create, late);
    stop_daemon(world, STOPPED_AT_LENGTH_MS);
    caller_expect(&eval, "was_under_way");
    caller_expect(&create, "\"running\"");
    for (size_t i = 0; i < ARRAY_SIZE(witnesses); i++) witness_check(world, &witnesses[i]);
    CLEANUP_FREE char *value = world_eval_text(world, "probation", NULL, "counter:reset()");
    assert_string_equal(value, "done"); /* the new code is kept */
    assert_watches(world, world_now(world), watched);
    world_close(world);
}

/* ---- a disk that stands still ---- */

/* A disk of the home's own, in a file: what freezes it freezes nothing else. */
static void mount_home(struct world *world) {
    const char *home = world_home(world);
    CLEANUP_FD int launcher = process_open(world_pid(world, "launcher.lock"));
    process_end(world_pid(world, "daemon.lock"), SIGTERM);
    assert_true(process_ends(launcher, WORLD_DEADLINE_MS));
    CLEANUP_FREE char *command =
        string_print("truncate -s 256M '%s.img' && mkfs.ext4 -q -E root_owner=0:0 '%s.img' && mkdir '%s.disk' && "
                     "mount -o loop '%s.img' '%s.disk' && cp -a '%s/.' '%s.disk/' && rmdir '%s.disk/lost+found' && "
                     "mount --move '%s.disk' '%s' && rmdir '%s.disk'",
                     home, home, home, home, home, home, home, home, home, home, home);
    if (system(command) != 0) fail_msg("%s failed", command);
}

static void unmount_home(struct world *world) {
    const char *home = world_home(world);
    CLEANUP_FD int launcher = process_open(world_pid(world, "launcher.lock"));
    process_end(world_pid(world, "daemon.lock"), SIGTERM);
    assert_true(process_ends(launcher, WORLD_DEADLINE_MS));
    assert_int_equal(umount2(home, 0), 0); /* the loop device goes with its mount */
}

/* Thaws when it is told to, or when we are gone: a disk that stayed frozen could never be unmounted. */
static void hold_frozen(const char *home, int frozen_fd, int end_fd) {
    char byte = 'f';
    int fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool frozen = fd >= 0 && ioctl(fd, FIFREEZE, 0) == 0;
    if (frozen && write(frozen_fd, &byte, 1) == 1) poll(&(struct pollfd){end_fd, POLLIN, 0}, 1, 2 * DISK_FROZEN_MS);
    _exit(frozen && ioctl(fd, FITHAW, 0) == 0 ? 0 : 1);
}

struct freezer {
    pid_t pid;
    int end_fd;
};

static struct freezer freeze_home(struct world *world) {
    int frozen[2], end[2];
    char byte;
    assert_int_equal(pipe2(frozen, O_CLOEXEC), 0);
    assert_int_equal(pipe2(end, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(end[1]);
        hold_frozen(world_home(world), frozen[1], end[0]);
    }
    close(frozen[1]);
    close(end[0]);
    assert_int_equal(read(frozen[0], &byte, 1), 1);
    close(frozen[0]);
    return (struct freezer){pid, end[1]};
}

static void thaw_home(struct freezer *freezer) {
    int status = -1;
    close(freezer->end_fd);
    assert_int_equal(waitpid(freezer->pid, &status, 0), freezer->pid);
    assert_int_equal(status, 0);
}

static void live_on_a_frozen_disk(void **state) {
    (void)state;
    struct world *world = world_open("warm-nodes = 0\n");
    struct witness witnesses[] = {{"high", "high", 0}, {"medium", "medium", 0}, {"low", "low", 0}};
    struct caller callers[] = {
        {.world = world, .op = "info", .params = "{\"id\": \"high\"}"},
        {.world = world, .op = "eval", .params = "{\"id\": \"medium\", \"code\": \"counter:increment()\"}"},
        {.world = world, .op = "create", .params = "{\"id\": \"late\", \"source\": \"" COUNTER "\"}"},
        {.world = world, .op = "destroy", .params = "{\"id\": \"gone\"}"},
        {.world = world, .op = "list", .params = "{}"},
    };
    static const char *const expected[] = {"\"running\"", "8", "\"running\"", "destroyed", "high"};
    mount_home(world);
    for (size_t i = 0; i < ARRAY_SIZE(witnesses); i++) witness_create(world, &witnesses[i]);
    json_decref(world_create(world, "gone", COUNTER, "medium"));
    struct freezer freezer = freeze_home(world);
    for (size_t i = 0; i < ARRAY_SIZE(callers); i++) caller_start(&callers[i]);
    poll(NULL, 0, DISK_FROZEN_MS); /* time itself is what is tested */
    thaw_home(&freezer);
    for (size_t i = 0; i < ARRAY_SIZE(callers); i++) caller_expect(&callers[i], expected[i]);
    for (size_t i = 0; i < ARRAY_SIZE(witnesses); i++) witness_check(world, &witnesses[i]);
    for (size_t i = 0; i < ARRAY_SIZE(witnesses); i++) world_destroy(world, witnesses[i].id);
    world_destroy(world, "late");
    unmount_home(world);
    world_do(world, "list", NULL); /* another service, which has the home below to end in */
    world_close(world);
}

static void a_frozen_disk_ends_no_sandbox(void **state) {
    (void)state;
    test_in_own_mounts((struct CMUnitTest)cmocka_unit_test(live_on_a_frozen_disk));
}

int main(int argc, char **argv) {
    const struct CMUnitTest brief[] = {cmocka_unit_test(a_stopped_daemon_ends_no_sandbox)};
    const struct CMUnitTest at_length[] = {cmocka_unit_test(a_daemon_stopped_for_a_minute_ends_no_sandbox),
                                           cmocka_unit_test(a_frozen_disk_ends_no_sandbox)};
    if (argc == 2) cmocka_set_test_filter(argv[1]);
    return getenv("FROZEN_AT_LENGTH") ? cmocka_run_group_tests(at_length, NULL, NULL)
                                      : cmocka_run_group_tests(brief, NULL, NULL);
}
