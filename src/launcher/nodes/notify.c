/* Decides the system calls that a node's filter does not decide by itself. Nothing that lies in the node's memory is
   part of a decision: it may change meanwhile. */
#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "jail/seccomp.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/nodes/path_read.h"
#include "launcher/record.h"

/* Newer than the headers we are built with. */
#define NOTIFY_SET_FLAGS SECCOMP_IOW(4, uint64_t)
#define NOTIFY_SYNC_WAKE_UP 1ULL

enum { DETAIL_BYTES = 64 };

/* Both processes run on one CPU meanwhile: a third of the time. Kernels that don't know it only are slower. */
void notify_adopt_listener(struct jailed_node *node) {
    if (node->listener_fd < 0) return;
    if (ioctl(node->listener_fd, NOTIFY_SET_FLAGS, NOTIFY_SYNC_WAKE_UP) < 0) { /* slower, not wrong */
    }
}

static bool is_exec(int number) {
    return number == SYS_execve || number == SYS_execveat;
}

static const char *family_name(uint64_t family) {
    static const char *const names[AF_MAX] = {
        [AF_UNIX] = "unix",     [AF_INET] = "inet",   [AF_INET6] = "inet6", [AF_NETLINK] = "netlink",
        [AF_PACKET] = "packet", [AF_VSOCK] = "vsock", [AF_ALG] = "alg",     [AF_BLUETOOTH] = "bluetooth",
        [AF_KEY] = "key",       [AF_XDP] = "xdp",     [AF_TIPC] = "tipc",   [AF_CAN] = "can",
    };
    return family < AF_MAX ? names[family] : NULL;
}

static void describe(const struct seccomp_notif *call, char *ret, size_t size) {
    const char *name = call->data.nr == SYS_socket ? family_name(call->data.args[0]) : NULL;
    *ret = '\0';
    if (name)
        snprintf(ret, size, "family=%s", name);
    else if (call->data.nr == SYS_socket)
        snprintf(ret, size, "family=%llu", (unsigned long long)call->data.args[0]);
}

/* The first execs are the node's own program and its helper; only the count distinguishes them from others. */
static void set_execs_used(struct launcher *launcher, struct jailed_node *node, uint64_t count) {
    struct error error;
    node->execs_used = count;
    if (record_write(launcher, node, &error) < 0)
        launcher_log(launcher, LOG_WARN_LEVEL, "record_failed", "node", node->name, "detail", error.detail, NULL);
}

static bool allow_exec(struct launcher *launcher, struct jailed_node *node) {
    if (node->counts_execs && node->execs_used >= node->execs_max) return false;
    set_execs_used(launcher, node, node->execs_used + 1);
    return true;
}

/* False: it is answered later. */
static bool decide(struct launcher *launcher, struct jailed_node *node, const struct seccomp_notif *call,
                   struct seccomp_notif_resp *answer) {
    char detail[DETAIL_BYTES];
    if (is_exec(call->data.nr) && allow_exec(launcher, node)) {
        answer->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        return true;
    }
    answer->error = -seccomp_refusal(call->data.nr);
    if (call->data.nr == SYS_socket && call->data.args[0] == AF_INET && !node->inet_refused) {
        node->inet_refused = true;
        return true;
    }
    if (path_read_start(launcher, node, call)) return false;
    describe(call, detail, sizeof detail);
    violation_tell(launcher, node, call->data.nr, detail);
    return true;
}

void notify_serve(struct launcher *launcher, struct jailed_node *node) {
    union notify_call received = {0};
    union notify_answer reply = {0};
    struct pollfd ready = {.fd = node->listener_fd, .events = POLLIN};
    if (node->listener_fd < 0 || poll(&ready, 1, 0) <= 0) return;
    if (!(ready.revents & POLLIN)) { /* the last process with this filter has gone */
        launcher_unwatch(launcher, node->listener_fd);
        node->listener_fd = fd_close(node->listener_fd);
        return;
    }
    /* ENOENT: the thread was killed in between. */
    if (ioctl(node->listener_fd, SECCOMP_IOCTL_NOTIF_RECV, &received.call) < 0) return;
    reply.answer.id = received.call.id;
    if (!decide(launcher, node, &received.call, &reply.answer)) return;
    bool answered = ioctl(node->listener_fd, SECCOMP_IOCTL_NOTIF_SEND, &reply.answer) == 0;
    /* Killed or interrupted meanwhile: the call was not made, and may be tried again. */
    if (!answered && reply.answer.flags & SECCOMP_USER_NOTIF_FLAG_CONTINUE)
        set_execs_used(launcher, node, node->execs_used - 1);
}
