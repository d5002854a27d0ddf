/* Keeps one daemon running, with no rights but those of its own uid. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "launcher/cgroup/cgroup.h"
#include "launcher/daemon/daemon.h"
#include "launcher/home.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/privileges.h"
#include "launcher/record.h"

enum {
    BACKOFF_FIRST_MS = 50,
    BACKOFF_MOST_MS = 10000,
    HEALTHY_AFTER_MS = 10000, /* one that ran this long failed for a new reason */
    STOP_TIMEOUT_MS = 10000,
    OPTIONS_MAX = 64,
};

/* The bounding set while it is still allowed, then the uid, which takes the capabilities with it. */
static int leave_privileges(const struct launcher *launcher, struct error *reterr) {
    if (launcher->root && (privileges_drop_bounding(reterr) < 0 ||
                           privileges_become(launcher->daemon_uid, launcher->daemon_gid, NULL, 0, reterr) < 0))
        return -1;
    return privileges_drop_all(reterr);
}

static int detach_input(struct error *reterr) {
    CLEANUP_FD int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || dup2(fd, STDIN_FILENO) < 0) return error_errno(reterr, errno, "open /dev/null");
    return 0;
}

/* By its descriptor, which was opened with our rights. */
static _Noreturn void run_daemon(const struct launcher *launcher, const struct cgroup *cgroup, int program_fd) {
    struct error error;
    char stamp[16];
    const char *arguments[OPTIONS_MAX + 8] = {"sandboxd", "--home", launcher->home.path};
    size_t count = 3;
    if (launcher->agent[0]) {
        snprintf(stamp, sizeof stamp, "%u", installation_agent_stamp(launcher));
        const char *const found[] = {"--agent", launcher->agent, "--agent-stamp", stamp};
        memcpy(arguments + count, found, sizeof found);
        count += ARRAY_SIZE(found);
    }
    for (size_t i = 0; i < OPTIONS_MAX && launcher->daemon.options[i]; i++)
        arguments[count++] = launcher->daemon.options[i];
    signals_reset();
    /* Leave the terminal of our parent: the daemon could type into it. */
    setsid();
    priority_raise();
    daemon_bounds_join(launcher, cgroup);
    if (detach_input(&error) == 0 && leave_privileges(launcher, &error) == 0) {
        execveat(program_fd, "", (char *const *)arguments, environ, AT_EMPTY_PATH);
        error_errno(&error, errno, "start sandboxd");
    }
    log_line(&launcher->log, LOG_ERROR_LEVEL, "daemon_not_started", "detail", error.detail, NULL);
    _exit(EXIT_FAILURE);
}

/* The pid in a lock file that a process holds; 0 when none does. */
static pid_t lock_holder(const struct launcher *launcher) {
    char text[32] = "";
    fs_rights_of_daemon(launcher);
    CLEANUP_FD int fd = openat(launcher->home.fd, "daemon.lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    fs_rights_restore(launcher);
    if (fd < 0 || !file_is_locked(fd)) return 0;
    uint64_t pid;
    ssize_t size = read(fd, text, sizeof text - 1);
    text[size > 0 ? strcspn(text, "\n") : 0] = '\0';
    return parse_u64(text, &pid) && pid > 1 && pid < INT_MAX ? (pid_t)pid : 0;
}

/* A daemon of an earlier launcher. The file is the daemon's own, so its pid counts only for a process of that uid. */
static bool adopt_daemon(struct launcher *launcher) {
    pid_t pid = lock_holder(launcher);
    CLEANUP_FD int pidfd = pid ? pidfd_open(pid, 0) : -1;
    if (pidfd < 0 || process_uid(pid) != launcher->daemon_uid || lock_holder(launcher) != pid) return false;
    struct supervisor *daemon = &launcher->daemon;
    daemon->pid = pid;
    daemon->pidfd = take_fd(&pidfd);
    daemon->is_child = false;
    return true;
}

static int start_child(struct launcher *launcher, struct error *reterr) {
    CLEANUP_FD int program_fd = -1;
    CLEANUP(cgroup_close) struct cgroup cgroup = {0};
    launcher_log_follow(launcher); /* the daemon inherits it */
    if (installation_open_daemon(&program_fd, reterr) < 0) return -1;
    daemon_bounds_make(launcher, &cgroup);
    pid_t pid = fork();
    if (pid < 0) return error_errno(reterr, errno, "start the daemon");
    if (pid == 0) run_daemon(launcher, &cgroup, program_fd);
    launcher->daemon.pid = pid;
    launcher->daemon.pidfd = pidfd_open(pid, 0);
    launcher->daemon.is_child = true;
    return launcher->daemon.pidfd < 0 ? error_errno(reterr, errno, "watch the daemon") : 0;
}

int supervise_start(struct launcher *launcher, struct error *reterr) {
    struct supervisor *daemon = &launcher->daemon;
    if (!daemon->wanted || daemon->pidfd >= 0) return 0;
    daemon->start_due_ms = 0;
    daemon->started_ms = clock_monotonic_ms();
    if (!adopt_daemon(launcher) && start_child(launcher, reterr) < 0) return -1;
    return launcher_watch(launcher, daemon->pidfd, SOURCE_DAEMON, 0, reterr);
}

static void start_later(struct launcher *launcher) {
    struct supervisor *daemon = &launcher->daemon;
    uint64_t now_ms = clock_monotonic_ms();
    if (now_ms - daemon->started_ms >= HEALTHY_AFTER_MS) daemon->failures = 0;
    daemon->start_due_ms = now_ms + backoff_ms(BACKOFF_FIRST_MS, BACKOFF_MOST_MS, daemon->failures++);
    launcher_due_at(launcher, daemon->start_due_ms);
}

void supervise_ended(struct launcher *launcher) {
    struct supervisor *daemon = &launcher->daemon;
    siginfo_t info = {0};
    if (daemon->is_child) waitid(P_PIDFD, (id_t)daemon->pidfd, &info, WEXITED);
    launcher_unwatch(launcher, daemon->pidfd);
    daemon->pidfd = fd_close(daemon->pidfd);
    bool exited = daemon->is_child && info.si_code == CLD_EXITED;
    if (daemon->stop_due_ms)
        launcher_end(launcher, 0);
    else if (launcher->shutting_down)
        shutdown_advance(launcher);
    /* An end in good order was requested, and wrong options stay wrong. */
    else if (exited && (info.si_status == 0 || info.si_status == EXIT_USAGE))
        launcher_end(launcher, info.si_status);
    else
        start_later(launcher);
}

uint64_t supervise_check(struct launcher *launcher, uint64_t now_ms) {
    struct supervisor *daemon = &launcher->daemon;
    struct error error;
    if (daemon->start_due_ms && now_ms >= daemon->start_due_ms && supervise_start(launcher, &error) < 0) {
        launcher_log(launcher, LOG_ERROR_LEVEL, "daemon_not_started", "detail", error.detail, NULL);
        start_later(launcher);
    }
    if (daemon->stop_due_ms && now_ms >= daemon->stop_due_ms) launcher_end(launcher, EXIT_FAILURE);
    uint64_t due_ms = daemon->start_due_ms ? daemon->start_due_ms : daemon->stop_due_ms;
    return due_ms ? due_ms : UINT64_MAX;
}

void supervise_stop(struct launcher *launcher) {
    struct supervisor *daemon = &launcher->daemon;
    daemon->wanted = false;
    daemon->start_due_ms = 0;
    if (daemon->pidfd < 0) {
        launcher_end(launcher, 0);
        return;
    }
    daemon->stop_due_ms = clock_monotonic_ms() + STOP_TIMEOUT_MS;
    launcher_due_at(launcher, daemon->stop_due_ms);
    pidfd_send_signal(daemon->pidfd, SIGTERM, NULL, 0);
}
