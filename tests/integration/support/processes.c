/* Watches and ends processes that are not children of the test, by pidfd and through /proc. */
#include "processes.h"

#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>

#include "support.h"

enum { PAUSE_MAX_MS = 16 };

int process_open(pid_t pid) {
    int fd = pidfd_open(pid, 0);
    assert_true(fd >= 0);
    return fd;
}

int process_open_parent(pid_t pid) {
    char path[64], name[64];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d (%63[^)]) %*c %d", name, &parent), 2);
    assert_int_equal(fclose(file), 0);
    return process_open((pid_t)parent);
}

bool process_ends(int pidfd, uint64_t timeout_ms) {
    return poll(&(struct pollfd){pidfd, POLLIN, 0}, 1, (int)timeout_ms) == 1;
}

bool process_lives(pid_t pid) {
    CLEANUP_FD int fd = pidfd_open(pid, 0);
    return fd >= 0 && !process_ends(fd, 0);
}

void process_end(pid_t pid, int signal_number) {
    CLEANUP_FD int fd = process_open(pid);
    assert_int_equal(pidfd_send_signal(fd, signal_number, NULL, 0), 0);
    if (!process_ends(fd, WORLD_DEADLINE_MS)) fail_msg("process %d outlives signal %d", (int)pid, signal_number);
}

pid_t process_child(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    CLEANUP_FREE char *text = read_whole(path);
    return text ? (pid_t)strtol(text, NULL, 10) : 0;
}

char *process_status(pid_t pid, const char *name) {
    char path[64], start[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    snprintf(start, sizeof start, "\n%s:", name);
    CLEANUP_FREE char *text = read_whole(path);
    char *line = text ? strstr(text, start) : NULL;
    if (!line) fail_msg("/proc/%d/status has no %s", (int)pid, name);
    line += strlen(start);
    line += strspn(line, " \t");
    line[strcspn(line, "\n")] = '\0';
    return strdup(line);
}

bool wait_until(bool (*holds)(void *data), void *data, uint64_t timeout_ms) {
    uint64_t deadline_ms = clock_monotonic_ms() + timeout_ms;
    for (int pause_ms = 1; !holds(data); pause_ms = pause_ms < PAUSE_MAX_MS ? 2 * pause_ms : PAUSE_MAX_MS) {
        if (clock_monotonic_ms() > deadline_ms) return false;
        poll(NULL, 0, pause_ms);
    }
    return true;
}
