/* What is changed of a node's cgroups while it runs, and read from them: limits, yielding, freezing, OOM kills. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "launcher/cgroup/backend.h"
#include "launcher/cgroup/cgroup.h"

enum { RETRY_PAUSE_US = 500 }; /* where there is nothing to wait on but time */

static void pause_briefly(void) {
    nanosleep(&(struct timespec){.tv_nsec = RETRY_PAUSE_US * 1000L}, NULL);
}

static bool is_line(const char *path, const char *key, uint64_t wanted) {
    uint64_t value;
    return cgroup_read_number(path, key, &value) && value == wanted;
}

/* Until "key wanted" is in cgroup.events, whose every change is an event for poll. */
static bool wait_for_event(const char *path, const char *key, uint64_t wanted, uint64_t deadline_ms) {
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    char byte;
    for (;;) {
        /* Reading arms the next notification, so it comes before the look. */
        if (fd < 0 || pread(fd, &byte, 1, 0) < 0) return false;
        if (is_line(path, key, wanted)) return true;
        uint64_t now_ms = clock_monotonic_ms();
        if (now_ms >= deadline_ms) return false;
        poll(&(struct pollfd){.fd = fd, .events = POLLPRI}, 1, (int)(deadline_ms - now_ms));
    }
}

static int ask_unified(const struct cgroup_host *host, const char *node, bool frozen, struct error *reterr) {
    char file[PATH_MAX];
    if (cgroup_path(host, CGROUP_UNIFIED, node, "cgroup.freeze", file, reterr) < 0) return -1;
    int failed = cgroup_write(file, frozen ? "1" : "0");
    return failed ? error_errno(reterr, -failed, "write %s", file) : 0;
}

/* This one goes on with it only when it is asked again. */
static int ask_v1(const struct cgroup_host *host, const char *node, bool frozen, struct error *reterr) {
    char file[PATH_MAX];
    if (cgroup_path(host, CGROUP_FREEZER, node, "freezer.state", file, reterr) < 0) return -1;
    int failed = cgroup_write(file, frozen ? "FROZEN" : "THAWED");
    return failed ? error_errno(reterr, -failed, "write %s", file) : 0;
}

static int ask(const struct cgroup_host *host, const char *node, bool frozen, struct error *reterr) {
    if (host->hierarchies[CGROUP_UNIFIED][0]) return ask_unified(host, node, frozen, reterr);
    if (host->hierarchies[CGROUP_FREEZER][0]) return ask_v1(host, node, frozen, reterr);
    return error_set(reterr, E_GUARANTEE, "this host has no freezer");
}

/* The v1 freezer sends no event when it is done. */
static void wait_for_freezer(const struct cgroup_host *host, const char *node, bool frozen, uint64_t deadline_ms) {
    char events[PATH_MAX];
    if (host->hierarchies[CGROUP_UNIFIED][0] &&
        cgroup_path(host, CGROUP_UNIFIED, node, "cgroup.events", events, NULL) == 0)
        wait_for_event(events, "frozen", frozen, deadline_ms);
    else
        pause_briefly();
}

int cgroup_freeze(const struct cgroup_host *host, const char *node, bool frozen, uint32_t wait_ms,
                  struct error *reterr) {
    uint64_t deadline_ms = clock_monotonic_ms() + wait_ms;
    for (;; wait_for_freezer(host, node, frozen, deadline_ms)) {
        int failed = ask(host, node, frozen, reterr);
        if (failed || cgroup_is_frozen(host, node) == frozen) return failed;
        if (clock_monotonic_ms() >= deadline_ms)
            return error_set(reterr, E_TIMEOUT, "node %s did not %s within %u ms", node, frozen ? "freeze" : "thaw",
                             wait_ms);
    }
}

void cgroup_thaw_everywhere(const struct cgroup_host *host, const char *node) {
    char path[PATH_MAX];
    if (host->hierarchies[CGROUP_FREEZER][0] &&
        cgroup_path(host, CGROUP_FREEZER, node, "freezer.state", path, NULL) == 0)
        cgroup_write(path, "THAWED");
    if (host->hierarchies[CGROUP_UNIFIED][0] &&
        cgroup_path(host, CGROUP_UNIFIED, node, "cgroup.freeze", path, NULL) == 0)
        cgroup_write(path, "0");
}

bool cgroup_is_frozen(const struct cgroup_host *host, const char *node) {
    char file[PATH_MAX], state[32];
    if (host->hierarchies[CGROUP_UNIFIED][0])
        return cgroup_path(host, CGROUP_UNIFIED, node, "cgroup.events", file, NULL) == 0 && is_line(file, "frozen", 1);
    return host->hierarchies[CGROUP_FREEZER][0] &&
           cgroup_path(host, CGROUP_FREEZER, node, "freezer.state", file, NULL) == 0 &&
           cgroup_read(file, state, sizeof state) == 0 && string_starts(state, "FROZEN");
}

uint64_t cgroup_oom_kills(const struct cgroup_host *host, const char *node) {
    char file[PATH_MAX];
    uint64_t kills = 0;
    if (host->has_memory && cgroup_path(host, CGROUP_MEMORY, node, cgroup_backend_of(host)->oom_file, file, NULL) == 0)
        cgroup_read_number(file, "oom_kill", &kills);
    return kills;
}

/* A hierarchy in which to look for the node's processes; negative when there is none. */
static int any_hierarchy(const struct cgroup_host *host) {
    if (host->hierarchies[CGROUP_UNIFIED][0]) return CGROUP_UNIFIED;
    for (int controller = 0; controller < CGROUP_CONTROLLER_COUNT; controller++)
        if (host->hierarchies[controller][0]) return controller;
    return -1;
}

static size_t pids_in(const struct cgroup_host *host, enum cgroup_controller controller, const char *node, pid_t *ret,
                      size_t max) {
    char path[PATH_MAX];
    if (cgroup_path(host, controller, node, "cgroup.procs", path, NULL) < 0) return 0;
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    size_t count = 0;
    for (int pid; count < max && fscanf(file, "%d", &pid) == 1;)
        if (pid > 0) ret[count++] = pid; /* 0 is a process of another pid namespace */
    fclose(file);
    return count;
}

size_t cgroup_pids(const struct cgroup_host *host, const char *node, pid_t *ret, size_t max) {
    int controller = any_hierarchy(host);
    return controller < 0 ? 0 : pids_in(host, (enum cgroup_controller)controller, node, ret, max);
}

/* Kill all at once where the kernel can, and one by one in each hierarchy, since a crash while joining leaves a
   process in some of them only. */
static void kill_inside(const struct cgroup_host *host, const char *node) {
    char path[PATH_MAX];
    pid_t pids[CGROUP_PIDS_MAX];
    if (host->hierarchies[CGROUP_UNIFIED][0] && cgroup_path(host, CGROUP_UNIFIED, node, "cgroup.kill", path, NULL) == 0)
        cgroup_write(path, "1");
    for (unsigned controller = 0; controller < CGROUP_CONTROLLER_COUNT; controller++) {
        if (!cgroup_is_distinct(host, controller)) continue;
        size_t count = pids_in(host, controller, node, pids, ARRAY_SIZE(pids));
        for (size_t i = 0; i < count; i++) kill(pids[i], SIGKILL);
    }
}

/* 0 when no directory of the node is left, else the errno of one that stays. */
static int remove_directories(const struct cgroup_host *host, const char *node) {
    int stays = 0;
    for (unsigned controller = 0; controller < CGROUP_CONTROLLER_COUNT; controller++) {
        char path[PATH_MAX];
        if (!cgroup_is_distinct(host, controller) || cgroup_path(host, controller, node, NULL, path, NULL) < 0)
            continue;
        if (rmdir(path) < 0 && errno != ENOENT) stays = errno;
    }
    return stays;
}

void cgroup_remove_if_empty(const struct cgroup_host *host, const char *node) {
    remove_directories(host, node);
}

bool cgroup_try_remove(const struct cgroup_host *host, const char *node, struct error *ret) {
    /* The common case first: the node has ended, and nothing is inside. */
    int stays = remove_directories(host, node);
    if (stays == EBUSY) {
        cgroup_lift_cpu(host, node, NULL);
        kill_inside(host, node);
        cgroup_thaw_everywhere(host, node);
        stays = remove_directories(host, node);
    }
    *ret = (struct error){0};
    if (stays) error_errno(ret, stays, "remove the cgroups of node %s", node);
    return stays != EBUSY;
}

int cgroup_remove(const struct cgroup_host *host, const char *node, uint64_t until_ms, struct error *reterr) {
    struct error error;
    while (!cgroup_try_remove(host, node, &error) && clock_monotonic_ms() < until_ms) pause_briefly();
    return error.code == E_NONE ? 0 : error_set(reterr, error.code, "%s", error.detail);
}
