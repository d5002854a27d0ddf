/* The control channel's listening socket in the node's control directory. What dials it is hostile: few strangers are
   let in at a time, and few dials are taken. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "node/node_internal.h"

static void on_dial(uv_poll_t *poll, int status, int events);

/* Dials wait in the backlog otherwise, so that a node that does nothing but dial costs us no more than its budget. */
static void watch(struct channel *channel) {
    bool takes = channel->strangers < STRANGERS_MAX && !uv_is_active((uv_handle_t *)&channel->dial_timer);
    if (takes == channel->takes_dials) return;
    channel->takes_dials = takes;
    if (takes)
        uv_poll_start(&channel->listener, UV_READABLE, on_dial);
    else
        uv_poll_stop(&channel->listener);
}

void channel_take_dials(struct channel *channel) {
    if (channel->listening) watch(channel);
}

static void on_dials_again(uv_timer_t *timer) {
    watch(timer->data);
}

static void pause_dials(struct channel *channel, uint64_t ms) {
    if (ms > 0) uv_timer_start(&channel->dial_timer, on_dials_again, ms, 0);
    watch(channel);
}

/* Without a descriptor left for it the dial stays where it is: to be told of it in every turn does not help. */
static void on_dial(uv_poll_t *poll, int status, int events) {
    struct channel *channel = poll->data;
    (void)status, (void)events;
    int fd = accept4(channel->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno != EAGAIN && errno != EINTR) pause_dials(channel, DIAL_COST_MS);
        return;
    }
    uint64_t pause_ms = pace_spend(&channel->dials, DIAL_COST_MS, uv_now(channel->node->host->loop));
    connection_open(channel, fd);
    pause_dials(channel, pause_ms);
    if (pause_ms > 0) node_dials_flooded(channel->node); /* last: it may be the node's end */
}

/* A socket bound through the directory's descriptor, so that the length of the home's path doesn't matter. */
static int bind_socket(const char *directory, bool *ret_is_careful, struct error *reterr) {
    CLEANUP_FD int folder = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return error_errno(reterr, errno, "opening %s", directory);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/agent.sock", folder);
    unlinkat(folder, "agent.sock", 0);
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) *ret_is_careful = !stranger_refuse_descriptors(fd);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return error_errno(reterr, errno, "binding agent.sock in %s", directory);
    if (listen(fd, STRANGERS_MAX) < 0) return error_errno(reterr, errno, "listening on agent.sock in %s", directory);
    /* The node has a uid of its own; only it sees this directory. */
    if (chmod(address.sun_path, 0666) < 0)
        return error_errno(reterr, errno, "opening agent.sock in %s to its node", directory);
    return take_fd(&fd);
}

static int open_handles(struct channel *channel, struct error *reterr) {
    uv_loop_t *loop = channel->node->host->loop;
    int result = uv_poll_init_socket(loop, &channel->listener, channel->fd);
    if (result < 0) {
        channel->fd = fd_close(channel->fd);
        return error_errno(reterr, -result, "watching agent.sock");
    }
    uv_timer_init(loop, &channel->dial_timer);
    channel->listener.data = channel->dial_timer.data = channel;
    channel->listening = true;
    channel->node->open_handles += 2;
    return 0;
}

int channel_listen(struct channel *channel, struct node *node, const char *directory, struct error *reterr) {
    int fd = bind_socket(directory, &channel->is_careful, reterr);
    if (fd < 0) return fd;
    uint64_t now_ms = uv_now(node->host->loop);
    channel->node = node;
    channel->fd = fd;
    pace_start(&channel->pace, (int64_t)channel->frame_max_bytes * 2, BUDGET_BYTES_PER_MS, now_ms);
    pace_start(&channel->dials, (int64_t)DIALS_BURST * DIAL_COST_MS, 1, now_ms);
    int result = open_handles(channel, reterr);
    if (result == 0) watch(channel);
    return result;
}

void node_charge(struct node *node, uint64_t bytes) {
    pace_spend(&node->channel.pace, bytes, uv_now(node->host->loop));
}

bool channel_send(struct channel *channel, struct buf *frame, struct buf *rest) {
    struct buf none = BUF_INIT;
    if (!rest) rest = &none;
    size_t size = frame->size + rest->size - FRAME_HEADER_BYTES;
    bool is_sendable = channel->agent && !frame->failed && !rest->failed && size <= SEND_MAX_BYTES &&
                       connection_has_room(channel->agent, frame->size + rest->size);
    if (is_sendable) {
        for (int i = 0; i < FRAME_HEADER_BYTES; i++) frame->data[i] = (uint8_t)(size >> (24 - 8 * i));
        connection_send(channel->agent, frame);
        if (rest->size > 0) connection_send(channel->agent, rest);
    }
    host_discard(channel->node->host, frame);
    host_discard(channel->node->host, rest);
    return is_sendable;
}

static void on_closed(uv_handle_t *handle) {
    struct channel *channel = handle->data;
    node_handle_closed(channel->node);
}

/* Dials in the backlog are refused now; closing the listener may be left to another thread. */
static void turn_away_waiting(struct channel *channel) {
    int fd;
    for (int i = 0; i <= STRANGERS_MAX && (fd = accept4(channel->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0; i++)
        stranger_close(fd);
}

static void close_listener(struct channel *channel) {
    uv_close((uv_handle_t *)&channel->listener, on_closed);
    uv_close((uv_handle_t *)&channel->dial_timer, on_closed);
    if (channel->is_careful) {
        turn_away_waiting(channel);
        stranger_close(channel->fd);
    } else {
        fd_close(channel->fd);
    }
}

void channel_close(struct channel *channel) {
    bool listening = channel->listening;
    channel->listening = false;
    while (channel->all) connection_close(channel->all);
    if (listening) close_listener(channel);
}
