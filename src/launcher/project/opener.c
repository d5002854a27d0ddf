/* A process that waits for the next project to open: by the time a caller asks, it has been forked. It opens one, as
   its caller and with no more than the caller's rights, and ends. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "launcher/launcher.h"
#include "launcher/project/helper.h"
#include "launcher/project/project.h"
#include "launcher/start/spawn.h"

enum {
    /* The daemon has more to do, on the same few cores: until it is through with the project, or for so long. */
    REFILL_AFTER_MS = 10,
    REFILL_AFTER_USE_MS = 1,
    END_PATIENCE_MS = 1000,
};

struct job {
    struct caller caller;
    bool wants_signature;
    enum folder_access folder;
    char path[PATH_MAX];
    char below[PATH_MAX];
};

/* ---- in a process of its own ---- */

/* A link that leads out of its owner's folder is not followed. */
static int find_below(const char *below, const char *path) {
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    CLEANUP_FD int folder_fd = sources_find(below);
    return folder_fd < 0 ? -1 : file_open_how(folder_fd, path + strlen(below) + 1, &how);
}

static int open_toolchain(const struct job *job, struct error *reterr) {
    CLEANUP_FD int found_fd = find_below(job->below, job->path);
    if (found_fd < 0 && errno == EXDEV)
        return error_set(reterr, E_TOOLCHAIN, "%s leads out of %s", job->path, job->below);
    CLEANUP_FD int fd = found_fd < 0 ? -1 : openat(found_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_set(reterr, errno == ENOENT || errno == ENOTDIR ? E_NOT_FOUND : E_TOOLCHAIN, "%s: %s", job->path,
                         strerror(errno));
    if (toolchain_check_owners(fd, job->caller.uid, reterr) < 0) return error_prefix(reterr, "%s", job->path);
    return take_fd(&fd);
}

/* O_PATH first, since opening a device or a pipe to look what it is has effects. */
static int open_as_caller(const char *path, bool *ret_is_file, struct error *reterr) {
    struct stat status;
    char again[64];
    CLEANUP_FD int fd = sources_find(path);
    if (fd < 0 || fstat(fd, &status) < 0)
        return error_set(reterr, errno == EACCES ? E_FORBIDDEN : E_NOT_FOUND, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
        return error_set(reterr, E_INVALID, "%s is neither a directory nor a file", path);
    snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
    int readable_fd = open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (readable_fd < 0)
        return error_set(reterr, errno == EACCES ? E_FORBIDDEN : E_SYSTEM, "%s: %s", path, strerror(errno));
    *ret_is_file = S_ISREG(status.st_mode);
    return readable_fd;
}

static int open_wanted(const struct launcher *launcher, const struct job *job, struct opened *opened) {
    if (job->folder != FOLDER_NONE)
        return folder_open(&job->caller, job->path, job->folder, launcher->root, &opened->error);
    if (job->below[0]) return open_toolchain(job, &opened->error);
    return open_as_caller(job->path, &opened->is_file, &opened->error);
}

void opener_write_stream(const struct launcher *launcher, const char *path, int source_fd, const char *name) {
    struct error error;
    alarm(STREAM_TIMEOUT_S);
    if (project_stream_write(source_fd, name, HELPER_FD + 1, &error) < 0)
        log_line(&launcher->log, LOG_WARN_LEVEL, "project_not_copied", "path", path, "detail", error.detail, NULL);
}

/* A single file goes out at once, by the same process, and is never the launcher's: closing a file waits for the
   server of its file system, which may be the caller's, and nothing cuts that short. */
static void do_job(const struct launcher *launcher, const struct job *job) {
    struct opened opened = {0};
    int fd = -1;
    alarm(OPEN_TIMEOUT_S);
    if (caller_become(&job->caller, launcher->root, &opened.error) == 0) fd = open_wanted(launcher, job, &opened);
    if (fd >= 0 && job->wants_signature) {
        if (!job->below[0])
            opened.signature = project_sign(fd, opened.is_file);
        else if (toolchain_sign(fd, job->caller.uid, &opened.signature, &opened.error) < 0)
            error_prefix(&opened.error, "%s", job->path);
        fd = fd_close(fd);
    }
    if (fd >= 0 && !opened.is_file && !job->folder && launcher->root)
        opened.must_be_streamed = project_must_be_streamed(fd);
    fd_send(HELPER_FD, &opened, sizeof opened, &fd, fd >= 0 && !opened.is_file, 0);
    if (fd >= 0 && opened.is_file) opener_write_stream(launcher, job->path, fd, strrchr(job->path, '/') + 1);
}

/* The launcher's end closes the socket: then there is nothing to do. */
static void await_job(const void *data) {
    struct job job;
    if (recv(HELPER_FD, &job, sizeof job, 0) == sizeof job) do_job(data, &job);
}

/* ---- the launcher's side ---- */

static int start(struct launcher *launcher, struct error *reterr) {
    int fds[2], pipe_fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return error_errno(reterr, errno, "make a socket pair");
    CLEANUP_FD int socket_fd = fds[0];
    CLEANUP_FD int helper_fd = fds[1];
    if (pipe2(pipe_fds, O_CLOEXEC) < 0) return error_errno(reterr, errno, "make a pipe");
    CLEANUP_FD int file_fd = pipe_fds[0];
    CLEANUP_FD int content_fd = pipe_fds[1];
    launcher_log_follow(launcher); /* what can't be copied is said there: a file without a name has no bound */
    if (helper_start(await_job, launcher, (int[]){helper_fd, content_fd}, 2, &launcher->opener.pidfd, reterr) < 0)
        return -1;
    launcher->opener.socket_fd = take_fd(&socket_fd);
    launcher->opener.file_fd = take_fd(&file_fd);
    return 0;
}

/* It is gone when its end of the socket is. */
void opener_end(struct launcher *launcher) {
    struct pollfd ended = {.fd = launcher->opener.socket_fd, .events = POLLIN};
    launcher->opener.pidfd = helper_end(launcher->opener.pidfd);
    if (ended.fd >= 0) poll(&ended, 1, END_PATIENCE_MS);
    launcher->opener.socket_fd = fd_close(launcher->opener.socket_fd);
    launcher->opener.file_fd = fd_close(launcher->opener.file_fd);
}

/* Whatever ended the one that waited, there is another. */
static int send_job(struct launcher *launcher, const struct job *job, struct error *reterr) {
    for (int attempt = 0; attempt < 2; attempt++) {
        if (launcher->opener.socket_fd < 0 && start(launcher, reterr) < 0) return -1;
        if (send(launcher->opener.socket_fd, job, sizeof *job, MSG_NOSIGNAL) == sizeof *job) return 0;
        opener_end(launcher);
    }
    return error_set(reterr, E_SYSTEM, "no process would open %s", job->path);
}

static void refill_after(struct launcher *launcher, uint64_t after_ms) {
    launcher->opener.refill_due_ms = clock_monotonic_ms() + after_ms;
    launcher_due_at(launcher, launcher->opener.refill_due_ms);
}

int opener_begin(struct launcher *launcher, struct launcher_project *project, struct error *reterr) {
    struct job job = {
        .caller = project->caller, .wants_signature = project->wants_signature, .folder = project->folder};
    memcpy(job.path, project->path, sizeof job.path);
    memcpy(job.below, project->below, sizeof job.below);
    if (send_job(launcher, &job, reterr) < 0) return -1;
    project->helper_pidfd = take_fd(&launcher->opener.pidfd);
    project->helper_fd = take_fd(&launcher->opener.socket_fd);
    project->file_fd = take_fd(&launcher->opener.file_fd);
    refill_after(launcher, REFILL_AFTER_MS);
    return 0;
}

void opener_used(struct launcher *launcher) {
    if (launcher->opener.refill_due_ms > 0) refill_after(launcher, REFILL_AFTER_USE_MS);
}

uint64_t opener_check(struct launcher *launcher, uint64_t now_ms) {
    if (launcher->opener.socket_fd >= 0 || launcher->opener.refill_due_ms == 0) return UINT64_MAX;
    if (now_ms < launcher->opener.refill_due_ms) return launcher->opener.refill_due_ms;
    launcher->opener.refill_due_ms = 0;
    start(launcher, NULL); /* or the next caller's request starts it, and says why it can't */
    return UINT64_MAX;
}
