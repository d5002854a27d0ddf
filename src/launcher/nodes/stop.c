/* Standing still where the kernel has no freezer for us: the node's init sends a signal that none can refuse to every
   process of its namespace. The kernel does that in one step, and a process that is starting another gets it before or
   after: so nobody is missed, however fast they fork and end. Whether all have stopped is then looked at from outside.
   Who has the signal stops when it gets its turn; one that has not could let others go on, so it is sent again before
   each look. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>

#include "launcher/nodes/nodes.h"

enum { PROCESSES_MAX = 1024, STAT_BYTES = 512 };

/* All descend from the init: whoever loses its parent becomes its child. */
struct jailed_look {
    pid_t pids[PROCESSES_MAX]; /* the init first */
    size_t count, next;
    DIR *threads; /* of the process that is being looked at; NULL: on to the next one */
    bool some_run;
};

struct jailed_look *jailed_look_new(void) {
    return calloc(1, sizeof(struct jailed_look));
}

void jailed_look_free(struct jailed_look *look) {
    if (look && look->threads) closedir(look->threads);
    free(look);
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

static void add_children(struct jailed_look *look, int threads_fd, const char *thread) {
    char name[64];
    snprintf(name, sizeof name, "%.32s/children", thread);
    int fd = openat(threads_fd, name, O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file) fd_close(fd);
    for (int pid; file && look->count < PROCESSES_MAX && fscanf(file, "%d", &pid) == 1;)
        look->pids[look->count++] = pid;
    if (file) fclose(file);
}

static void look_at_thread(struct jailed_look *look, const char *thread) {
    bool is_init = look->next == 1;
    char name[64];
    snprintf(name, sizeof name, "%.32s/stat", thread);
    if (!is_init) look->some_run |= !has_state(dirfd(look->threads), name, "TtXZ");
    add_children(look, dirfd(look->threads), thread);
}

static void open_next(struct jailed_look *look) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)look->pids[look->next++]);
    look->threads = opendir(path); /* NULL: it has ended */
}

/* One thread, or on to the next process; false: there is none. */
static bool step(struct jailed_look *look) {
    struct dirent *thread = look->threads ? readdir(look->threads) : NULL;
    if (thread) {
        if (thread->d_name[0] != '.') look_at_thread(look, thread->d_name);
        return true;
    }
    if (look->threads) closedir(look->threads);
    look->threads = NULL;
    if (look->next == look->count) return false;
    open_next(look);
    return true;
}

bool jailed_look_on(struct jailed_look *look, const struct jailed_node *node, uint64_t until_us,
                    bool *ret_all_stopped) {
    if (look->count == 0) look->pids[look->count++] = node->pid;
    while (step(look))
        if (clock_monotonic_us() >= until_us) return false;
    *ret_all_stopped = !look->some_run && look->count < PROCESSES_MAX;
    look->count = look->next = 0;
    look->some_run = false;
    return true;
}
