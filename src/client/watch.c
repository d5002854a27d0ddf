/* Waits for the end of a home's launcher and daemon, by pidfds of the pids in their lock files. */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>

#include "client/client_internal.h"

pid_t client_lock_owner(const char *home, const char *lock) {
    char path[PATH_MAX], text[24];
    if (string_format(path, sizeof path, NULL, "%s/%s", home, lock) < 0) return 0;
    if (file_read_text(AT_FDCWD, path, text, sizeof text) <= 0) return 0;
    text[strcspn(text, "\n ")] = '\0';
    uint64_t pid;
    return parse_u64(text, &pid) && pid <= INT32_MAX ? (pid_t)pid : 0;
}

void client_watch_open(const char *home, struct client_watch *ret) {
    static const char *const locks[CLIENT_PROGRAMS] = {"launcher.lock", "daemon.lock"};
    for (size_t i = 0; i < CLIENT_PROGRAMS; i++) {
        pid_t pid = client_lock_owner(home, locks[i]);
        ret->pidfds[i] = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    }
}

bool client_watch_wait(const struct client_watch *watch, uint64_t timeout_ms) {
    uint64_t deadline_ms = clock_monotonic_ms() + timeout_ms;
    for (size_t i = 0; i < CLIENT_PROGRAMS; i++) {
        struct pollfd polled = {watch->pidfds[i], POLLIN, 0};
        uint64_t now_ms = clock_monotonic_ms();
        int left_ms = now_ms < deadline_ms ? (int)(deadline_ms - now_ms) : 0;
        if (watch->pidfds[i] >= 0 && poll(&polled, 1, left_ms) <= 0) return false;
    }
    return true;
}

void client_watch_close(struct client_watch *watch) {
    for (size_t i = 0; i < CLIENT_PROGRAMS; i++) watch->pidfds[i] = fd_close(watch->pidfds[i]);
}
