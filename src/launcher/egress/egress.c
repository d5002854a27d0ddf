/* Egress of nodes that have been taken. It is made when the first one wants it, kept by a process of its own
   (keeper.c), taken over by the next launcher, and made again with every node's place in it when it ends. */

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>

#include "jail/egress_policy.h"
#include "launcher/egress/egress.h"
#include "launcher/egress/netlink.h"
#include "launcher/egress/network.h"
#include "launcher/egress/rules.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/project/helper.h"

enum {
    GREETING_WAIT_MS = 50, /* it takes a few, and the first node has it at once; everything else waits as long */
    GREETING_TIMEOUT_MS = 5000,
    END_TIMEOUT_MS = 2000,
    REMAKE_DELAY_MS = 200, /* the kernel takes its time to clear a namespace away, and the interfaces with it */
    FAILED_DELAY_MS = 5000,
    REFUSALS_PER_TURN = 32,
    LAST_TURNS_MAX = 64, /* of a few a second for each node */
};

static bool is_open(const struct egress *egress) {
    return egress->keeper_fd >= 0;
}

struct egress_place egress_place_of(const struct launcher *launcher, const struct jailed_node *node) {
    struct egress_place place;
    egress_place_make((uint16_t)(node->uid - launcher->daemon_uid), &place);
    return place;
}

static struct jailed_node *jailed_at(struct launcher *launcher, uint16_t number) {
    for (size_t i = 0; i < launcher->nodes.end; i++)
        if (launcher->nodes.items[i].used && launcher->nodes.items[i].uid - launcher->daemon_uid == number)
            return &launcher->nodes.items[i];
    return NULL;
}

void egress_init(struct egress *egress) {
    *egress = (struct egress){.keeper_fd = -1,
                              .greeting_fd = -1,
                              .home_fd = -1,
                              .namespace_fd = -1,
                              .route = {.fd = -1},
                              .rules = {.fd = -1},
                              .log = {.fd = -1},
                              .addresses = {.fd = -1},
                              .remake_due_ms = UINT64_MAX};
}

/* Nothing of it goes through any more; what nodes may reach stays known. */
void egress_close(struct launcher *launcher) {
    struct egress *egress = &launcher->egress;
    int *const fds[] = {&egress->keeper_fd, &egress->greeting_fd, &egress->home_fd, &egress->namespace_fd,
                        &egress->route.fd,  &egress->rules.fd,    &egress->log.fd,  &egress->addresses.fd};
    uint64_t remake_due_ms = egress->remake_due_ms, remake_delay_ms = egress->remake_delay_ms;
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        launcher_unwatch(launcher, *fds[i]);
        fd_close(*fds[i]);
    }
    for (size_t i = 0; i < launcher->nodes.end; i++) launcher->nodes.items[i].egress_is_up = false;
    egress_init(egress);
    egress->remake_due_ms = remake_due_ms;
    egress->remake_delay_ms = remake_delay_ms;
}

static void remake_after(struct launcher *launcher, uint64_t delay_ms) {
    launcher->egress.remake_due_ms = clock_monotonic_ms() + delay_ms;
    launcher_due_at(launcher, launcher->egress.remake_due_ms);
}

/* Its namespace lives as long as we hold it. A total is of a VM, not of what it goes through. */
static void keep_counts(struct launcher *launcher) {
    for (size_t i = 0; i < launcher->nodes.end; i++) {
        struct jailed_node *node = &launcher->nodes.items[i];
        if (!node->used || !node->egress_is_up) continue;
        struct egress_place place = egress_place_of(launcher, node);
        uint64_t used_bytes = nft_read_used(&launcher->egress.rules, &place); /* 0: not told */
        if (used_bytes > node->traffic_used_bytes) node->traffic_used_bytes = used_bytes;
    }
}

/* ---- the host's own addresses ---- */

static bool host_of(const struct sockaddr *address, struct jail_host *ret) {
    *ret = (struct jail_host){0};
    if (address && address->sa_family == AF_INET) {
        ret->bits = 32;
        memcpy(ret->address, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
        return true;
    }
    if (!address || address->sa_family != AF_INET6) return false;
    ret->is_v6 = true;
    ret->bits = 128;
    memcpy(ret->address, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
    return true;
}

static bool is_own(const struct egress *egress, const struct jail_host *host) {
    for (size_t i = 0; i < egress->own_count; i++)
        if (egress->own[i].is_v6 == host->is_v6 && memcmp(egress->own[i].address, host->address, 16) == 0) return true;
    return false;
}

static int refuse_own(struct egress *egress, struct error *reterr) {
    struct ifaddrs *list;
    if (getifaddrs(&list) < 0) return error_errno(reterr, errno, "list the host's addresses");
    egress->own_count = 0;
    int result = 0;
    for (struct ifaddrs *at = list; at && result == 0; at = at->ifa_next) {
        struct jail_host host;
        if (!host_of(at->ifa_addr, &host) || is_own(egress, &host)) continue;
        if (egress->own_count == EGRESS_OWN_MAX)
            result = error_set(reterr, E_LIMIT, "the host has more than %d addresses", EGRESS_OWN_MAX);
        else
            egress->own[egress->own_count++] = host;
    }
    freeifaddrs(list);
    return result < 0 ? result : nft_set_own(&egress->rules, egress->own, egress->own_count, reterr);
}

/* What can't be refused any more must not be reached: then there is no egress until the rules are back. */
void egress_addresses_changed(struct launcher *launcher) {
    char bytes[4096];
    struct error error;
    while (recv(launcher->egress.addresses.fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0 || errno == ENOBUFS) {
    }
    if (refuse_own(&launcher->egress, &error) == 0) return;
    launcher_log(launcher, LOG_ERROR_LEVEL, "egress_failed", "detail", error.detail, NULL);
    keep_counts(launcher);
    egress_end(launcher);
    remake_after(launcher, FAILED_DELAY_MS);
}

static int watch_addresses(struct launcher *launcher, struct error *reterr) {
    struct egress *egress = &launcher->egress;
    int groups[] = {RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR};
    if (netlink_open(NETLINK_ROUTE, &egress->addresses, reterr) < 0) return -1;
    for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
        if (setsockopt(egress->addresses.fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &groups[i], sizeof groups[i]) < 0)
            return error_errno(reterr, errno, "hear of the host's addresses");
    return launcher_watch(launcher, egress->addresses.fd, SOURCE_ADDRESSES, 0, reterr);
}

/* ---- making it, and taking it over ---- */

static void keep(const void *data) {
    (void)data;
    egress_keep(HELPER_FD);
}

/* Its first word may take seconds on a machine that is busy: it is waited for in the loop. */
static int start_keeper(struct launcher *launcher, struct error *reterr) {
    struct egress *egress = &launcher->egress;
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return error_errno(reterr, errno, "make a pair of sockets");
    CLEANUP_FD int own_fd = fds[0], its_fd = fds[1];
    CLEANUP_FD int keeper_fd = -1; /* it sends its identity when it is ready, and lives on when we end */
    if (helper_start(keep, NULL, &its_fd, 1, &keeper_fd, reterr) < 0 ||
        launcher_watch(launcher, own_fd, SOURCE_GREETING, 0, reterr) < 0)
        return -1;
    egress->greeting_fd = take_fd(&own_fd);
    egress->greeting_due_ms = clock_monotonic_ms() + GREETING_TIMEOUT_MS;
    launcher_due_at(launcher, egress->greeting_due_ms);
    return 0;
}

/* Everything that takes a keeper which lives. */
static int open_namespace(struct launcher *launcher, pid_t keeper, struct error *reterr) {
    struct egress *egress = &launcher->egress;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)keeper);
    egress->keeper_fd = pidfd_open(keeper, 0);
    egress->home_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    egress->namespace_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (egress->keeper_fd < 0 || egress->home_fd < 0 || egress->namespace_fd < 0)
        return error_errno(reterr, errno, "open the egress namespace");
    if (netlink_open_in(egress->namespace_fd, egress->home_fd, NETLINK_ROUTE, &egress->route, reterr) < 0 ||
        netlink_open_in(egress->namespace_fd, egress->home_fd, NETLINK_NETFILTER, &egress->rules, reterr) < 0 ||
        netlink_open_in(egress->namespace_fd, egress->home_fd, NETLINK_NETFILTER, &egress->log, reterr) < 0 ||
        egress_log_open(&egress->log, reterr) < 0 ||
        launcher_watch(launcher, egress->log.fd, SOURCE_REFUSALS, 0, reterr) < 0 ||
        launcher_watch(launcher, egress->keeper_fd, SOURCE_KEEPER, 0, reterr) < 0)
        return -1;
    return watch_addresses(launcher, reterr);
}

static int settle(struct launcher *launcher, pid_t keeper, struct error *reterr) {
    struct egress *egress = &launcher->egress;
    if (open_namespace(launcher, keeper, reterr) == 0 && nft_make_table(&egress->rules, reterr) == 0 &&
        refuse_own(egress, reterr) == 0 && veth_prepare_gateway(&egress->route, reterr) == 0 &&
        egress_record_write(launcher, keeper, reterr) == 0)
        return 0;
    kill(keeper, SIGTERM);
    egress_close(launcher);
    return -1;
}

/* A keeper that was not ready in time ends when its connection is closed. */
static void stop_waiting(struct launcher *launcher) {
    launcher_unwatch(launcher, launcher->egress.greeting_fd);
    fd_close(take_fd(&launcher->egress.greeting_fd));
}

static int take_greeting(struct launcher *launcher, struct error *reterr) {
    struct egress_greeting greeting;
    ssize_t size = recv(launcher->egress.greeting_fd, &greeting, sizeof greeting, MSG_DONTWAIT);
    int result = size == sizeof greeting ? helper_error(&greeting.error, reterr)
                                         : error_set(reterr, E_SYSTEM, "the egress namespace was not made");
    if (result == 0) result = settle(launcher, greeting.pid, reterr);
    /* Only now may it live on without us: the next launcher finds it by its record. */
    if (result == 0) send(launcher->egress.greeting_fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    stop_waiting(launcher);
    return result;
}

/* It may be under way still when this returns: then the nodes without it get it later. */
static int make(struct launcher *launcher, struct error *reterr) {
    if (launcher->egress.greeting_fd >= 0) return 0;
    if (start_keeper(launcher, reterr) < 0) return -1;
    struct pollfd ready = {.fd = launcher->egress.greeting_fd, .events = POLLIN};
    return poll(&ready, 1, GREETING_WAIT_MS) == 1 ? take_greeting(launcher, reterr) : 0;
}

static void making_failed(struct launcher *launcher, const struct error *error) {
    launcher_log(launcher, LOG_ERROR_LEVEL, "egress_failed", "detail", error->detail, NULL);
    remake_after(launcher, FAILED_DELAY_MS);
}

void egress_greeting_came(struct launcher *launcher) {
    struct error error;
    if (take_greeting(launcher, &error) < 0)
        making_failed(launcher, &error);
    else
        remake_after(launcher, 0);
}

static void check_greeting(struct launcher *launcher, uint64_t now_ms) {
    struct error error;
    if (launcher->egress.greeting_fd < 0 || now_ms < launcher->egress.greeting_due_ms) return;
    stop_waiting(launcher);
    error_set(&error, E_TIMEOUT, "the egress namespace was not made within %d ms", GREETING_TIMEOUT_MS);
    making_failed(launcher, &error);
}

void egress_adopt(struct launcher *launcher) {
    struct error error = {0};
    pid_t keeper = egress_record_read(launcher);
    bool is_open_again =
        keeper > 0 && open_namespace(launcher, keeper, &error) == 0 && refuse_own(&launcher->egress, &error) == 0;
    for (size_t i = 0; is_open_again && i < launcher->nodes.end; i++)
        launcher->nodes.items[i].egress_is_up = launcher->nodes.items[i].egress != NULL;
    if (is_open_again) return;
    if (error.code) launcher_log(launcher, LOG_ERROR_LEVEL, "egress_failed", "detail", error.detail, NULL);
    if (keeper > 0) kill(keeper, SIGTERM);
    egress_close(launcher);
    remake_after(launcher, 0);
}

/* ---- nodes ---- */

static int attach(struct launcher *launcher, struct jailed_node *node, struct error *reterr) {
    struct egress *egress = &launcher->egress;
    struct egress_place place = egress_place_of(launcher, node);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)node->pid);
    CLEANUP_FD int node_fd = open(path, O_RDONLY | O_CLOEXEC);
    CLEANUP(netlink_close) struct netlink inside = {.fd = -1};
    if (node_fd < 0 || jailed_is_dead(node)) return error_set(reterr, E_NODE, "node %s has ended", node->name);
    if (!is_open(egress) && make(launcher, reterr) < 0) return -1;
    if (!is_open(egress)) return 0;
    /* The rules first: nothing is ever let through without them. */
    if (nft_add_place(&egress->rules, &place, node->egress, node->traffic_used_bytes, reterr) < 0) return -1;
    if (veth_make(&egress->route, &place, node_fd, reterr) == 0 &&
        netlink_open_in(node_fd, egress->home_fd, NETLINK_ROUTE, &inside, reterr) == 0 &&
        veth_settle(&inside, &place, reterr) == 0) {
        /* A kernel without such queues drops what is far too much instead, by a rule. */
        if (node->egress->network_rate_bytes)
            veth_shape(&egress->route, &place, node->egress->network_rate_bytes, NULL);
        node->egress_is_up = true;
        return 0;
    }
    nft_remove_place(&egress->rules, &place, NULL);
    return -1;
}

int egress_attach(struct launcher *launcher, struct jailed_node *node, const struct jail_plan *plan,
                  struct error *reterr) {
    struct jail_egress policy;
    if (!(launcher->features.guarantees & 1u << JAIL_GUARANTEE_EGRESS))
        return error_set(reterr, E_GUARANTEE, "there is no egress from a node's network here");
    if (node->egress) return error_set(reterr, E_CONFLICT, "node %s has egress already", node->name);
    if (egress_read(plan, &policy, reterr) < 0) return -1;
    node->egress = malloc(sizeof *node->egress);
    if (!node->egress) return error_set(reterr, E_NO_MEMORY, "no memory for the egress policy");
    *node->egress = policy;
    if (egress_policy_write(launcher, node, reterr) == 0 && attach(launcher, node, reterr) == 0) return 0;
    egress_policy_remove(launcher, node->name);
    free(node->egress);
    node->egress = NULL;
    return -1;
}

/* What was refused to it before is told while it has its number: the next node with that number must not be blamed. */
static void tell_last_refusals(struct launcher *launcher) {
    struct pollfd log = {.fd = launcher->egress.log.fd, .events = POLLIN};
    for (int i = 0; i < LAST_TURNS_MAX && poll(&log, 1, 0) == 1; i++) egress_tell_refusals(launcher);
}

/* The interface goes with the node's namespace. */
void egress_release(struct launcher *launcher, struct jailed_node *node) {
    struct egress_place place = egress_place_of(launcher, node);
    if (!node->egress) return;
    if (node->egress_is_up) {
        nft_remove_place(&launcher->egress.rules, &place, NULL);
        tell_last_refusals(launcher);
    }
    egress_policy_remove(launcher, node->name);
    free(node->egress);
    node->egress = NULL;
    node->egress_is_up = false;
}

/* ---- what happens meanwhile ---- */

void egress_tell_refusals(struct launcher *launcher) {
    struct egress_refusal refusals[REFUSALS_PER_TURN];
    size_t count = egress_log_read(&launcher->egress.log, refusals, ARRAY_SIZE(refusals));
    for (size_t i = 0; i < count; i++) {
        char host[JAIL_HOST_TEXT_BYTES], detail[160];
        struct jailed_node *node = jailed_at(launcher, refusals[i].number);
        if (node && refusals[i].bound[0]) violation_tell_bound(launcher, node, refusals[i].bound);
        if (!node || refusals[i].bound[0]) continue;
        jail_host_print(&refusals[i].host, host);
        snprintf(detail, sizeof detail, "to=%s protocol=%s reason=%s", host, refusals[i].protocol,
                 is_own(&launcher->egress, &refusals[i].host) ? "host" : refusals[i].kind);
        violation_tell(launcher, node, VIOLATION_NETWORK, detail);
    }
}

void egress_keeper_ended(struct launcher *launcher) {
    launcher_log(launcher, LOG_WARN_LEVEL, "egress_ended", NULL);
    keep_counts(launcher);
    egress_close(launcher);
    remake_after(launcher, REMAKE_DELAY_MS);
}

static bool misses_it(const struct jailed_node *node) {
    return node->used && node->egress && !node->egress_is_up && !node->burial.under_way && !jailed_is_dead(node);
}

/* A node that can't have it keeps no other node from it. */
static bool give_back(struct launcher *launcher) {
    bool have_all = true;
    for (size_t i = 0; i < launcher->nodes.end; i++) {
        struct jailed_node *node = &launcher->nodes.items[i];
        struct error error;
        if (!misses_it(node) || attach(launcher, node, &error) == 0) continue;
        launcher_log(launcher, LOG_ERROR_LEVEL, "egress_failed", "node", node->name, "detail", error.detail, NULL);
        have_all = false;
    }
    return have_all;
}

static uint64_t next_check_ms(const struct egress *egress) {
    bool is_sooner = egress->greeting_fd >= 0 && egress->greeting_due_ms < egress->remake_due_ms;
    return is_sooner ? egress->greeting_due_ms : egress->remake_due_ms;
}

/* Each node that had egress gets it back. A node that can't have it yet is tried again later, at growing intervals. */
uint64_t egress_check(struct launcher *launcher, uint64_t now_ms) {
    struct egress *egress = &launcher->egress;
    check_greeting(launcher, now_ms);
    if (now_ms < egress->remake_due_ms) return next_check_ms(egress);
    bool all = give_back(launcher);
    egress->remake_delay_ms = all || !egress->remake_delay_ms ? REMAKE_DELAY_MS : 2 * egress->remake_delay_ms;
    if (egress->remake_delay_ms > FAILED_DELAY_MS) egress->remake_delay_ms = FAILED_DELAY_MS;
    egress->remake_due_ms = all ? UINT64_MAX : now_ms + egress->remake_delay_ms;
    return next_check_ms(egress);
}

void egress_end(struct launcher *launcher) {
    struct egress *egress = &launcher->egress;
    if (egress->greeting_fd >= 0) stop_waiting(launcher);
    if (!is_open(egress)) return;
    struct pollfd ended = {.fd = egress->keeper_fd, .events = POLLIN};
    launcher_unwatch(launcher, egress->keeper_fd);
    pidfd_send_signal(egress->keeper_fd, SIGTERM, NULL, 0);
    if (poll(&ended, 1, END_TIMEOUT_MS) == 0) pidfd_send_signal(egress->keeper_fd, SIGKILL, NULL, 0);
    egress_close(launcher);
    egress_record_remove(launcher);
}
