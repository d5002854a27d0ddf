/* How the launcher keeps a daemon: a probe stands where sandboxd would, and tells what it was given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher_client.h"

struct service {
    struct client client; /* owns the directory, and clears up at the end */
    char daemon[96];      /* the program that is started */
    int output_fd;        /* of both processes */
    pid_t launcher;
};

static int open_service(void **state) {
    static struct service service;
    char probe[96];
    service = (struct service){.output_fd = -1};
    client_open(&service.client, true);
    assert_int_equal(client_kill_launcher(&service.client, SIGTERM), 0);
    snprintf(probe, sizeof probe, "%s/probe", service.client.directory);
    snprintf(service.daemon, sizeof service.daemon, "%s/sandboxd", service.client.directory);
    assert_int_equal(link(probe, service.daemon), 0);
    *state = &service;
    return 0;
}

static int close_service(void **state) {
    struct service *service = *state;
    fd_close(service->output_fd);
    client_start_launcher(&service->client);
    client_dial(&service->client);
    client_hello(&service->client);
    client_close(&service->client);
    return 0;
}

static void start(struct service *service, const char *first, const char *second, const char *third) {
    int fds[2];
    char path[96];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    snprintf(path, sizeof path, "%s/launcher", service->client.directory);
    service->launcher = fork();
    if (service->launcher == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(fds[1], STDOUT_FILENO);
        dup2(fds[1], STDERR_FILENO);
        execl(path, path, "--home", service->client.home, "--", first, second, third, (char *)NULL);
        _exit(EXIT_FAILURE);
    }
    close(fds[1]);
    fd_close(service->output_fd);
    service->output_fd = fds[0];
}

static int end(struct service *service, int signal_number) {
    int status = -1;
    if (signal_number) assert_int_equal(kill(service->launcher, signal_number), 0);
    assert_int_equal(waitpid(service->launcher, &status, 0), service->launcher);
    return status;
}

static void the_daemon_has_no_privileges(void **state) {
    struct service *service = *state;
    char ids[128];
    start(service, "ids", "capabilities", "wait");
    uid_t uid = service->client.daemon_uid;
    snprintf(ids, sizeof ids, "ids=%u:%u:0\ncapabilities=0\neffective=0000000000000000\nno_new_privs=1\n", uid, uid);
    client_read_until(service->output_fd, ids);
    pid_t daemon = client_program_of(service->launcher);
    assert_int_equal(end(service, SIGTERM), 0);
    assert_int_equal(kill(daemon, 0), -1);
}

/* The process that starts the service may have anything open, keys in the session, and a mask of its own. */
static void the_daemon_inherits_nothing(void **state) {
    struct service *service = *state;
    int input_fd = dup(STDIN_FILENO), pair[2], left_open_fd;
    assert_true(syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) > 0);
    assert_true(syscall(SYS_add_key, "user", "sandbox-test", "x", 1, KEY_SPEC_SESSION_KEYRING) > 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(dup2(pair[0], STDIN_FILENO), STDIN_FILENO);
    left_open_fd = open("/etc/shadow", O_RDONLY); /* and no O_CLOEXEC */
    mode_t mask = umask(077);
    start(service, "descriptors", "session", "session_key");
    client_read_until(service->output_fd, "descriptors=3\nsession=own umask=22\ninput=ok\nsession_key=ENOKEY\n");
    assert_int_equal(end(service, 0), 0);
    umask(mask);
    dup2(input_fd, STDIN_FILENO);
    close(input_fd), close(pair[0]), close(pair[1]), close(left_open_fd);
}

static void the_daemon_learns_only_what_is_for_it(void **state) {
    struct service *service = *state;
    assert_int_equal(setenv("SECRET", "x", true) | setenv("SANDBOX_TEST", "x", true), 0);
    start(service, "environment", NULL, NULL);
    client_read_until(service->output_fd, "environment=path:ours:\n");
    assert_int_equal(end(service, 0), 0);
    assert_int_equal(unsetenv("SECRET") | unsetenv("SANDBOX_TEST"), 0);
}

static void a_killed_daemon_is_started_again(void **state) {
    struct service *service = *state;
    start(service, "ids", "wait", NULL);
    client_read_until(service->output_fd, "ids=");
    pid_t first = client_program_of(service->launcher);
    assert_int_equal(kill(first, SIGKILL), 0);
    client_read_until(service->output_fd, "ids=");
    assert_int_not_equal(client_program_of(service->launcher), first);
    assert_int_equal(end(service, SIGTERM), 0);
}

/* The directory of a process in the hierarchy that has this controller, v1 or v2. */
static void directory_of(pid_t pid, const char *controller, char ret[PATH_MAX]) {
    char path[64], line[PATH_MAX], *names, *below;
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    *ret = '\0';
    while (fgets(line, sizeof line, file) && (names = strchr(line, ':')) && (below = strchr(++names, ':'))) {
        *below++ = '\0';
        below[strcspn(below, "\n")] = '\0';
        if (strcmp(names, controller) == 0) snprintf(ret, PATH_MAX, "/sys/fs/cgroup/%s%s", controller, below);
        if (!*names && !*ret) snprintf(ret, PATH_MAX, "/sys/fs/cgroup%s", below);
    }
    fclose(file);
}

/* In a file of the directory; the first that is there. */
static void assert_bound(const char *directory, const char *v1, const char *v2, const char *expected) {
    char path[2 * PATH_MAX], text[64] = "";
    snprintf(path, sizeof path, "%s/%s", directory, v1);
    if (access(path, F_OK) < 0) snprintf(path, sizeof path, "%s/%s", directory, v2);
    assert_true(file_read_text(AT_FDCWD, path, text, sizeof text) > 0);
    text[strcspn(text, "\n")] = '\0';
    assert_string_equal(text, expected);
}

static pid_t await_daemon(struct service *service) {
    client_read_until(service->output_fd, "ids=");
    return client_program_of(service->launcher);
}

static void assert_bounded(pid_t daemon) {
    char memory[PATH_MAX], tasks[PATH_MAX], cpu[PATH_MAX];
    directory_of(daemon, "memory", memory);
    directory_of(daemon, "pids", tasks);
    assert_non_null(strstr(memory, "/sandbox-daemon/"));
    assert_bound(memory, "memory.limit_in_bytes", "memory.max", "314572800");
    assert_bound(tasks, "pids.max", "pids.max", "512");
    directory_of(daemon, "cpu", cpu);
    assert_null(strstr(cpu, "/sandbox/")); /* it has no part of the nodes' share */
}

/* The launcher reads one line of the settings; what follows the first section is a profile's. */
static void the_daemon_has_a_cgroup_of_its_own(void **state) {
    struct service *service = *state;
    char conf[128], memory[PATH_MAX];
    snprintf(conf, sizeof conf, "%s/sandbox.conf", service->client.home);
    write_file(conf, "heartbeat = 1s\n  daemon-memory=300M # enough\n[profile a]\ndaemon-memory = 200M\n",
               service->client.daemon_uid, 0644);
    start(service, "ids", "wait", NULL);
    pid_t first = await_daemon(service);
    assert_bounded(first);
    assert_int_equal(kill(first, SIGKILL), 0);
    pid_t second = await_daemon(service);
    assert_int_not_equal(second, first);
    assert_bounded(second);
    directory_of(second, "memory", memory);
    assert_int_equal(end(service, SIGTERM), 0);
    assert_int_equal(access(memory, F_OK), -1);
    assert_int_equal(unlink(conf), 0);
}

static void a_daemon_that_takes_too_much_is_started_again(void **state) {
    struct service *service = *state;
    start(service, "ids", "gorge", "--daemon-memory=128M");
    for (int i = 0; i < 2; i++) client_read_until(service->output_fd, "ids=");
    assert_int_equal(end(service, SIGTERM), 0);
}

static void a_failing_daemon_is_tried_again(void **state) {
    struct service *service = *state;
    start(service, "ids", "fail", NULL);
    for (int i = 0; i < 3; i++) client_read_until(service->output_fd, "ids=");
    assert_int_equal(end(service, SIGTERM), 0);
}

static void the_launcher_ends_with_a_daemon_that_was_told_to(void **state) {
    struct service *service = *state;
    start(service, "ids", NULL, NULL);
    assert_int_equal(end(service, 0), 0);
}

static void has_children(pid_t pid, bool expected) {
    char path[64], text[32];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, text, sizeof text) > 0, expected);
    close(fd);
}

static void a_living_daemon_is_kept(void **state) {
    struct service *service = *state;
    start(service, "hold_lock", "ids", "wait");
    client_read_until(service->output_fd, "ids=");
    pid_t daemon = client_program_of(service->launcher);
    /* Its output would end with the pipe's reader. */
    int old_output_fd = take_fd(&service->output_fd);
    assert_int_equal(WTERMSIG(end(service, SIGKILL)), SIGKILL);
    start(service, "hold_lock", "ids", "wait");
    client_read_until(service->output_fd, "launcher_ready");
    has_children(service->launcher, false);
    assert_int_equal(kill(daemon, SIGKILL), 0);
    client_read_until(service->output_fd, "ids=");
    has_children(service->launcher, true);
    close(old_output_fd);
    assert_int_equal(end(service, SIGTERM), 0);
}

static void a_missing_daemon_is_said(void **state) {
    struct service *service = *state;
    assert_int_equal(unlink(service->daemon), 0);
    start(service, NULL, NULL, NULL);
    client_read_until(service->output_fd, "there is no sandboxd");
    assert_int_equal(WEXITSTATUS(end(service, 0)), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_daemon_has_no_privileges),
        cmocka_unit_test(the_daemon_inherits_nothing),
        cmocka_unit_test(the_daemon_learns_only_what_is_for_it),
        cmocka_unit_test(a_killed_daemon_is_started_again),
        cmocka_unit_test(the_daemon_has_a_cgroup_of_its_own),
        cmocka_unit_test(a_daemon_that_takes_too_much_is_started_again),
        cmocka_unit_test(a_failing_daemon_is_tried_again),
        cmocka_unit_test(the_launcher_ends_with_a_daemon_that_was_told_to),
        cmocka_unit_test(a_living_daemon_is_kept),
        cmocka_unit_test(a_missing_daemon_is_said),
    };
    return cmocka_run_group_tests(tests, open_service, close_service);
}
