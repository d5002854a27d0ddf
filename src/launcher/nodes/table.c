/* The table of nodes: found by name, each with a uid of its own. */
#include <poll.h>
#include <string.h>
#include <sys/resource.h>

#include "launcher/egress/egress.h"
#include "launcher/home.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/nodes/path_read.h"
#include "launcher/ports/ports.h"
#include "launcher/record.h"

enum {
    DESCRIPTORS_PER_NODE = 2,
    DESCRIPTORS_PER_PORT = 4,
    DESCRIPTORS_KEPT = 256, /* for the link, projects and a spawn under way: nodes must not lock the daemon out */
};

struct jailed_node *nodes_find(struct launcher *launcher, const char *name) {
    for (size_t i = 0; i < launcher->nodes.end; i++)
        if (launcher->nodes.items[i].used && strcmp(launcher->nodes.items[i].name, name) == 0)
            return &launcher->nodes.items[i];
    return NULL;
}

size_t nodes_index(const struct launcher *launcher, const struct jailed_node *node) {
    return (size_t)(node - launcher->nodes.items);
}

int nodes_check_room(const struct launcher *launcher, struct error *reterr) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) return 0;
    size_t nodes = launcher->nodes.count, ports = ports_count(launcher);
    rlim_t needed = (nodes + 1) * DESCRIPTORS_PER_NODE + (ports + 1) * DESCRIPTORS_PER_PORT + DESCRIPTORS_KEPT;
    if (needed <= limit.rlim_cur) return 0;
    return error_set(reterr, E_LIMIT, "%zu nodes run already, and %zu ports are open: more would leave no descriptors",
                     nodes, ports);
}

static bool uid_is_used(const struct launcher *launcher, uid_t uid) {
    for (size_t i = 0; i < launcher->nodes.end; i++)
        if (launcher->nodes.items[i].used && launcher->nodes.items[i].uid == uid) return true;
    return ports_use_uid(launcher, uid);
}

/* Uids go round, so that one is not given again soon after its node has gone. The slot's first is the daemon's. */
uid_t nodes_choose_uid(struct launcher *launcher) {
    if (!launcher->root) return launcher->daemon_uid;
    do {
        launcher->nodes.next_uid = launcher->nodes.next_uid % (SLOT_UIDS - 1) + 1;
    } while (uid_is_used(launcher, launcher->daemon_uid + launcher->nodes.next_uid));
    return launcher->daemon_uid + launcher->nodes.next_uid;
}

int nodes_add(struct launcher *launcher, const char *name, struct jailed_node **ret, struct error *reterr) {
    if (nodes_find(launcher, name)) return error_set(reterr, E_EXISTS, "node %s exists", name);
    for (size_t i = 0; i < JAIL_NODES_MAX; i++) {
        struct jailed_node *node = &launcher->nodes.items[i];
        if (node->used) continue;
        uid_t uid = nodes_choose_uid(launcher);
        *node = (struct jailed_node){.used = true, .uid = uid, .owner = NODE_UNOWNED, .pidfd = -1, .listener_fd = -1};
        if (string_format(node->name, sizeof node->name, reterr, "%s", name) < 0) {
            node->used = false;
            return -1;
        }
        launcher->nodes.count++;
        if (i >= launcher->nodes.end) launcher->nodes.end = i + 1;
        *ret = node;
        return 0;
    }
    return error_set(reterr, E_LIMIT, "%d nodes run already", JAIL_NODES_MAX);
}

int jailed_claim(const struct launcher *launcher, struct jailed_node *node, uid_t owner, struct error *reterr) {
    if (node->owner == owner || node->owner == 0) return 0;
    if (node->owner != NODE_UNOWNED)
        return error_set(reterr, E_FORBIDDEN, "node %s has what belongs to uid %u, and gets nothing of uid %u",
                         node->name, node->owner, owner);
    node->owner = owner;
    int failed = record_write(launcher, node, reterr);
    if (failed) node->owner = NODE_UNOWNED; /* a later launcher would not know */
    return failed;
}

void nodes_remove(struct launcher *launcher, struct jailed_node *node) {
    egress_release(launcher, node);
    path_read_call_off(launcher, node);
    launcher_unwatch(launcher, node->listener_fd);
    launcher_unwatch(launcher, node->pidfd);
    fd_close(node->listener_fd);
    fd_close(node->pidfd);
    record_remove(launcher, node->name);
    node->used = false;
    launcher->nodes.count--;
}

bool jailed_is_dead(const struct jailed_node *node) {
    return poll(&(struct pollfd){.fd = node->pidfd, .events = POLLIN}, 1, 0) != 0;
}
