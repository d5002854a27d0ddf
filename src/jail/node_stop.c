/* Standing still where the kernel has no freezer for us: every process of the node but its init is stopped by a signal,
   which none can refuse. One that runs could start another, or let one go on, so it is looked again until nobody is
   found who runs, twice: who gets another parent during a look may be missed by it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>

#include "jail/launcher_internal.h"

enum { PROCESSES_MAX = 1024, LOOKS_MAX = 128, CLEAN_LOOKS = 2, PAUSE_MS = 1, STAT_BYTES = 512 };

static const size_t some_are_unknown = SIZE_MAX;

struct crowd {
    pid_t pids[PROCESSES_MAX];
    size_t count;
};

static void add_children(struct crowd *crowd, int tasks_fd, const char *thread) {
    char name[64];
    snprintf(name, sizeof name, "%.32s/children", thread);
    int fd = openat(tasks_fd, name, O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file) fd_close(fd);
    for (int pid; file && crowd->count < PROCESSES_MAX && fscanf(file, "%d", &pid) == 1;)
        crowd->pids[crowd->count++] = pid;
    if (file) fclose(file);
}

static void add_children_of(struct crowd *crowd, pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        if (entry->d_name[0] != '.') add_children(crowd, dirfd(tasks), entry->d_name);
    if (tasks) closedir(tasks);
}

/* Whoever loses its parent becomes the init's: all descend from it. */
static void list_descendants(const struct launcher_node *node, struct crowd *ret) {
    ret->count = 0;
    add_children_of(ret, node->pid);
    for (size_t i = 0; i < ret->count; i++) add_children_of(ret, ret->pids[i]);
}

static bool is_among(const struct crowd *crowd, pid_t pid) {
    for (size_t i = 0; i < crowd->count; i++)
        if (crowd->pids[i] == pid) return true;
    return false;
}

/* "pid (name) T …": the name may hold anything, so its end is the last bracket. A process whose first thread has ended
   looks like one that has ended; the others may run. */
static bool is_stopped(pid_t pid) {
    long threads = 0;
    char state = 'R';
    char path[64], text[STAT_BYTES];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (file_read_text(AT_FDCWD, path, text, sizeof text) <= 0) return true; /* it has ended */
    const char *bracket = strrchr(text, ')');
    if (!bracket || sscanf(bracket + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld",
                           &state, &threads) != 2)
        return false;
    return state == 'Z' ? threads <= 1 : strchr("TtX", state) != NULL;
}

/* A number may be another's by now: it is the node's only if it still is after it has been taken hold of. How many got
   the signal. */
static size_t signal_held(const struct launcher_node *node, const struct crowd *crowd, const int *fds, int number) {
    CLEANUP_FREE struct crowd *now = malloc(sizeof *now);
    size_t count = 0;
    if (!now) return some_are_unknown;
    list_descendants(node, now);
    for (size_t i = 0; i < crowd->count; i++)
        if (fds[i] >= 0 && is_among(now, crowd->pids[i])) count += pidfd_send_signal(fds[i], number, NULL, 0) == 0;
    return count;
}

static size_t signal_all(const struct launcher_node *node, int number) {
    CLEANUP_FREE struct crowd *crowd = malloc(sizeof *crowd);
    int fds[PROCESSES_MAX];
    if (!crowd) return some_are_unknown;
    list_descendants(node, crowd);
    bool all_known = crowd->count < PROCESSES_MAX;
    for (size_t i = 0; i < crowd->count; i++) {
        bool is_wanted = number != SIGSTOP || !is_stopped(crowd->pids[i]);
        fds[i] = is_wanted ? pidfd_open(crowd->pids[i], 0) : -1;
        all_known &= !is_wanted || fds[i] >= 0 || errno == ESRCH;
    }
    size_t count = signal_held(node, crowd, fds, number);
    for (size_t i = 0; i < crowd->count; i++) fd_close(fds[i]);
    return all_known ? count : some_are_unknown;
}

/* Who has the signal stops when it gets its turn, which takes a while on a host that is busy: as long as there are no
   more of them, it is given. */
static int stop(const struct launcher_node *node, struct error *reterr) {
    size_t before = 0, running;
    for (int looks = 0, clean = 0; looks < LOOKS_MAX; looks++, before = running) {
        running = signal_all(node, SIGSTOP);
        clean = running == 0 ? clean + 1 : 0;
        if (clean == CLEAN_LOOKS) return 0;
        if (running && running <= before) poll(NULL, 0, PAUSE_MS);
    }
    signal_all(node, SIGCONT);
    return error_set(reterr, E_TIMEOUT, "node %s starts processes faster than they are stopped, or has too many",
                     node->name);
}

bool node_stands_still(const struct launcher *launcher, const struct launcher_node *node) {
    if (launcher->cgroups.has_freezer) return cgroup_is_frozen(&launcher->cgroups, node->name);
    pid_t program = node_program(node);
    return program > 0 && is_stopped(program);
}

int node_set_frozen(const struct launcher *launcher, struct launcher_node *node, bool frozen, struct error *reterr) {
    int failed = 0;
    bool holds_up = frozen && node->yields; /* to stand still takes a turn of each thread */
    if (holds_up) cgroup_set_yielding(&launcher->cgroups, node->name, false, NULL);
    if (launcher->cgroups.has_freezer)
        failed = cgroup_freeze(&launcher->cgroups, node->name, frozen, reterr);
    else if (frozen)
        failed = stop(node, reterr);
    else
        signal_all(node, SIGCONT);
    if (holds_up) cgroup_set_yielding(&launcher->cgroups, node->name, true, NULL);
    node->frozen = launcher->cgroups.has_freezer ? node_stands_still(launcher, node) : frozen && !failed;
    return failed;
}
