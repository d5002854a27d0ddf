/* Starts the launcher as a process of its own session. Two forks and a pipe report a failed exec to the caller. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "client/client_internal.h"

enum { LOG_MODE = 0640 };

/* What the two children report to the caller, through a pipe that an exec closes. */
struct report {
    pid_t pid;       /* of the launcher-to-be; 0: this report is a failure */
    int errno_value; /* of the step that failed */
};

struct launch {
    const char *program;
    const char *home;
    int log_fd;
    int null_fd;
    int report_fd;
};

/* From here to the exec only async-signal-safe functions: the host program may have threads. */
static void tell(int fd, pid_t pid, int errno_value) {
    struct report report = {pid, errno_value};
    if (write(fd, &report, sizeof report) < 0) { /* the reader is gone */
    }
}

static void restore_signals(void) {
    sigset_t none;
    sigemptyset(&none);
    for (int signal_number = 1; signal_number < NSIG; signal_number++) signal(signal_number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void become_launcher(const struct launch *launch) {
    restore_signals();
    char *arguments[] = {(char *)"sandbox-launcher", (char *)"--home", (char *)(uintptr_t)launch->home, NULL};
    if (dup2(launch->null_fd, 0) >= 0 && dup2(launch->log_fd, 1) >= 0 && dup2(launch->log_fd, 2) >= 0 &&
        dup2(launch->report_fd, 3) >= 0 && fcntl(3, F_SETFD, FD_CLOEXEC) >= 0 && chdir("/") >= 0) {
        syscall(SYS_close_range, 4U, ~0U, 0U);
        execv(launch->program, arguments);
        tell(3, 0, errno);
    } else {
        tell(launch->report_fd, 0, errno);
    }
    _exit(127);
}

/* The first child leads the new session and ends at once, so that the launcher never becomes a zombie of the caller. */
static void become_session(const struct launch *launch) {
    setsid();
    pid_t pid = fork();
    if (pid == 0) become_launcher(launch);
    tell(launch->report_fd, pid > 0 ? pid : 0, pid < 0 ? errno : 0);
    _exit(0);
}

static int read_reports(int fd, const char *program, pid_t *ret_pid, struct error *reterr) {
    struct report report;
    pid_t pid = 0;
    int errno_value = 0;
    ssize_t size;
    while ((size = read(fd, &report, sizeof report)) != 0) {
        if (size < 0 && errno == EINTR) continue;
        if (size != (ssize_t)sizeof report) return error_errno(reterr, errno, "reading from a child");
        if (report.pid) pid = report.pid;
        if (report.errno_value) errno_value = report.errno_value;
    }
    if (errno_value) return error_errno(reterr, errno_value, "starting %s", program);
    if (!pid) return error_set(reterr, E_SYSTEM, "starting %s: the child died", program);
    *ret_pid = pid;
    return 0;
}

static int start(const struct launch *launch, int read_fd, pid_t *ret_pid, struct error *reterr) {
    pid_t child = fork();
    if (child == 0) become_session(launch);
    int errno_value = errno;
    fd_close(launch->report_fd);
    if (child < 0) return error_errno(reterr, errno_value, "starting %s", launch->program);
    int result = read_reports(read_fd, launch->program, ret_pid, reterr);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    return result;
}

/* The home belongs to a user with fewer rights than ours may be: what lies there in the log's place is not trusted. */
static int open_log(const char *path, int *ret_fd, struct error *reterr) {
    static const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    struct stat status;
    CLEANUP_FD int fd = open(path, flags, LOG_MODE);
    if (fd < 0 || fstat(fd, &status) < 0) return error_errno(reterr, errno, "opening %s", path);
    if (!S_ISREG(status.st_mode) || status.st_nlink != 1)
        return error_set(reterr, E_SYSTEM, "%s is not a file of its own", path);
    *ret_fd = take_fd(&fd);
    return 0;
}

int launch_service(const char *program, const char *home, int *ret_pidfd, struct error *reterr) {
    char log_path[PATH_MAX];
    int result = string_format(log_path, sizeof log_path, reterr, "%s/daemon.log", home);
    if (result < 0) return result;
    CLEANUP_FD int log_fd = -1;
    result = open_log(log_path, &log_fd, reterr);
    if (result < 0) return result;
    CLEANUP_FD int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null_fd < 0) return error_errno(reterr, errno, "opening /dev/null");
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) < 0) return error_errno(reterr, errno, "making a pipe");
    CLEANUP_FD int read_fd = pipe_fds[0];
    struct launch launch = {program, home, log_fd, null_fd, pipe_fds[1]};
    pid_t pid = 0;
    result = start(&launch, read_fd, &pid, reterr);
    if (result < 0) return result;
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) return error_errno(reterr, errno, "the launcher ended at once");
    *ret_pidfd = pidfd;
    return 0;
}
