/* A launcher comes and goes, and is dialled by others than the daemon: what happens to nodes and to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/nodes/nodes.h"
#include "launcher_life.h"

/* As a launcher does that is killed between taking a call and answering it. That may have happened to the one that was
   killed just now: then no further call comes. */
static void take_a_call_and_die(pid_t init) {
    enum { NO_MORE_MS = 500 };
    CLEANUP_FD int pidfd = pidfd_open(init, 0);
    CLEANUP_FD int listener_fd = pidfd_getfd(pidfd, JAILED_LISTENER_FD, 0);
    struct seccomp_notif call = {0};
    assert_true(listener_fd >= 0);
    if (poll(&(struct pollfd){.fd = listener_fd, .events = POLLIN}, 1, NO_MORE_MS) != 1) return;
    assert_int_equal(ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_RECV, &call), 0);
}

void a_new_launcher_adopts(void **state) {
    struct client *client = *state;
    char expected[64], directory[256];
    assert_true(client_spawn(client, "survivor", "", client->root ? "insist" : "wait"));
    pid_t pid = (pid_t)client_number(client, "pid");
    client_directory(client, "cpu=", directory);
    CLEANUP_FD int pidfd = take_fd(&client->fds[0]);
    if (client->root) assert_true(client_ask(client, "yield", "survivor on=1", -1));
    client_kill_launcher(client, SIGKILL);
    if (client->root) take_a_call_and_die(pid);
    client_start_launcher(client);
    client_dial(client);
    client_hello(client);
    snprintf(expected, sizeof expected, "node survivor pid=%d ", (int)pid);
    client_await(client, expected);
    if (client->root) client_await(client, "violation survivor syscall=unshare");
    assert_int_equal(poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, 0), 0);
    assert_false(client_spawn(client, "survivor", "", "wait"));
    if (client->root) { /* what is refused leaves it as it was */
        assert_false(client_limit(client, "survivor", "limit os_tasks 32769\n"));
        assert_int_equal(client_yielding(directory), 1);
    }
    client_assert_death(client, "survivor", " cause=killed status=-1 oom=0");
    assert_int_equal(poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, 0), 1);
}

void a_new_launcher_clears_away_the_dead(void **state) {
    struct client *client = *state;
    assert_true(client_spawn(client, "dying", "", "wait"));
    CLEANUP_FD int pidfd = take_fd(&client->fds[0]);
    pid_t pid = (pid_t)client_number(client, "pid");
    client_kill_launcher(client, SIGKILL);
    assert_int_equal(kill(pid, SIGKILL), 0);
    client_await_death(pidfd);
    client_start_launcher(client);
    client_dial(client);
    client_hello(client);
    assert_null(strstr(buf_string(&client->unasked), "node dying"));
    assert_true(client_spawn(client, "dying", "", "wait"));
    assert_true(client_ask(client, "bury", "dying", -1));
}

/* A record names some other process of ours: it must neither be adopted nor killed. */
void a_record_that_lies_is_not_believed(void **state) {
    struct client *client = *state;
    char path[96], text[128];
    pid_t bystander = fork();
    if (bystander == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) pause();
    }
    client_kill_launcher(client, SIGKILL);
    unsigned slot = (client->daemon_uid - 1000000000u) / 65536;
    snprintf(path, sizeof path, "/run/sandbox/nodes/%u/liar", slot);
    snprintf(text, sizeof text, "node pid=%d start=1 uid=%u counted=0 execs=0 used=0\n", (int)bystander,
             client->daemon_uid + 1);
    write_file(path, text, 0, 0600);
    client_start_launcher(client);
    client_dial(client);
    client_hello(client);
    assert_null(strstr(buf_string(&client->unasked), "node liar"));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(waitpid(bystander, NULL, WNOHANG), 0);
    assert_int_equal(kill(bystander, SIGKILL), 0);
    assert_int_equal(waitpid(bystander, NULL, 0), bystander);
}

/* As a launcher wrote it that bounded egress by other words. What its node may reach is not known then, so it ends. */
void a_policy_that_says_nothing_ends_its_node(void **state) {
    struct client *client = *state;
    char path[96];
    assert_true(client_spawn(client, "astray", "", "wait"));
    CLEANUP_FD int pidfd = take_fd(&client->fds[0]);
    client_kill_launcher(client, SIGKILL);
    unsigned slot = (client->daemon_uid - 1000000000u) / 65536;
    snprintf(path, sizeof path, "/run/sandbox/nodes/%u/.egress-astray", slot);
    write_file(path, "node astray\nreach public\nrate 1000000\nconnections 9\n", 0, 0600);
    client_start_launcher(client);
    client_dial(client);
    client_hello(client);
    assert_null(strstr(buf_string(&client->unasked), "node astray"));
    client_await_death(pidfd);
    assert_int_equal(access(path, F_OK), -1);
}

void sigterm_leaves_nodes_running(void **state) {
    struct client *client = *state;
    assert_true(client_spawn(client, "stays", "", "wait"));
    CLEANUP_FD int pidfd = take_fd(&client->fds[0]);
    assert_int_equal(client_kill_launcher(client, SIGTERM), 0);
    assert_int_equal(poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, 0), 0);
    client_start_launcher(client);
    client_dial(client);
    client_hello(client);
    client_await(client, "node stays ");
}

static int run_second(const struct client *client, const char *home) {
    char path[128];
    int status = -1;
    snprintf(path, sizeof path, "%s/launcher", client->directory);
    pid_t pid = fork();
    if (pid == 0) {
        int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null_fd, STDERR_FILENO);
        if (!client->root && (setgid(USER_UID) < 0 || setuid(USER_UID) < 0)) _exit(EXIT_FAILURE);
        execl(path, path, "--home", home, "--no-daemon", (char *)NULL);
        _exit(EXIT_FAILURE);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void refuses_what_it_cant_serve(void **state) {
    struct client *client = *state;
    char home[256];
    assert_int_equal(run_second(client, client->home), 4);
    snprintf(home, sizeof home, "%s/%0150d", client->home, 0);
    assert_int_equal(run_second(client, home), 2);
    rmdir(home);
    if (client->root) {
        snprintf(home, sizeof home, "%s", client->directory);
        assert_int_equal(run_second(client, home), 2); /* holds what is not a home's */
    }
    assert_true(client_ask(client, "release", "p0", -1));
}

void answers_only_the_daemon(void **state) {
    struct client *client = *state;
    struct client stranger = {.link_fd = -1, .daemon_uid = client->root ? 0 : 4444};
    char byte;
    if (!client->root) return; /* the socket's mode keeps others out already */
    strcpy(stranger.home, client->home);
    client_dial(&stranger);
    assert_int_equal(poll(&(struct pollfd){.fd = stranger.link_fd, .events = POLLIN}, 1, 10000), 1);
    assert_int_equal(read(stranger.link_fd, &byte, 1), 0);
    fd_close(stranger.link_fd);
    assert_true(client_ask(client, "release", "p0", -1));
}

void bad_messages_end_the_link_not_the_launcher(void **state) {
    struct client *client = *state;
    static const char *const texts[] = {"spawn", "spawn x", "%zz 1", " ", "\n", "hello -1"};
    char byte;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        client_dial(client);
        assert_true(send(client->link_fd, texts[i], strlen(texts[i]), 0) > 0);
        assert_int_equal(poll(&(struct pollfd){.fd = client->link_fd, .events = POLLIN}, 1, 10000), 1);
        assert_int_equal(recv(client->link_fd, &byte, 1, 0), 0);
    }
    client_dial(client);
    assert_false(client_ask(client, "hello", "version=1", -1));
    assert_false(client_ask(client, "dance", "", -1));
    client_hello(client);
}
