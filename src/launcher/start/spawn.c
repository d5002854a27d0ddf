/* The launcher's side of starting a node. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "jail/plan.h"
#include "jail/seccomp.h"
#include "launcher/cgroup/cgroup.h"
#include "launcher/egress/egress.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/project/helper.h"
#include "launcher/record.h"
#include "launcher/start/spawn.h"
#include "launcher/start/userns.h"

enum { START_TIMEOUT_MS = 10000 };

bool launcher_notifies(const struct launcher *launcher) {
    return launcher->features.guarantees & (1u << JAIL_GUARANTEE_NOTIFY);
}

static int build_filter(const struct launcher *launcher, const char *set, bool counted, struct sock_fprog **ret,
                        struct error *reterr) {
    if (launcher_notifies(launcher)) return seccomp_filter_build(set, counted, ret, reterr);
    if (counted) return error_set(reterr, E_GUARANTEE, "this kernel asks nobody about programs: they can't be counted");
    return seccomp_filter_build_quiet(set, ret, reterr);
}

static const struct sock_fprog *get_filter(struct launcher *launcher, const char *set, bool counted,
                                           struct error *reterr) {
    int index = seccomp_set_find(set);
    if (index < 0) {
        error_set(reterr, E_INVALID, "no system-call set is named %s", set);
        return NULL;
    }
    struct sock_fprog **filter = &launcher->filters.filters[index][counted];
    if (!*filter && build_filter(launcher, set, counted, filter, reterr) < 0) return NULL;
    return *filter;
}

void filters_free(struct filter_cache *cache) {
    for (size_t i = 0; i < SECCOMP_SETS; i++)
        for (size_t counted = 0; counted < 2; counted++) seccomp_filter_free(cache->filters[i][counted]);
    *cache = (struct filter_cache){0};
}

static _Noreturn void run_child(struct spawn *spawn) {
    struct error error = {0};
    char go;
    /* A child that outlives the launcher for a moment must neither keep the next one out nor hide its end. */
    fd_close(spawn->launcher->server.link_fd);
    fd_close(spawn->launcher->home.lock_fd);
    if (spawn->launcher->root) fd_close(spawn->launcher->slot.fd);
    /* The launcher says go when the uid maps are written; the end of file, that it has gone itself. */
    if (read(spawn->sync_fd, &go, 1) != 1) _exit(EXIT_FAILURE);
    if (start_enter(spawn, &error) == 0) init_run(spawn, &error);
    send(spawn->sync_fd, &error, sizeof error, MSG_NOSIGNAL);
    _exit(EXIT_FAILURE);
}

/* Namespaces at once. In the unified hierarchy it starts where it belongs, if the kernel lets it; it joins the rest. */
static pid_t clone_child(struct spawn *spawn, int *ret_pidfd) {
    struct clone_args arguments = {.flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC |
                                            CLONE_NEWUTS | CLONE_PIDFD,
                                   .pidfd = (uint64_t)(uintptr_t)ret_pidfd,
                                   .exit_signal = SIGCHLD};
    if (spawn->cgroup.has_unified) {
        struct clone_args inside = arguments;
        inside.flags |= CLONE_INTO_CGROUP;
        inside.cgroup = (unsigned)spawn->cgroup.unified_fd;
        pid_t pid = (pid_t)syscall(SYS_clone3, &inside, sizeof inside);
        if (pid == 0) cgroup_started_inside(&spawn->cgroup);
        if (pid >= 0) return pid;
    }
    return (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
}

static int start_child(struct spawn *spawn, int *ret_sync_fd, struct error *reterr) {
    int sync_fds[2], pidfd = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sync_fds) < 0)
        return error_errno(reterr, errno, "make a socket pair");
    CLEANUP_FD int own_fd = sync_fds[0];
    CLEANUP_FD int child_fd = sync_fds[1];
    spawn->sync_fd = child_fd;
    pid_t pid = clone_child(spawn, &pidfd);
    if (pid == 0) {
        close(own_fd);
        run_child(spawn);
    }
    if (pid < 0) return error_errno(reterr, errno, "start a process in new namespaces");
    spawn->node->pid = pid;
    spawn->node->pidfd = pidfd;
    spawn->node->start_time = process_start_time(pid);
    *ret_sync_fd = take_fd(&own_fd);
    return 0;
}

/* The record first: from the moment the child may go on, a later launcher must be able to find it. */
static int let_go(const struct spawn *spawn, int sync_fd, struct error *reterr) {
    const struct launcher *launcher = spawn->launcher;
    struct userns_map map = {.inside_uid = JAILED_ID_INSIDE,
                             .outside_uid = spawn->node->uid,
                             .inside_gid = JAILED_ID_INSIDE,
                             .outside_gid = launcher->root ? spawn->node->uid : launcher->daemon_gid};
    if (record_write(launcher, spawn->node, reterr) < 0 ||
        userns_write_maps(spawn->node->pid, &map, launcher->root, reterr) < 0)
        return -1;
    if (send(sync_fd, "g", 1, MSG_NOSIGNAL) < 0) return error_errno(reterr, errno, "let the node's process go");
    return 0;
}

enum word { WORD_END, WORD_FILTERED, WORD_FAILED };

/* What the child says: that it is filtered, with the listener; why it failed; or by closing the socket that the
   program runs. */
static enum word receive_word(int sync_fd, int *ret_listener_fd, struct error *reterr) {
    struct error report = {0};
    CLEANUP_FD int fd = -1;
    ssize_t size = fd_receive(sync_fd, &report, sizeof report, &fd, 1, 0);
    if (size == 0) return WORD_END;
    if (size == 1) {
        if (fd < 0) return WORD_FILTERED;
        fd_close(*ret_listener_fd);
        *ret_listener_fd = take_fd(&fd);
        return WORD_FILTERED;
    }
    if (size != (ssize_t)sizeof report || helper_error(&report, reterr) == 0)
        error_set(reterr, E_SYSTEM, "the child said nonsense");
    return WORD_FAILED;
}

/* The program's own exec is among the calls to decide, so they are served meanwhile. */
static int await_program(struct launcher *launcher, struct jailed_node *node, int sync_fd, struct error *reterr) {
    uint64_t deadline_ms = clock_monotonic_ms() + START_TIMEOUT_MS;
    bool is_filtered = false;
    for (;;) {
        uint64_t now_ms = clock_monotonic_ms();
        struct pollfd fds[] = {{.fd = sync_fd, .events = POLLIN}, {.fd = node->listener_fd, .events = POLLIN}};
        if (now_ms >= deadline_ms || poll(fds, ARRAY_SIZE(fds), (int)(deadline_ms - now_ms)) == 0)
            return error_set(reterr, E_TIMEOUT, "the jail was not built within %d ms", START_TIMEOUT_MS);
        if (fds[1].revents & POLLIN) notify_serve(launcher, node);
        if (!fds[0].revents) continue;
        switch (receive_word(sync_fd, &node->listener_fd, reterr)) {
        case WORD_FILTERED:
            if (launcher_notifies(launcher) && node->listener_fd < 0)
                return error_set(reterr, E_SYSTEM, "the listener got lost on its way");
            notify_adopt_listener(node);
            is_filtered = true;
            continue;
        case WORD_FAILED: return -(int)reterr->code;
        case WORD_END: break;
        }
        if (!is_filtered) return error_set(reterr, E_SYSTEM, "the process ended while its jail was built");
        if (node->listener_fd < 0) return 0;
        return launcher_watch(launcher, node->listener_fd, SOURCE_NOTIFY, nodes_index(launcher, node), reterr);
    }
}

static int build(struct launcher *launcher, struct spawn *spawn, struct error *reterr) {
    CLEANUP_FD int sync_fd = -1;
    if (launcher->root && sources_open(spawn, reterr) < 0) return -1;
    if (start_child(spawn, &sync_fd, reterr) < 0 || let_go(spawn, sync_fd, reterr) < 0) return -1;
    /* The child has its own; ours would keep the pipe open after the node has gone. */
    spawn->output_fd = fd_close(spawn->output_fd);
    if (await_program(launcher, spawn->node, sync_fd, reterr) < 0 ||
        cgroup_set_weight(&launcher->cgroups, spawn->node->name, spawn->limits.cpu_weight_percent, reterr) < 0)
        return -1;
    return jail_plan_word(spawn->plan, JAIL_PLAN_REACH, 0) ? egress_attach(launcher, spawn->node, spawn->plan, reterr)
                                                           : 0;
}

static void undo(struct launcher *launcher, struct jailed_node *node) {
    if (node->pidfd >= 0) {
        siginfo_t info;
        pidfd_send_signal(node->pidfd, SIGKILL, NULL, 0);
        waitid(P_PIDFD, (id_t)node->pidfd, &info, WEXITED);
    }
    cgroup_remove(&launcher->cgroups, node->name, clock_monotonic_ms() + CGROUP_REMOVE_WAIT_MS, NULL);
    nodes_remove(launcher, node);
}

static int prepare(struct launcher *launcher, struct spawn *spawn, int *ret_output_fd, struct error *reterr) {
    const struct jail_plan *plan = spawn->plan;
    struct jailed_node *node = spawn->node;
    int output_fds[2];
    if (plan_limits(plan, &spawn->limits, reterr) < 0) return -1;
    node->counts_execs = jail_plan_number(plan, JAIL_PLAN_EXECS, &node->execs_max);
    spawn->filter = get_filter(launcher, jail_plan_word(plan, JAIL_PLAN_SECCOMP, 0), node->counts_execs, reterr);
    if (!spawn->filter) return -1;
    spawn->trees = malloc(plan->count * sizeof *spawn->trees);
    if (!spawn->trees) return error_set(reterr, E_NO_MEMORY, "no memory for a plan of %zu lines", plan->count);
    for (size_t i = 0; i < plan->count; i++) spawn->trees[i] = -1;
    /* The launcher, and so everyone, waits until the program runs: its weight is its own only then. */
    if (cgroup_make(&launcher->cgroups, node->name, &spawn->limits, &spawn->cgroup, reterr) < 0 ||
        cgroup_hurry(&launcher->cgroups, node->name, reterr) < 0)
        return -1;
    spawn->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (spawn->null_fd < 0 || pipe2(output_fds, O_CLOEXEC) < 0) return error_errno(reterr, errno, "make a pipe");
    *ret_output_fd = output_fds[0];
    spawn->output_fd = output_fds[1];
    return 0;
}

static void spawn_free(struct spawn *spawn) {
    for (size_t i = 0; spawn->trees && i < spawn->plan->count; i++) fd_close(spawn->trees[i]);
    free(spawn->trees);
    cgroup_close(&spawn->cgroup);
    fd_close(spawn->output_fd);
    fd_close(spawn->null_fd);
}

int spawn_node(struct launcher *launcher, const struct jail_plan *plan, int volume_fd, uid_t owner,
               struct jailed_node **ret_node, int *ret_output_fd, struct error *reterr) {
    CLEANUP(spawn_free)
    struct spawn spawn = {
        .launcher = launcher, .plan = plan, .volume_fd = volume_fd, .sync_fd = -1, .output_fd = -1, .null_fd = -1};
    CLEANUP_FD int output_fd = -1;
    if (plan_check(plan, reterr) < 0 || nodes_check_room(launcher, reterr) < 0) return -1;
    if (nodes_add(launcher, jail_plan_word(plan, JAIL_PLAN_NODE, 0), &spawn.node, reterr) < 0) return -1;
    spawn.node->is_starting = true;
    spawn.node->owner = owner;
    if (prepare(launcher, &spawn, &output_fd, reterr) < 0 || build(launcher, &spawn, reterr) < 0) {
        undo(launcher, spawn.node);
        return -1;
    }
    spawn.node->is_starting = false;
    *ret_node = spawn.node;
    *ret_output_fd = take_fd(&output_fd);
    return 0;
}
