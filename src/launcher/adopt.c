/* Nodes outlive a launcher. The next one takes over those that are what their records say, by pid, start time, uid and
   cgroup; a process that merely has the pid of one is left alone, and what has a node's cgroup is killed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>

#include "launcher/cgroup/cgroup.h"
#include "launcher/egress/egress.h"
#include "launcher/home.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/record.h"
#include "launcher/start/spawn.h"

enum { PIDS_MAX = 4096, FREEZE_WAIT_MS = 500 };

static bool is_in_cgroup(const struct launcher *launcher, const struct jailed_node *node) {
    if (launcher->cgroups.version == 0) return true;
    CLEANUP_FREE pid_t *pids = calloc(PIDS_MAX, sizeof *pids);
    size_t count = pids ? cgroup_pids(&launcher->cgroups, node->name, pids, PIDS_MAX) : 0;
    for (size_t i = 0; i < count; i++)
        if (pids[i] == node->pid) return true;
    return false;
}

static bool has_our_uid(const struct launcher *launcher, const struct jailed_node *node) {
    bool in_range = launcher->root ? node->uid > launcher->daemon_uid && node->uid - launcher->daemon_uid < SLOT_UIDS
                                   : node->uid == launcher->daemon_uid;
    return in_range && process_uid(node->pid) == node->uid;
}

/* The pidfd comes first: if it still lives after the checks, it is the process that was checked. */
static int open_checked(const struct launcher *launcher, struct jailed_node *node) {
    CLEANUP_FD int pidfd = pidfd_open(node->pid, 0);
    if (pidfd < 0 || process_start_time(node->pid) != node->start_time || !has_our_uid(launcher, node) ||
        !is_in_cgroup(launcher, node))
        return -1;
    node->pidfd = pidfd;
    bool is_dead = jailed_is_dead(node);
    node->pidfd = is_dead ? -1 : take_fd(&pidfd);
    return is_dead ? -1 : 0;
}

static void take_listener(struct launcher *launcher, struct jailed_node *node) {
    struct error error;
    if (!launcher_notifies(launcher)) return;
    node->listener_fd = pidfd_getfd(node->pidfd, JAILED_LISTENER_FD, 0);
    if (node->listener_fd < 0) {
        log_line(&launcher->log, LOG_WARN_LEVEL, "listener_lost", "node", node->name, "reason", strerror(errno), NULL);
        return;
    }
    notify_adopt_listener(node);
    if (launcher_watch(launcher, node->listener_fd, SOURCE_NOTIFY, nodes_index(launcher, node), &error) < 0)
        log_line(&launcher->log, LOG_ERROR_LEVEL, "watch_failed", "node", node->name, "detail", error.detail, NULL);
}

/* A call that the old launcher had taken and not answered waits for an answer that no process can give any more.
   Freezing interrupts it, and after the thaw it is made anew. */
static void ask_again(const struct launcher *launcher, const struct jailed_node *node) {
    if (node->listener_fd < 0 || node->frozen) return;
    freezing_hold_up_yielding(launcher, node, true);
    cgroup_freeze(&launcher->cgroups, node->name, true, FREEZE_WAIT_MS, NULL);
    cgroup_thaw_everywhere(&launcher->cgroups, node->name);
    freezing_hold_up_yielding(launcher, node, false);
}

/* All of what is discarded is waited for together: one that can't be killed must not keep the service away for long. */
struct adoption {
    struct launcher *launcher;
    uint64_t until_ms;
};

static void discard(const struct adoption *adoption, const char *name) {
    struct launcher *launcher = adoption->launcher;
    struct error error;
    record_remove(launcher, name);
    egress_policy_remove(launcher, name);
    if (cgroup_remove(&launcher->cgroups, name, adoption->until_ms, &error) < 0)
        log_line(&launcher->log, LOG_ERROR_LEVEL, "discard_failed", "node", name, "detail", error.detail, NULL);
}

static void adopt(const struct adoption *adoption, const char *name) {
    struct launcher *launcher = adoption->launcher;
    struct jailed_node recorded = {.pidfd = -1}, *node;
    struct error error = {0};
    if (record_read(launcher, name, &recorded, &error) < 0 || open_checked(launcher, &recorded) < 0 ||
        egress_policy_read(launcher, &recorded, &error) < 0) {
        if (error.code != E_NONE)
            log_line(&launcher->log, LOG_WARN_LEVEL, "record_refused", "node", name, "detail", error.detail, NULL);
        fd_close(recorded.pidfd);
        discard(adoption, name);
        return;
    }
    if (nodes_add(launcher, name, &node, NULL) < 0) {
        fd_close(recorded.pidfd);
        free(recorded.egress);
        return;
    }
    recorded.used = true;
    recorded.inet_refused = true; /* its boot is over */
    recorded.frozen = jailed_is_frozen(launcher, &recorded);
    recorded.yields = cgroup_yields(&launcher->cgroups, name);
    *node = recorded;
    take_listener(launcher, node);
    ask_again(launcher, node);
}

static void discard_unrecorded(void *data, const char *name) {
    const struct adoption *adoption = data;
    if (!nodes_find(adoption->launcher, name)) discard(adoption, name);
}

int adopt_all(struct launcher *launcher, struct error *reterr) {
    struct adoption adoption = {launcher, clock_monotonic_ms() + CGROUP_REMOVE_WAIT_MS};
    int fd = openat(launcher->slot.records_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (!listing) {
        fd_close(fd);
        return error_errno(reterr, errno, "list the nodes' records");
    }
    for (struct dirent *entry; (entry = readdir(listing));)
        if (entry->d_name[0] != '.') adopt(&adoption, entry->d_name);
    closedir(listing);
    if (launcher->nodes.count) {
        char count[32];
        snprintf(count, sizeof count, "%zu", launcher->nodes.count);
        log_line(&launcher->log, LOG_INFO_LEVEL, "nodes_adopted", "count", count, NULL);
    }
    return cgroup_list(&launcher->cgroups, discard_unrecorded, &adoption, reterr);
}
