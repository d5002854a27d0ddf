/* Starts the service of a home when none answers, and waits until it is ready. A lock lets one starter win. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "client/client_internal.h"

enum {
    HOME_MODE = 0711, /* others may reach the socket in it, and see nothing else */
    RETRY_MS = 3,
    START_DEADLINE_MS = 30000,
    LOG_TAIL_BYTES = 400,
};

static struct http_wait wait_until(const struct sbx *sbx, uint64_t deadline_ms) {
    return (struct http_wait){.deadline_ms = deadline_ms, .cancel_fd = sbx->cancel_fd};
}

/* ---- is it there? ---- */

enum { HEALTH_MAX_BYTES = 4096 };

static int take_health(struct http_parser *parser, const uint8_t *bytes, size_t size, struct error *reterr) {
    struct buf *text = parser->data;
    buf_append(text, bytes, size);
    return text->failed ? error_set(reterr, E_FORMAT, "the service says too much about its health") : 0;
}

/* "ok" is what a service says that has a launcher and has found its sandboxes again. */
static bool says_ok(struct buf *text) {
    json_t *health = json_loads(buf_string(text), 0, NULL);
    bool ok = string_equal(json_string_value(json_object_get(health, "status")), "ok");
    json_decref(health);
    return ok;
}

/* A service that listens may still be starting: ready is when it says so. */
static int connect_ready(const struct sbx *sbx, const struct http_wait *wait, int *ret_fd, struct error *reterr) {
    CLEANUP_FD int fd = -1;
    int result = http_connect(sbx->socket_path, wait, &fd, reterr);
    if (result < 0) return result;
    CLEANUP(buf_free) struct buf text = {.max = HEALTH_MAX_BYTES};
    CLEANUP(http_parser_free) struct http_parser parser;
    http_parser_init(&parser, take_health, &text);
    result = http_exchange(fd, &(struct http_request){.method = "GET", .path = "/health"}, wait, &parser, reterr);
    if (result < 0) return result;
    if (parser.status != 200 || !says_ok(&text))
        return error_set(reterr, E_NO_DAEMON, "the service is not ready: status %d", parser.status);
    *ret_fd = take_fd(&fd);
    return 0;
}

static bool has_ended(int pidfd) {
    struct pollfd polled = {pidfd, POLLIN, 0};
    return pidfd < 0 || poll(&polled, 1, 0) > 0; /* even if its parent has not waited for it yet */
}

/* A pidfd of the launcher that lives, or -1: judged by the pid in its lock file and that process's name. Trying the
   lock itself could make a launcher that starts at this moment believe in another. */
static int open_launcher(const struct sbx *sbx) {
    char path[PATH_MAX], name[24];
    pid_t pid = client_lock_owner(sbx->home, "launcher.lock");
    if (pid == 0) return -1;
    CLEANUP_FD int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (has_ended(pidfd)) return -1;
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    bool is_launcher = file_read_text(AT_FDCWD, path, name, sizeof name) > 0 && string_starts(name, "sandbox-launche");
    return is_launcher ? take_fd(&pidfd) : -1;
}

/* Where we may not look we may not start one either: it lives. */
static bool launcher_lives(const struct sbx *sbx) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/launcher.lock", sbx->home);
    if (access(path, R_OK) < 0) return errno != ENOENT;
    CLEANUP_FD int pidfd = open_launcher(sbx);
    return pidfd >= 0;
}

/* ---- starting it ---- */

static int make_home_error(int errno_value, const char *path, struct error *reterr) {
    if (errno_value == EACCES || errno_value == EPERM)
        return error_set(reterr, E_FORBIDDEN, "you may not make %s; choose another home with --home", path);
    return error_errno(reterr, errno_value, "making %s", path);
}

static int make_home(const char *home, struct error *reterr) {
    char path[PATH_MAX];
    memcpy(path, home, strlen(home) + 1);
    for (char *at = path + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        if (mkdir(path, 0755) < 0 && errno != EEXIST) return make_home_error(errno, path, reterr);
    }
    if (mkdir(path, HOME_MODE) == 0) {
        /* Whatever the umask: callers with other uids must reach the socket. */
        if (chmod(path, HOME_MODE) < 0) return error_errno(reterr, errno, "opening %s to others", path);
    } else if (errno != EEXIST) {
        return make_home_error(errno, path, reterr);
    }
    return 0;
}

static int pause_for(const struct http_wait *wait, struct error *reterr) {
    struct pollfd polled = {wait->cancel_fd, POLLIN, 0};
    poll(&polled, 1, RETRY_MS);
    if (polled.revents) return error_set(reterr, E_TIMEOUT, "interrupted");
    if (clock_monotonic_ms() > wait->deadline_ms)
        return error_set(reterr, E_NO_DAEMON, "the service was not ready in time; its daemon.log may tell why");
    return 0;
}

/* One of many commands starts the service; the others wait here and find it running. */
static int lock_start(const struct sbx *sbx, const struct http_wait *wait, int *ret_fd, struct error *reterr) {
    char path[PATH_MAX];
    int result = string_format(path, sizeof path, reterr, "%s/start.lock", sbx->home);
    if (result < 0) return result;
    CLEANUP_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && (errno == EACCES || errno == EPERM))
        return error_set(reterr, E_NO_DAEMON, "no service listens in %s, and you may not start one there", sbx->home);
    if (fd < 0) return error_errno(reterr, errno, "opening %s", path);
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) return error_errno(reterr, errno, "locking %s", path);
        result = pause_for(wait, reterr);
        if (result < 0) return result;
    }
    *ret_fd = take_fd(&fd);
    return 0;
}

/* The last line of the log: what a launcher that ended at once had to say. */
static void read_log_tail(const struct sbx *sbx, char ret[LOG_TAIL_BYTES]) {
    char path[PATH_MAX];
    ret[0] = '\0';
    snprintf(path, sizeof path, "%s/daemon.log", sbx->home);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    off_t size = lseek(fd, 0, SEEK_END);
    off_t from = size > LOG_TAIL_BYTES - 1 ? size - (LOG_TAIL_BYTES - 1) : 0;
    ssize_t length = pread(fd, ret, LOG_TAIL_BYTES - 1, from);
    if (length < 0) length = 0;
    while (length > 0 && ret[length - 1] == '\n') length--;
    ret[length] = '\0';
    const char *newline = strrchr(ret, '\n');
    if (newline) memmove(ret, newline + 1, strlen(newline + 1) + 1);
}

static int wait_ready(const struct sbx *sbx, const struct http_wait *wait, int pidfd, int *ret_fd,
                      struct error *reterr) {
    for (;;) {
        int result = connect_ready(sbx, wait, ret_fd, reterr);
        if (result == 0 || result != -E_NO_DAEMON) return result;
        if (pidfd >= 0 && has_ended(pidfd) && !launcher_lives(sbx)) { /* nor was another one faster */
            char tail[LOG_TAIL_BYTES];
            read_log_tail(sbx, tail);
            return error_set(reterr, E_NO_DAEMON, "the service ended while it started: %s", tail);
        }
        result = pause_for(wait, reterr);
        if (result < 0) return result;
    }
}

static int find_launcher(char ret[PATH_MAX], struct error *reterr) {
    const char *chosen = getenv("SANDBOX_LAUNCHER");
    if (chosen && *chosen) return string_format(ret, PATH_MAX, reterr, "%s", chosen);
    return client_find_program("sandbox-launcher", ret, reterr);
}

/* Start what is missing, launcher or the whole service, and wait until it answers. */
static int start_service(const struct sbx *sbx, int *ret_fd, struct error *reterr) {
    struct http_wait wait = wait_until(sbx, clock_monotonic_ms() + START_DEADLINE_MS);
    CLEANUP_FD int lock_fd = -1;
    CLEANUP_FD int pidfd = -1;
    char program[PATH_MAX];
    int result = make_home(sbx->home, reterr);
    if (result == 0) result = lock_start(sbx, &wait, &lock_fd, reterr);
    if (result == 0 && !launcher_lives(sbx)) {
        result = find_launcher(program, reterr);
        if (result == 0) result = launch_service(program, sbx->home, &pidfd, reterr);
    }
    return result == 0 ? wait_ready(sbx, &wait, pidfd, ret_fd, reterr) : result;
}

/* Looked for once: from then on its pidfd tells. */
static bool known_launcher_lives(struct sbx *sbx) {
    pthread_mutex_lock(&sbx->lock);
    if (has_ended(sbx->launcher_pidfd)) {
        fd_close(sbx->launcher_pidfd);
        sbx->launcher_pidfd = open_launcher(sbx);
    }
    bool lives = sbx->launcher_pidfd >= 0;
    pthread_mutex_unlock(&sbx->lock);
    return lives;
}

bool service_is_whole(struct sbx *sbx) {
    bool may_start = !(sbx->flags & SBX_NO_AUTOSTART);
    return !may_start || known_launcher_lives(sbx) || client_lock_owner(sbx->home, "launcher.lock") == 0 ||
           launcher_lives(sbx);
}

int service_connect(const struct sbx *sbx, uint64_t deadline_ms, int *ret_fd, struct error *reterr) {
    struct http_wait wait = wait_until(sbx, deadline_ms);
    CLEANUP_FD int fd = -1;
    int result = http_connect(sbx->socket_path, &wait, &fd, reterr);
    bool may_start = !(sbx->flags & SBX_NO_AUTOSTART);
    if (result == -E_NO_DAEMON && may_start) return start_service(sbx, ret_fd, reterr);
    if (result == -E_NO_DAEMON)
        return error_set(reterr, E_NO_DAEMON, "no service runs in %s, and none was to be started", sbx->home);
    if (result < 0) return result;
    /* The daemon outlives a launcher; without one nothing new can start. A stranger who may not start one still gets
       the service that is there. */
    int started_fd = -1;
    if (may_start && !launcher_lives(sbx) && start_service(sbx, &started_fd, NULL) == 0) {
        fd_close(fd);
        fd = started_fd;
    }
    *ret_fd = take_fd(&fd);
    return 0;
}
