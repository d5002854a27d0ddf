/* Standing still where the kernel has no freezer for us: the node's init sends a signal that none can refuse to every
   process of its namespace. The kernel does that in one step, and a process that is starting another gets it before or
   after: so no process is missed, however fast they fork and end. Whether all have stopped is then checked from
   outside. A process with the signal stops when it is scheduled; one that has not could let others go on, so it is sent
   again before each check. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>

#include "launcher/nodes/nodes.h"

enum { PROCESSES_MAX = 1024, STAT_BYTES = 512 };

/* All descend from the init: a process that loses its parent becomes its child. */
struct jailed_stop_check {
    pid_t pids[PROCESSES_MAX]; /* the init first */
    size_t count, next;
    DIR *threads; /* of the process that is being checked; NULL: on to the next one */
    bool some_run;
};

struct jailed_stop_check *jailed_stop_check_new(void) {
    return calloc(1, sizeof(struct jailed_stop_check));
}

void jailed_stop_check_free(struct jailed_stop_check *check) {
    if (check && check->threads) closedir(check->threads);
    free(check);
}

void jailed_signal(const struct jailed_node *node, bool frozen) {
    pidfd_send_signal(node->pidfd, frozen ? JAILED_SIGNAL_STOP : JAILED_SIGNAL_GO_ON, NULL, 0);
}

/* "1 (name) T …": the name may hold anything, so its end is the last bracket. */
static bool has_state(int directory_fd, const char *path, const char *states) {
    char text[STAT_BYTES], state = 'R';
    if (file_read_text(directory_fd, path, text, sizeof text) <= 0) return true; /* it has ended */
    const char *bracket = strrchr(text, ')');
    return bracket && sscanf(bracket + 1, " %c", &state) == 1 && strchr(states, state);
}

bool process_is_stopped(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    return has_state(AT_FDCWD, path, "Tt");
}

static void add_children(struct jailed_stop_check *check, int threads_fd, const char *thread) {
    char name[64];
    snprintf(name, sizeof name, "%.32s/children", thread);
    int fd = openat(threads_fd, name, O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file) fd_close(fd);
    for (int pid; file && check->count < PROCESSES_MAX && fscanf(file, "%d", &pid) == 1;)
        check->pids[check->count++] = pid;
    if (file) fclose(file);
}

static void check_thread(struct jailed_stop_check *check, const char *thread) {
    bool is_init = check->next == 1;
    char name[64];
    snprintf(name, sizeof name, "%.32s/stat", thread);
    if (!is_init) check->some_run |= !has_state(dirfd(check->threads), name, "TtXZ");
    add_children(check, dirfd(check->threads), thread);
}

static void open_next(struct jailed_stop_check *check) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)check->pids[check->next++]);
    check->threads = opendir(path); /* NULL: it has ended */
}

/* One thread, or on to the next process; false: there is none. */
static bool step(struct jailed_stop_check *check) {
    struct dirent *thread = check->threads ? readdir(check->threads) : NULL;
    if (thread) {
        if (thread->d_name[0] != '.') check_thread(check, thread->d_name);
        return true;
    }
    if (check->threads) closedir(check->threads);
    check->threads = NULL;
    if (check->next == check->count) return false;
    open_next(check);
    return true;
}

bool jailed_stop_check_on(struct jailed_stop_check *check, const struct jailed_node *node, uint64_t until_us,
                          bool *ret_all_stopped) {
    if (check->count == 0) check->pids[check->count++] = node->pid;
    while (step(check))
        if (clock_monotonic_us() >= until_us) return false;
    *ret_all_stopped = !check->some_run && check->count < PROCESSES_MAX;
    check->count = check->next = 0;
    check->some_run = false;
    return true;
}
