/* Forwarding of connections. Bytes go from socket to pipe to socket and never through this process's memory. A side
   that has said all is told to the other side, and what goes the other way goes on. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "launcher/forward/forward.h"

enum {
    EVENTS_PER_TURN = 64,
    ACCEPTED_PER_TURN = 16,
    CHUNK_BYTES = 64 * 1024,
    ROUNDS = 4, /* of chunks in one turn of a connection, so that none makes the others wait */
    PIPES_KEPT = 64,
    SWEEP_MS = 1000,
    DIAL_PATIENCE_MS = 5000,
    HALF_CLOSED_PATIENCE_MS = 120000, /* nothing has moved since one side has said all */
    STALLED_PATIENCE_MS = 300000,     /* bytes wait, and their side takes none */
    RESOURCES_PATIENCE_MS = 100,
};

enum state { STATE_FREE, STATE_DIALING, STATE_OPEN };
enum side { CLIENT, SERVER };

#define OF_LISTENER UINT64_MAX
#define OF_END (UINT64_MAX - 1)

/* What goes from one side to the other. Only bytes that wait keep a pipe. */
struct flow {
    int pipe_fds[2];
    size_t held_bytes;
    bool is_over;   /* the side that it comes from has said all */
    bool is_closed; /* and the other was told */
};

struct connection {
    enum state state;
    int fds[2];
    struct flow flows[2]; /* by the side that it comes from */
    uint32_t watched[2];
    uint32_t serial; /* an event of an earlier one in the same place is none of this one's */
    uint32_t next_free;
    uint8_t attempt;
    uint64_t moved_ms; /* when something last happened */
};

struct streams {
    const struct forward *forward;
    int epoll_fd;
    struct connection *items;
    uint32_t end, first_free; /* UINT32_MAX: none */
    struct jail_port_counts counts;
    struct forward_rate rate;
    bool is_listening;
    uint64_t listen_due_ms, sweep_due_ms; /* UINT64_MAX: not due */
    uint64_t now_ms;
    int pipes[PIPES_KEPT][2];
    size_t pipe_count;
};

/* ---- pipes ---- */

static bool take_pipe(struct streams *streams, struct flow *flow) {
    if (flow->pipe_fds[0] >= 0) return true;
    if (streams->pipe_count == 0) return pipe2(flow->pipe_fds, O_CLOEXEC | O_NONBLOCK) == 0;
    memcpy(flow->pipe_fds, streams->pipes[--streams->pipe_count], sizeof flow->pipe_fds);
    return true;
}

static void close_pipe(struct flow *flow) {
    for (size_t i = 0; i < 2; i++) flow->pipe_fds[i] = fd_close(flow->pipe_fds[i]);
}

static void give_pipe(struct streams *streams, struct flow *flow) {
    if (flow->pipe_fds[0] < 0) return;
    if (flow->held_bytes > 0 || streams->pipe_count == PIPES_KEPT) {
        close_pipe(flow);
        return;
    }
    memcpy(streams->pipes[streams->pipe_count++], flow->pipe_fds, sizeof flow->pipe_fds);
    flow->pipe_fds[0] = flow->pipe_fds[1] = -1;
}

/* ---- connections ---- */

static uint32_t index_of(const struct streams *streams, const struct connection *connection) {
    return (uint32_t)(connection - streams->items);
}

static struct connection *take_place(struct streams *streams) {
    uint32_t index = streams->first_free;
    if (index != UINT32_MAX)
        streams->first_free = streams->items[index].next_free;
    else
        index = streams->end++;
    struct connection *connection = &streams->items[index];
    *connection = (struct connection){.state = STATE_DIALING,
                                      .fds = {-1, -1},
                                      .flows = {{.pipe_fds = {-1, -1}}, {.pipe_fds = {-1, -1}}},
                                      .serial = connection->serial + 1,
                                      .moved_ms = streams->now_ms};
    streams->counts.open++;
    return connection;
}

/* Something is to be looked at although nothing happens. */
static void sweep_soon(struct streams *streams) {
    if (streams->sweep_due_ms == UINT64_MAX) streams->sweep_due_ms = streams->now_ms + SWEEP_MS;
}

/* A side that is cut off is to see that it did not end well. */
static void reset_at_close(int fd) {
    struct linger at_once = {.l_onoff = 1};
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

static void close_connection(struct streams *streams, struct connection *connection, bool is_broken) {
    for (size_t side = 0; side < 2; side++) {
        if (is_broken) reset_at_close(connection->fds[side]);
        connection->fds[side] = fd_close(connection->fds[side]);
        give_pipe(streams, &connection->flows[side]);
    }
    connection->state = STATE_FREE;
    connection->next_free = streams->first_free;
    streams->first_free = index_of(streams, connection);
    streams->counts.open--;
    if (!streams->is_listening && streams->listen_due_ms == UINT64_MAX) streams->listen_due_ms = streams->now_ms;
}

/* ---- watching ---- */

static uint32_t wanted_events(const struct connection *connection, enum side side) {
    const struct flow *from = &connection->flows[side], *to = &connection->flows[!side];
    if (connection->state == STATE_DIALING) return side == SERVER ? (uint32_t)EPOLLOUT : 0;
    return (from->is_over || from->held_bytes > 0 ? 0 : (uint32_t)EPOLLIN) |
           (to->held_bytes > 0 ? (uint32_t)EPOLLOUT : 0);
}

/* What is not waited for must not be watched: a side that has hung up is reported again and again. */
static bool watch(struct streams *streams, struct connection *connection) {
    for (enum side side = CLIENT; side <= SERVER; side++) {
        uint32_t wanted = wanted_events(connection, side), *watched = &connection->watched[side];
        struct epoll_event event = {.events = wanted,
                                    .data.u64 = (uint64_t)connection->serial << 32 |
                                                index_of(streams, connection) << 1 | (uint32_t)side};
        if (wanted == *watched) continue;
        int change = !*watched ? EPOLL_CTL_ADD : wanted ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
        if (epoll_ctl(streams->epoll_fd, change, connection->fds[side], &event) < 0) return false;
        *watched = wanted;
    }
    return true;
}

/* ---- moving bytes ---- */

static uint64_t *count_from(struct streams *streams, enum side from) {
    bool is_inwards = (streams->forward->way == JAIL_PORT_IN) == (from == CLIENT);
    return is_inwards ? &streams->counts.in_bytes : &streams->counts.out_bytes;
}

static bool is_later(void) {
    return errno == EAGAIN || errno == EINTR;
}

/* False: the connection is broken. */
static bool fill(struct streams *streams, struct connection *connection, enum side from) {
    struct flow *flow = &connection->flows[from];
    if (!take_pipe(streams, flow)) return false;
    ssize_t size =
        splice(connection->fds[from], NULL, flow->pipe_fds[1], NULL, CHUNK_BYTES, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (size < 0) return is_later();
    flow->is_over = size == 0;
    flow->held_bytes = (size_t)size;
    return true;
}

static bool drain(struct streams *streams, struct connection *connection, enum side from) {
    struct flow *flow = &connection->flows[from];
    ssize_t size = splice(flow->pipe_fds[0], NULL, connection->fds[!from], NULL, flow->held_bytes,
                          SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (size < 0) return is_later();
    flow->held_bytes -= (size_t)size;
    *count_from(streams, from) += (uint64_t)size;
    connection->moved_ms = streams->now_ms;
    return true;
}

static bool pass_end_on(struct streams *streams, struct connection *connection, enum side from) {
    struct flow *flow = &connection->flows[from];
    if (!flow->is_over || flow->is_closed || flow->held_bytes > 0) return true;
    flow->is_closed = true;
    connection->moved_ms = streams->now_ms;
    sweep_soon(streams);
    return shutdown(connection->fds[!from], SHUT_WR) == 0 || errno == ENOTCONN;
}

static bool move(struct streams *streams, struct connection *connection, enum side from) {
    struct flow *flow = &connection->flows[from];
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t before = flow->held_bytes;
        if (before == 0 && !flow->is_over && !fill(streams, connection, from)) return false;
        size_t filled = flow->held_bytes;
        if (filled == 0) break;
        if (!drain(streams, connection, from)) return false;
        /* A socket that gave less than was asked for is most likely empty, and one that took less is full. */
        if (flow->held_bytes > 0 || (before == 0 && filled < CHUNK_BYTES)) break;
    }
    if (flow->held_bytes == 0)
        give_pipe(streams, flow);
    else
        sweep_soon(streams);
    return pass_end_on(streams, connection, from);
}

/* ---- dialing ---- */

static void refuse(struct streams *streams, struct connection *connection) {
    streams->counts.refused++;
    close_connection(streams, connection, true);
}

static bool introduce_client(const struct streams *streams, const struct connection *connection) {
    union forward_address client = {0}, reached = {0};
    socklen_t client_size = sizeof client, reached_size = sizeof reached;
    char header[FORWARD_HEADER_BYTES];
    if (!streams->forward->proxy) return true;
    if (getpeername(connection->fds[CLIENT], &client.any, &client_size) < 0 ||
        getsockname(connection->fds[CLIENT], &reached.any, &reached_size) < 0)
        return false;
    size_t size = proxy_header_make(streams->forward->proxy, &client, &reached, header);
    return send(connection->fds[SERVER], header, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

static void open_connection(struct streams *streams, struct connection *connection) {
    connection->state = STATE_OPEN;
    connection->moved_ms = streams->now_ms;
    if (!introduce_client(streams, connection) || !watch(streams, connection))
        close_connection(streams, connection, true);
    else
        streams->counts.connections++;
}

/* The next address when one refuses at once or later. */
static void dial(struct streams *streams, struct connection *connection) {
    for (; connection->attempt < streams->forward->address_count; connection->attempt++) {
        int fd = forward_dial(streams->forward, connection->attempt);
        if (fd < 0) continue;
        bool is_connected = errno == 0;
        connection->fds[SERVER] = fd;
        if (is_connected) {
            open_connection(streams, connection);
        } else {
            sweep_soon(streams);
            if (!watch(streams, connection)) close_connection(streams, connection, true);
        }
        return;
    }
    refuse(streams, connection);
}

static void dialed(struct streams *streams, struct connection *connection) {
    int failure = 0;
    socklen_t size = sizeof failure;
    if (getsockopt(connection->fds[SERVER], SOL_SOCKET, SO_ERROR, &failure, &size) == 0 && failure == 0) {
        open_connection(streams, connection);
        return;
    }
    connection->fds[SERVER] = fd_close(connection->fds[SERVER]);
    connection->watched[SERVER] = 0;
    connection->attempt++;
    dial(streams, connection);
}

/* ---- the listener ---- */

static void listen_again(struct streams *streams) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = OF_LISTENER};
    streams->listen_due_ms = UINT64_MAX;
    if (streams->is_listening) return;
    streams->is_listening = epoll_ctl(streams->epoll_fd, EPOLL_CTL_ADD, streams->forward->listener_fd, &event) == 0;
}

/* Clients wait in the kernel's queue meanwhile. */
static void rest_until(struct streams *streams, uint64_t due_ms) {
    streams->listen_due_ms = due_ms;
    if (streams->is_listening) epoll_ctl(streams->epoll_fd, EPOLL_CTL_DEL, streams->forward->listener_fd, NULL);
    streams->is_listening = false;
}

/* A client beyond the bound is turned away at once: it need not wait to learn that. */
static void take_client(struct streams *streams, int fd, const struct jail_port_bounds *bounds) {
    if (streams->counts.open >= bounds->connections) {
        reset_at_close(fd);
        fd_close(fd);
        streams->counts.refused++;
        return;
    }
    struct connection *connection = take_place(streams);
    connection->fds[CLIENT] = fd;
    dial(streams, connection);
}

static void accept_clients(struct streams *streams) {
    struct jail_port_bounds bounds = forward_bounds(streams->forward);
    for (size_t i = 0; i < ACCEPTED_PER_TURN; i++) {
        uint64_t due_ms = 0;
        if (!forward_rate_take(&streams->rate, bounds.rate, streams->now_ms, &due_ms)) {
            rest_until(streams, due_ms);
            return;
        }
        int fd = accept4(streams->forward->listener_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            take_client(streams, fd, &bounds);
            continue;
        }
        forward_rate_give_back(&streams->rate);
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            rest_until(streams, streams->now_ms + RESOURCES_PATIENCE_MS);
        if (errno != ECONNABORTED) return;
    }
}

/* ---- what waits for time ---- */

/* UINT64_MAX: for as long as it likes. */
static uint64_t patience_ms(const struct connection *connection) {
    const struct flow *flows = connection->flows;
    if (connection->state == STATE_DIALING) return DIAL_PATIENCE_MS;
    if (flows[CLIENT].held_bytes > 0 || flows[SERVER].held_bytes > 0) return STALLED_PATIENCE_MS;
    return flows[CLIENT].is_over || flows[SERVER].is_over ? HALF_CLOSED_PATIENCE_MS : UINT64_MAX;
}

static void sweep(struct streams *streams) {
    bool is_needed = false;
    for (uint32_t i = 0; i < streams->end; i++) {
        struct connection *connection = &streams->items[i];
        if (connection->state == STATE_FREE) continue;
        uint64_t patience = patience_ms(connection);
        bool is_over = patience != UINT64_MAX && streams->now_ms - connection->moved_ms >= patience;
        if (is_over && connection->state == STATE_DIALING)
            refuse(streams, connection);
        else if (is_over)
            close_connection(streams, connection, true);
        else
            is_needed |= patience != UINT64_MAX;
    }
    streams->sweep_due_ms = is_needed ? streams->now_ms + SWEEP_MS : UINT64_MAX;
}

static int run_due(struct streams *streams) {
    streams->now_ms = clock_monotonic_ms();
    if (streams->now_ms >= streams->listen_due_ms) listen_again(streams);
    if (streams->now_ms >= streams->sweep_due_ms) sweep(streams);
    uint64_t due_ms = streams->listen_due_ms < streams->sweep_due_ms ? streams->listen_due_ms : streams->sweep_due_ms;
    if (due_ms == UINT64_MAX) return -1;
    return due_ms <= streams->now_ms ? 0 : (int)(due_ms - streams->now_ms);
}

/* ---- the loop ---- */

static void serve_connection(struct streams *streams, struct connection *connection, enum side side, uint32_t events) {
    if (connection->state == STATE_DIALING) {
        dialed(streams, connection);
        return;
    }
    bool goes_on = !(events & EPOLLERR);
    if (goes_on && events & EPOLLOUT) goes_on = move(streams, connection, !side);
    if (goes_on && events & (EPOLLIN | EPOLLHUP)) goes_on = move(streams, connection, side);
    bool is_done = connection->flows[CLIENT].is_closed && connection->flows[SERVER].is_closed;
    if (goes_on && !is_done) goes_on = watch(streams, connection);
    if (!goes_on || is_done) close_connection(streams, connection, !goes_on);
}

static void serve_event(struct streams *streams, const struct epoll_event *event) {
    if (event->data.u64 == OF_LISTENER) {
        accept_clients(streams);
        return;
    }
    uint32_t index = (uint32_t)event->data.u64 >> 1;
    struct connection *connection = &streams->items[index];
    if (connection->state == STATE_FREE || connection->serial != (uint32_t)(event->data.u64 >> 32)) return;
    serve_connection(streams, connection, event->data.u64 & 1 ? SERVER : CLIENT, event->events);
}

/* False: the node has gone. */
static bool serve_turn(struct streams *streams) {
    struct epoll_event events[EVENTS_PER_TURN];
    int count = epoll_wait(streams->epoll_fd, events, EVENTS_PER_TURN, run_due(streams));
    streams->now_ms = clock_monotonic_ms();
    for (int i = 0; i < count; i++) {
        if (events[i].data.u64 == OF_END) return false;
        serve_event(streams, &events[i]);
    }
    forward_tell(streams->forward, &streams->counts);
    return true;
}

static int begin(struct streams *streams) {
    struct epoll_event end = {.events = EPOLLIN, .data.u64 = OF_END};
    streams->items = calloc(FORWARD_CONNECTIONS_MAX, sizeof *streams->items);
    streams->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!streams->items || streams->epoll_fd < 0) return -1;
    if (epoll_ctl(streams->epoll_fd, EPOLL_CTL_ADD, streams->forward->end_fd, &end) < 0) return -1;
    listen_again(streams);
    return streams->is_listening ? 0 : -1;
}

static void finish(struct streams *streams) {
    for (uint32_t i = 0; i < streams->end; i++)
        if (streams->items[i].state != STATE_FREE) close_connection(streams, &streams->items[i], true);
    while (streams->pipe_count > 0) {
        fd_close(streams->pipes[--streams->pipe_count][0]);
        fd_close(streams->pipes[streams->pipe_count][1]);
    }
    free(streams->items);
    fd_close(streams->epoll_fd);
}

int forward_streams(const struct forward *forward) {
    struct streams streams = {.forward = forward,
                              .epoll_fd = -1,
                              .first_free = UINT32_MAX,
                              .listen_due_ms = UINT64_MAX,
                              .sweep_due_ms = UINT64_MAX};
    int failure = begin(&streams) < 0 ? errno : 0;
    while (failure == 0 && serve_turn(&streams)) {
    }
    finish(&streams);
    return failure;
}
