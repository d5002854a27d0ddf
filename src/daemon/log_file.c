/* Queues log lines for the thread that writes and rotates `daemon.log`. */
#include "daemon/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define LOG_NAME "daemon.log"
#define LOG_NEXT_NAME LOG_NAME ".next"

enum {
    LOG_MODE = 0640,
    LINE_MAX_BYTES = 64 << 10,
    QUEUE_BYTES = 1 << 20, /* as much of it as the kernel gives */
};

struct log_file {
    pthread_t thread;
    int home_fd;
    int read_fd, write_fd;
    uint64_t file_max_bytes;
    uint64_t retry_at_bytes; /* after a rotation that failed; 0: none has */
};

/* ---- rotating ---- */

static void name_of(unsigned number, char ret[32]) {
    if (number == 0)
        snprintf(ret, 32, LOG_NAME);
    else
        snprintf(ret, 32, LOG_NAME ".%u", number);
}

/* The next file is there before the present one goes: a program that opens the log at any time finds one. */
static int open_next(const struct log_file *file) {
    unlinkat(file->home_fd, LOG_NEXT_NAME, 0);
    return openat(file->home_fd, LOG_NEXT_NAME, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  LOG_MODE);
}

static bool rename_all(const struct log_file *file) {
    char from[32], to[32];
    bool is_done = true;
    for (unsigned number = LOG_FILES_KEPT; number > 0; number--) {
        name_of(number - 1, from);
        name_of(number, to);
        bool is_renamed = renameat(file->home_fd, from, file->home_fd, to) == 0;
        if (number == 1) is_done = is_renamed || errno == ENOENT; /* gone already: half a rotation before */
    }
    return is_done && renameat(file->home_fd, LOG_NEXT_NAME, file->home_fd, LOG_NAME) == 0;
}

/* What others in this process write to standard error goes to the new file too. */
static bool rotate(const struct log_file *file) {
    CLEANUP_FD int fd = open_next(file);
    if (fd < 0 || !rename_all(file)) return false;
    return dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0;
}

/* The launcher's lines count too: the size is the file's. */
static void rotate_if_due(struct log_file *file) {
    struct stat status;
    uint64_t due_at = file->retry_at_bytes ? file->retry_at_bytes : file->file_max_bytes;
    if (fstat(STDERR_FILENO, &status) < 0 || (uint64_t)status.st_size < due_at) return;
    file->retry_at_bytes = rotate(file) ? 0 : (uint64_t)status.st_size + file->file_max_bytes / 16;
}

/* ---- the thread ---- */

static void *run(void *data) {
    struct log_file *file = data;
    char *line = malloc(LINE_MAX_BYTES);
    ssize_t size;
    while (line && ((size = recv(file->read_fd, line, LINE_MAX_BYTES, 0)) > 0 || (size < 0 && errno == EINTR))) {
        if (size < 0) continue;
        rotate_if_due(file);
        file_write_all(STDERR_FILENO, line, (size_t)size); /* a line that can't be written must not stop the rest */
    }
    free(line);
    return NULL;
}

/* Signals are the loop's. */
static int start_thread(struct log_file *file) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = pthread_create(&file->thread, NULL, run, file);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}

/* ---- opening and closing ---- */

static bool is_the_log(int home_fd) {
    struct stat ours, named;
    return fstat(STDERR_FILENO, &ours) == 0 && S_ISREG(ours.st_mode) &&
           fstatat(home_fd, LOG_NAME, &named, AT_SYMLINK_NOFOLLOW) == 0 && ours.st_dev == named.st_dev &&
           ours.st_ino == named.st_ino;
}

static void free_file(struct log_file *file) {
    fd_close(file->home_fd);
    fd_close(file->read_fd);
    fd_close(file->write_fd);
    free(file);
}

static int open_queue(struct log_file *file, struct error *reterr) {
    int pair[2], size = QUEUE_BYTES;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(reterr, errno, "making the log's queue");
    file->read_fd = pair[0];
    file->write_fd = pair[1];
    setsockopt(file->write_fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    if (fcntl(file->write_fd, F_SETFL, O_NONBLOCK) < 0) return error_errno(reterr, errno, "making the log's queue");
    int result = start_thread(file);
    return result == 0 ? 0 : error_errno(reterr, result, "starting the log's thread");
}

int log_file_open(const char *home, uint64_t max_bytes, struct log_file **ret, struct error *reterr) {
    CLEANUP_FD int home_fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (home_fd < 0) return error_errno(reterr, errno, "opening %s", home);
    *ret = NULL;
    if (!is_the_log(home_fd)) return 0;
    struct log_file *file = calloc(1, sizeof *file);
    if (!file) return error_set(reterr, E_NO_MEMORY, "no memory for the log");
    *file = (struct log_file){.home_fd = take_fd(&home_fd),
                              .read_fd = -1,
                              .write_fd = -1,
                              .file_max_bytes = max_bytes / (LOG_FILES_KEPT + 1)};
    int result = open_queue(file, reterr);
    if (result < 0)
        free_file(file);
    else
        *ret = file;
    return result;
}

int log_file_fd(const struct log_file *file) {
    return file->write_fd;
}

void log_file_close(struct log_file *file) {
    if (!file) return;
    file->write_fd = fd_close(file->write_fd); /* the thread reads what is left, then the end */
    pthread_join(file->thread, NULL);
    free_file(file);
}
