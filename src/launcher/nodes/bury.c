/* The end of a node: it is killed if it lives, its cgroups are removed, and the daemon is told what it died of. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "launcher/cgroup/cgroup.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/ports/ports.h"
#include "launcher/server.h"

enum { DEATH_TIMEOUT_MS = 3000, LOOK_AGAIN_MAX_MS = 100, SIGNALED_STATUS = 128 };

static const char *const cause_names[] = {"exited", "signaled", "oom", "killed", "unknown"};

/* Quota, kill, thaw, in this order: a throttled process takes long to die, and a frozen one may never. */
static void kill_node(struct launcher *launcher, struct jailed_node *node) {
    cgroup_lift_cpu(&launcher->cgroups, node->name, NULL);
    pidfd_send_signal(node->pidfd, SIGKILL, NULL, 0);
    ports_end_of_node(launcher, node->name);
    cgroup_thaw_everywhere(&launcher->cgroups, node->name);
    node->frozen = false;
}

void bury_start(struct launcher *launcher, struct jailed_node *node, struct request request) {
    struct error error = {0};
    struct burial *burial = &node->burial;
    if (burial->under_way && burial->request.link_serial == request.link_serial) {
        error_set(&error, E_CONFLICT, "node %s is being buried", node->name);
        server_fail(launcher, request, &error);
        return;
    }
    burial->request = request;
    if (burial->under_way) return;
    if (launcher_watch(launcher, node->pidfd, SOURCE_DEATH, nodes_index(launcher, node), &error) < 0) {
        server_fail(launcher, request, &error);
        return;
    }
    freezing_call_off(launcher, node);
    burial->under_way = true;
    burial->forced = false;
    burial->we_killed = !jailed_is_dead(node);
    burial->deadline_ms = clock_monotonic_ms() + DEATH_TIMEOUT_MS;
    launcher_due_at(launcher, burial->deadline_ms);
    kill_node(launcher, node);
}

/* The node's init tells the program's signal as 128 and more; an adopted one has reported its status to its first
   launcher. */
static struct jail_death read_death(const struct launcher *launcher, const struct jailed_node *node) {
    struct jail_death death = {
        .cause = JAIL_CAUSE_UNKNOWN, .status = -1, .oom_kills = cgroup_oom_kills(&launcher->cgroups, node->name)};
    siginfo_t info = {0};
    bool ended_by_itself = false;
    if (waitid(P_PIDFD, (id_t)node->pidfd, &info, WEXITED | WNOHANG) == 0 && info.si_pid) {
        bool by_signal = info.si_code != CLD_EXITED || info.si_status > SIGNALED_STATUS;
        death.cause = by_signal ? JAIL_CAUSE_SIGNALED : JAIL_CAUSE_EXITED;
        death.status = info.si_status > SIGNALED_STATUS ? info.si_status - SIGNALED_STATUS : info.si_status;
        ended_by_itself = info.si_code == CLD_EXITED; /* just before we killed it */
    }
    if (death.oom_kills && death.cause != JAIL_CAUSE_EXITED) death.cause = JAIL_CAUSE_OOM;
    if (node->burial.we_killed && !ended_by_itself) death.cause = JAIL_CAUSE_KILLED;
    return death;
}

static void answer(struct launcher *launcher, struct jailed_node *node, const struct error *error) {
    struct jail_death death = node->burial.death;
    struct request request = node->burial.request;
    nodes_remove(launcher, node);
    if (error->code != E_NONE) {
        server_fail(launcher, request, error);
    } else {
        char text[128];
        snprintf(text, sizeof text, " cause=%s status=%d oom=%llu", cause_names[death.cause], death.status,
                 (unsigned long long)death.oom_kills);
        server_ok(launcher, request, text, NULL, 0);
    }
    shutdown_advance(launcher);
}

/* A forwarder of its ports may be in its cgroups still, and has its caller's rights: one that looks up a name on a file
   system that does not answer can't even be killed. So the launcher looks again, instead of waiting. */
static void remove_cgroups(struct launcher *launcher, struct jailed_node *node, uint64_t now_ms) {
    struct burial *burial = &node->burial;
    struct error error;
    uint64_t waited_ms = now_ms - burial->dead_ms;
    if (cgroup_try_remove(&launcher->cgroups, node->name, &error) || waited_ms >= CGROUP_REMOVE_WAIT_MS) {
        answer(launcher, node, &error);
        return;
    }
    burial->deadline_ms = now_ms + (waited_ms < LOOK_AGAIN_MAX_MS ? waited_ms + 1 : LOOK_AGAIN_MAX_MS);
    launcher_due_at(launcher, burial->deadline_ms);
}

void bury_finish(struct launcher *launcher, struct jailed_node *node) {
    launcher_unwatch(launcher, node->pidfd);
    node->burial.death = read_death(launcher, node);
    node->burial.dead_ms = clock_monotonic_ms();
    remove_cgroups(launcher, node, node->burial.dead_ms);
}

/* Once more, with everything; after that the asker learns that it lives on. A service that shuts down never gives up.
 */
static void insist(struct launcher *launcher, struct jailed_node *node, uint64_t now_ms) {
    struct burial *burial = &node->burial;
    burial->deadline_ms = now_ms + DEATH_TIMEOUT_MS;
    if (!burial->forced || launcher->shutting_down) {
        burial->forced = true;
        kill_node(launcher, node);
        return;
    }
    struct error error;
    error_set(&error, E_TIMEOUT, "node %s does not die", node->name);
    burial->under_way = false;
    launcher_unwatch(launcher, node->pidfd);
    server_fail(launcher, burial->request, &error);
    launcher_log(launcher, LOG_ERROR_LEVEL, "node_does_not_die", "node", node->name, NULL);
}

uint64_t bury_check(struct launcher *launcher, uint64_t now_ms) {
    uint64_t next_ms = UINT64_MAX;
    for (size_t i = 0; i < launcher->nodes.end; i++) {
        struct jailed_node *node = &launcher->nodes.items[i];
        if (!node->used || !node->burial.under_way) continue;
        if (now_ms >= node->burial.deadline_ms && node->burial.dead_ms)
            remove_cgroups(launcher, node, now_ms);
        else if (now_ms >= node->burial.deadline_ms)
            insist(launcher, node, now_ms);
        if (node->used && node->burial.under_way && node->burial.deadline_ms < next_ms)
            next_ms = node->burial.deadline_ms;
    }
    return next_ms;
}

void bury_everything(struct launcher *launcher) {
    /* Serial 0 is no request's: no answer is sent. */
    struct request nobody = {0};
    for (size_t i = 0; i < launcher->nodes.end; i++)
        if (launcher->nodes.items[i].used && !launcher->nodes.items[i].burial.under_way)
            bury_start(launcher, &launcher->nodes.items[i], nobody);
}

void shutdown_advance(struct launcher *launcher) {
    if (!launcher->shutting_down || launcher->nodes.count > 0) return;
    if (launcher->shutdown_request.link_serial) server_ok(launcher, launcher->shutdown_request, "", NULL, 0);
    launcher->shutdown_request = (struct request){0};
    if (launcher->server.link_fd < 0 && launcher->daemon.pidfd < 0) launcher_end(launcher, 0);
}
