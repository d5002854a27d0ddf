/* Forwarding of datagrams. Each client has a socket of its own towards the sandbox, so that answers find it again; one
   that is silent for a while is forgotten. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "launcher/forward/forward.h"

enum {
    CLIENTS_MAX = 512,
    EVENTS_PER_TURN = 64,
    DATAGRAMS_PER_TURN = 64,
    DATAGRAM_BYTES = 64 * 1024,
    SILENT_MS = 60000,       /* after so long a client is forgotten */
    SHORT_SILENCE_MS = 5000, /* or sooner, where another needs its place */
    SWEEP_MS = 5000,
};

#define OF_LISTENER UINT64_MAX
#define OF_END (UINT64_MAX - 1)

struct client {
    union forward_address address;
    socklen_t address_size;
    int fd; /* -1: no client */
    size_t attempt;
    uint64_t heard_ms;
};

struct datagrams {
    const struct forward *forward;
    int epoll_fd;
    struct client clients[CLIENTS_MAX];
    size_t end;
    struct jail_port_counts counts;
    struct forward_rate rate;
    uint64_t now_ms;
    char bytes[DATAGRAM_BYTES];
};

static void forget(struct datagrams *datagrams, struct client *client) {
    client->fd = fd_close(client->fd);
    datagrams->counts.open--;
}

static bool is_same(const struct client *client, const union forward_address *address, socklen_t size) {
    return client->fd >= 0 && client->address_size == size && memcmp(&client->address, address, size) == 0;
}

static bool connect_client(struct datagrams *datagrams, struct client *client) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)(client - datagrams->clients)};
    int fd = forward_dial(datagrams->forward, client->attempt);
    if (fd >= 0 && epoll_ctl(datagrams->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) fd = fd_close(fd);
    fd_close(client->fd);
    client->fd = fd;
    return fd >= 0;
}

/* A place that is free, or that its client has not used for a while. */
static struct client *find_place(struct datagrams *datagrams, size_t max) {
    struct client *longest = NULL;
    for (size_t i = 0; i < max; i++) {
        struct client *client = &datagrams->clients[i];
        if (i >= datagrams->end || client->fd < 0) return client;
        if (!longest || client->heard_ms < longest->heard_ms) longest = client;
    }
    if (!longest || datagrams->now_ms - longest->heard_ms < SHORT_SILENCE_MS) return NULL;
    forget(datagrams, longest);
    return longest;
}

/* NULL: it is one too many. */
static struct client *add_client(struct datagrams *datagrams, const union forward_address *address, socklen_t size) {
    struct jail_port_bounds bounds = forward_bounds(datagrams->forward);
    size_t max = bounds.connections < CLIENTS_MAX ? bounds.connections : CLIENTS_MAX;
    uint64_t due_ms;
    if (!forward_rate_take(&datagrams->rate, bounds.rate, datagrams->now_ms, &due_ms)) return NULL;
    struct client *client = find_place(datagrams, max);
    if (!client) return NULL;
    *client = (struct client){.address = *address, .address_size = size, .fd = -1};
    if (!connect_client(datagrams, client)) return NULL;
    size_t index = (size_t)(client - datagrams->clients);
    if (index >= datagrams->end) datagrams->end = index + 1;
    datagrams->counts.open++;
    datagrams->counts.connections++;
    return client;
}

static struct client *client_of(struct datagrams *datagrams, const union forward_address *address, socklen_t size) {
    for (size_t i = 0; i < datagrams->end; i++)
        if (is_same(&datagrams->clients[i], address, size)) return &datagrams->clients[i];
    struct client *client = add_client(datagrams, address, size);
    if (!client) datagrams->counts.refused++;
    return client;
}

/* No process listens there: the next address is tried, and what was said is lost, as datagrams may be. */
static void refused(struct datagrams *datagrams, struct client *client) {
    if (errno != ECONNREFUSED) return;
    datagrams->counts.refused++;
    client->attempt = (client->attempt + 1) % datagrams->forward->address_count;
    if (!connect_client(datagrams, client)) datagrams->counts.open--;
}

static void take_from_clients(struct datagrams *datagrams) {
    for (size_t i = 0; i < DATAGRAMS_PER_TURN; i++) {
        union forward_address address = {0};
        socklen_t size = sizeof address;
        ssize_t got = recvfrom(datagrams->forward->listener_fd, datagrams->bytes, sizeof datagrams->bytes, MSG_DONTWAIT,
                               &address.any, &size);
        if (got < 0) return;
        struct client *client = client_of(datagrams, &address, size);
        if (!client) continue;
        client->heard_ms = datagrams->now_ms;
        if (send(client->fd, datagrams->bytes, (size_t)got, MSG_DONTWAIT | MSG_NOSIGNAL) == got)
            datagrams->counts.in_bytes += (uint64_t)got;
        else
            refused(datagrams, client);
    }
}

static void take_from_sandbox(struct datagrams *datagrams, struct client *client) {
    for (size_t i = 0; i < DATAGRAMS_PER_TURN && client->fd >= 0; i++) {
        ssize_t got = recv(client->fd, datagrams->bytes, sizeof datagrams->bytes, MSG_DONTWAIT);
        if (got < 0) {
            refused(datagrams, client);
            return;
        }
        client->heard_ms = datagrams->now_ms;
        if (sendto(datagrams->forward->listener_fd, datagrams->bytes, (size_t)got, MSG_DONTWAIT | MSG_NOSIGNAL,
                   &client->address.any, client->address_size) == got)
            datagrams->counts.out_bytes += (uint64_t)got;
    }
}

static void forget_silent(struct datagrams *datagrams) {
    for (size_t i = 0; i < datagrams->end; i++) {
        struct client *client = &datagrams->clients[i];
        if (client->fd >= 0 && datagrams->now_ms - client->heard_ms >= SILENT_MS) forget(datagrams, client);
    }
}

/* False: the node has gone. */
static bool serve_turn(struct datagrams *datagrams) {
    struct epoll_event events[EVENTS_PER_TURN];
    int count = epoll_wait(datagrams->epoll_fd, events, EVENTS_PER_TURN, datagrams->counts.open > 0 ? SWEEP_MS : -1);
    datagrams->now_ms = clock_monotonic_ms();
    for (int i = 0; i < count; i++) {
        if (events[i].data.u64 == OF_END) return false;
        if (events[i].data.u64 == OF_LISTENER)
            take_from_clients(datagrams);
        else if (datagrams->clients[events[i].data.u64].fd >= 0)
            take_from_sandbox(datagrams, &datagrams->clients[events[i].data.u64]);
    }
    forget_silent(datagrams);
    forward_tell(datagrams->forward, &datagrams->counts);
    return true;
}

static int begin(struct datagrams *datagrams) {
    struct epoll_event end = {.events = EPOLLIN, .data.u64 = OF_END};
    struct epoll_event listener = {.events = EPOLLIN, .data.u64 = OF_LISTENER};
    datagrams->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (datagrams->epoll_fd < 0 || epoll_ctl(datagrams->epoll_fd, EPOLL_CTL_ADD, datagrams->forward->end_fd, &end) < 0)
        return -1;
    return epoll_ctl(datagrams->epoll_fd, EPOLL_CTL_ADD, datagrams->forward->listener_fd, &listener);
}

int forward_datagrams(const struct forward *forward) {
    CLEANUP_FREE struct datagrams *datagrams = calloc(1, sizeof *datagrams);
    if (!datagrams) return ENOMEM;
    datagrams->forward = forward;
    datagrams->epoll_fd = -1;
    int failure = begin(datagrams) < 0 ? errno : 0;
    while (failure == 0 && serve_turn(datagrams)) {
    }
    for (size_t i = 0; i < datagrams->end; i++) fd_close(datagrams->clients[i].fd);
    fd_close(datagrams->epoll_fd);
    return failure;
}
