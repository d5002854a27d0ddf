/* Acting as the person who asked: never with more than that person's rights, and never in the launcher's own process,
   which a slow or hostile file system could hold up. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "jail/wire.h"
#include "launcher/privileges.h"
#include "launcher/project/project.h"

/* Both ends of a unix connection report a peer, but only the accepting end's is the caller: on the other it is the
   listener, maybe root. An accepted socket has its listener's name, and its peer none. */
static bool is_accepted(int fd) {
    struct sockaddr_un own = {0}, peer = {0};
    socklen_t own_size = sizeof own, peer_size = sizeof peer;
    return getsockname(fd, (struct sockaddr *)&own, &own_size) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0 && own.sun_family == AF_UNIX &&
           own_size > sizeof own.sun_family && peer_size == sizeof peer.sun_family;
}

/* The daemon has these too. One of a pair that root made has root at its other end, and could be given a name. */
static bool is_inherited(int fd) {
    struct stat status, own;
    if (fstat(fd, &status) < 0) return true;
    for (int standard = STDIN_FILENO; standard <= STDERR_FILENO; standard++)
        if (fstat(standard, &own) == 0 && own.st_dev == status.st_dev && own.st_ino == status.st_ino) return true;
    return false;
}

/* Nothing is opened for a caller that has gone: a connection that was kept must not stand for its caller for ever. */
static bool is_gone(int fd) {
    struct pollfd state = {.fd = fd};
    return poll(&state, 1, 0) != 0 && state.revents & (POLLHUP | POLLERR | POLLNVAL);
}

int caller_of(int peer_fd, struct caller *ret, struct error *reterr) {
    struct ucred peer;
    struct caller caller = {0};
    socklen_t size = sizeof peer, groups_size = sizeof caller.groups;
    if (!is_accepted(peer_fd) || is_inherited(peer_fd))
        return error_set(reterr, E_FORBIDDEN, "not a connection that somebody made to us");
    if (is_gone(peer_fd)) return error_set(reterr, E_FORBIDDEN, "the caller has gone");
    if (getsockopt(peer_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return error_errno(reterr, errno, "who is calling");
    if (peer.uid == (uid_t)-1 || peer.gid == (gid_t)-1)
        return error_set(reterr, E_FORBIDDEN, "the caller has no identity");
    if (getsockopt(peer_fd, SOL_SOCKET, SO_PEERGROUPS, caller.groups, &groups_size) < 0)
        return error_errno(reterr, errno, "which groups the caller has");
    caller.pid = peer.pid;
    caller.uid = peer.uid;
    caller.gid = peer.gid;
    caller.group_count = groups_size / sizeof *caller.groups;
    *ret = caller;
    return 0;
}

int caller_become(const struct caller *caller, bool root, struct error *reterr) {
    if (root && privileges_become(caller->uid, caller->gid, caller->groups, caller->group_count, reterr) < 0) return -1;
    /* The caller could otherwise look into a process that was the launcher a moment ago. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return 0;
}

/* ---- as words of a record ---- */

void caller_put(const struct caller *caller, struct buf *text) {
    CLEANUP(buf_free) struct buf groups = BUF_INIT;
    for (size_t i = 0; i < caller->group_count; i++) buf_printf(&groups, "%s%u", i ? "," : "", caller->groups[i]);
    wire_put_number(text, "uid", caller->uid);
    wire_put_number(text, "gid", caller->gid);
    wire_put_pair(text, "groups", buf_string(&groups));
    if (groups.failed) text->failed = true;
}

static bool read_groups(const char *list, struct caller *caller) {
    for (const char *at = list; at && *at;) {
        char word[16];
        uint64_t group;
        size_t length = strcspn(at, ",");
        if (length >= sizeof word || caller->group_count == CALLER_GROUPS_MAX) return false;
        memcpy(word, at, length);
        word[length] = '\0';
        if (!parse_u64(word, &group) || group >= UINT32_MAX) return false;
        caller->groups[caller->group_count++] = (gid_t)group;
        at += length + (at[length] == ',');
    }
    return list != NULL;
}

bool caller_take(const struct wire_message *message, struct caller *ret) {
    uint64_t uid, gid;
    if (!wire_message_number(message, "uid", &uid) || !wire_message_number(message, "gid", &gid) || uid >= UINT32_MAX ||
        gid >= UINT32_MAX || !read_groups(wire_message_value(message, "groups"), ret))
        return false;
    ret->uid = (uid_t)uid;
    ret->gid = (gid_t)gid;
    return true;
}
