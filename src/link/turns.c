/* Turns of users at the launcher, which has one thread and does one thing after the other: of each user it has a few
   requests at once, and the rest waits here. So a user who asks without a pause makes others wait for a few requests,
   not for all of them. What the service itself asks, and what ends or stops a node, does not wait. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/link_internal.h"

enum { AT_ONCE_OF_ONE = 2 };

/* A request that waits. */
struct waiting {
    struct waiting *next;
    struct link_call *call;
    struct buf message;
    int fd; /* ours; -1: none goes with it */
};

struct link_turn {
    struct link_turn *next;
    uid_t user;
    unsigned under_way;
    struct waiting *first, **end;
};

static struct link_turn **find(struct link_turns *turns, uid_t user) {
    struct link_turn **at = &turns->users;
    while (*at && (*at)->user != user) at = &(*at)->next;
    return at;
}

static struct link_turn *need(struct link_turns *turns, uid_t user) {
    struct link_turn **at = find(turns, user);
    if (*at) return *at;
    struct link_turn *turn = new_or_abort(struct link_turn);
    *turn = (struct link_turn){.user = user};
    turn->end = &turn->first;
    return *at = turn;
}

static struct waiting *take_first(struct link_turn *turn) {
    struct waiting *first = turn->first;
    turn->first = first->next;
    if (!turn->first) turn->end = &turn->first;
    return first;
}

static void waiting_free(struct waiting *waiting) {
    fd_close(waiting->fd);
    buf_free(&waiting->message);
    free(waiting);
}

bool link_turns_must_wait(struct link_turns *turns, const struct link_call *call) {
    const struct link_turn *turn = call->user != 0 ? *find(turns, call->user) : NULL;
    return turn && turn->under_way >= AT_ONCE_OF_ONE;
}

bool link_turns_add(struct link_turns *turns, struct link_call *call, struct buf *message, int fd) {
    struct waiting *waiting = malloc(sizeof *waiting);
    int own_fd = waiting && fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (!waiting || (fd >= 0 && own_fd < 0)) {
        free(waiting);
        return false;
    }
    struct link_turn *turn = need(turns, call->user);
    *waiting = (struct waiting){.call = call, .message = *message, .fd = own_fd};
    *message = (struct buf)BUF_INIT;
    *turn->end = waiting;
    turn->end = &waiting->next;
    return true;
}

void link_turns_sent(struct link_turns *turns, const struct link_call *call) {
    if (call->user != 0) need(turns, call->user)->under_way++;
}

void link_turns_ended(struct link_turns *turns, uid_t user, link_turns_send_fn send, void *data) {
    struct link_turn **at = find(turns, user);
    if (user == 0 || !*at) return;
    struct link_turn *turn = *at;
    if (turn->under_way > 0) turn->under_way--;
    while (turn->first && turn->under_way < AT_ONCE_OF_ONE) {
        struct waiting *next = take_first(turn);
        send(data, next->call, &next->message, next->fd);
        waiting_free(next);
    }
    at = find(turns, user);
    if (turn->under_way > 0 || turn->first) return;
    *at = turn->next;
    free(turn);
}

void link_turns_fail(struct link_turns *turns, void (*fail)(void *data, struct link_call *call), void *data) {
    for (struct link_turn *turn; (turn = turns->users);) {
        while (turn->first) {
            struct waiting *next = take_first(turn);
            fail(data, next->call);
            waiting_free(next);
        }
        turns->users = turn->next;
        free(turn);
    }
}

/* ---- whose a request is ---- */

void link_turns_set_owner(struct link_turns *turns, const char *node, uid_t owner) {
    void *kept = (void *)(uintptr_t)((uint64_t)principals_of(turns->principals, owner) + 1);
    if (!map_set(&turns->owners, node, kept)) abort();
}

void link_turns_forget_node(struct link_turns *turns, const char *node) {
    map_remove(&turns->owners, node);
}

uid_t link_turns_of_node(const struct link_turns *turns, const char *node) {
    void *kept = map_get(&turns->owners, node);
    return kept ? (uid_t)((uintptr_t)kept - 1) : 0;
}

uid_t link_turns_of_peer(const struct link_turns *turns, int peer_fd) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (peer_fd < 0 || getsockopt(peer_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid == geteuid())
        return 0;
    return principals_of(turns->principals, peer.uid);
}
