/* The control channel: length-prefixed terms on a unix socket. Everything that arrives here was written by a hostile
 * node. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "node/node_internal.h"

struct connection {
    struct connection *next;
    struct channel *channel;
    uv_pipe_t pipe;
    uv_timer_t timer; /* the deadline of its hello, then the end of a pause */
    struct buf in;
    bool said_hello;
    bool closing;
    int handles; /* that are not closed yet */
};

struct send {
    uv_write_t write;
    struct buf frame;
};

static void free_connection(uv_handle_t *handle) {
    struct connection *connection = handle->data;
    struct node *node = connection->channel->node;
    if (--connection->handles == 0) {
        buf_free(&connection->in);
        free(connection);
    }
    node_handle_closed(node);
}

static void unlink_connection(struct connection *connection) {
    for (struct connection **at = &connection->channel->all; *at; at = &(*at)->next) {
        if (*at != connection) continue;
        *at = connection->next;
        return;
    }
}

static void accept_waiting(struct channel *channel);

static void close_connection(struct connection *connection) {
    if (connection->closing) return;
    struct channel *channel = connection->channel;
    connection->closing = true;
    unlink_connection(connection);
    if (!connection->said_hello) channel->strangers--;
    uv_close((uv_handle_t *)&connection->pipe, free_connection);
    uv_close((uv_handle_t *)&connection->timer, free_connection);
    if (channel->agent == connection) {
        channel->agent = NULL;
        node_disconnected(channel->node);
    }
    accept_waiting(channel);
}

static void on_hello_deadline(uv_timer_t *timer) {
    close_connection(timer->data);
}

static void welcome(struct connection *connection) {
    struct channel *channel = connection->channel;
    connection->said_hello = true;
    channel->strangers--;
    uv_timer_stop(&connection->timer);
    if (channel->agent) close_connection(channel->agent); /* it dials again only after it has lost the old one */
    if (connection->closing) return;                      /* whoever lost a call by that has let go of the node */
    channel->agent = connection;
    accept_waiting(channel);
    struct buf frame = BUF_INIT;
    buf_append_u32(&frame, 0);
    term_put_version(&frame);
    term_put_tuple(&frame, 2);
    term_put_atom(&frame, "welcome");
    term_put_integer(&frame, PROTOCOL_VERSION);
    channel_send(channel, &frame);
    node_connected(channel->node);
}

/* {hello, 1, Secret, Info}: the only thing a stranger may say. */
static void take_hello(struct connection *connection, const struct term *frame) {
    struct node *node = connection->channel->node;
    int64_t version;
    uv_os_fd_t fd;
    bool known = term_is_tagged(frame, "hello", 4) && term_to_int64(term_at(frame, 1), &version) &&
                 version == PROTOCOL_VERSION && uv_fileno((uv_handle_t *)&connection->pipe, &fd) == 0 &&
                 node_hello(node, term_at(frame, 2), fd);
    if (known)
        welcome(connection);
    else
        close_connection(connection);
}

static void take_frame(struct connection *connection, const uint8_t *data, size_t size) {
    /* Compressed or not, a frame may hold no more than was sent: otherwise little traffic could mean much work. */
    const struct term_bounds bounds = {.max_bytes = size, .max_terms = 2000000, .max_depth = 256};
    struct error error;
    CLEANUP_TERM struct term_doc *doc = NULL;
    bool is_agent = connection->said_hello;
    if (term_decode(data, size, &bounds, &doc, &error) < 0) {
        /* Told first: the calls that are lost with the connection may end the node too, for a lesser reason. */
        if (is_agent)
            node_misbehaved(connection->channel->node, NODE_MISBEHAVED, "a frame can't be decoded: %s", error.detail);
        close_connection(connection);
        return;
    }
    if (is_agent)
        node_frame(connection->channel->node, term_root(doc));
    else
        take_hello(connection, term_root(doc));
}

/* How long the next frame is; false until its header is there. */
static bool frame_size(const struct buf *in, size_t *ret) {
    if (in->size < FRAME_HEADER_BYTES) return false;
    *ret = (size_t)in->data[0] << 24 | (size_t)in->data[1] << 16 | (size_t)in->data[2] << 8 | in->data[3];
    return true;
}

/* Returns how many frames it took. */
static size_t take_frames(struct connection *connection) {
    struct channel *channel = connection->channel;
    struct node *node = channel->node;
    size_t used = 0, count = 0;
    while (!connection->closing) {
        struct buf rest = {.data = connection->in.data + used, .size = connection->in.size - used};
        size_t size;
        if (!frame_size(&rest, &size)) break;
        size_t max = connection->said_hello ? channel->frame_max_bytes : HELLO_MAX_BYTES;
        if (size > max) {
            if (connection->said_hello)
                node_misbehaved(node, NODE_MISBEHAVED, "a frame of %zu bytes is larger than the %zu allowed", size,
                                max);
            close_connection(connection);
            return count;
        }
        if (rest.size < FRAME_HEADER_BYTES + size) break;
        used += FRAME_HEADER_BYTES + size;
        count++;
        take_frame(connection, rest.data + FRAME_HEADER_BYTES, size);
    }
    if (connection->closing) return count;
    buf_consume(&connection->in, used);
    if (connection->in.size == 0) buf_free(&connection->in);
    return count;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret) {
    (void)suggested;
    struct connection *connection = handle->data;
    struct node_host *host = connection->channel->node->host;
    *ret = uv_buf_init(host->read_buffer, sizeof host->read_buffer);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes);

static void on_pause_over(uv_timer_t *timer) {
    struct connection *connection = timer->data;
    uv_read_start((uv_stream_t *)&connection->pipe, on_alloc, on_read);
}

/* A node that outruns its budget is read no faster than the budget grows. */
static void spend(struct connection *connection, uint64_t bytes) {
    struct channel *channel = connection->channel;
    uint64_t pause_ms = pace_spend(&channel->pace, bytes, uv_now(channel->node->host->loop));
    if (pause_ms == 0 || !connection->said_hello) return;
    uv_read_stop((uv_stream_t *)&connection->pipe);
    uv_timer_start(&connection->timer, on_pause_over, pause_ms, 0);
    node_flooded(channel->node);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes) {
    struct connection *connection = stream->data;
    if (count == 0) return;
    if (count < 0) {
        close_connection(connection);
        return;
    }
    buf_append(&connection->in, bytes->base, (size_t)count);
    if (connection->in.failed) {
        close_connection(connection);
        return;
    }
    struct node *node = connection->channel->node;
    node->open_handles++; /* the node must outlive what its own frames make happen */
    size_t frames = take_frames(connection);
    if (!connection->closing) spend(connection, (uint64_t)count + frames * FRAME_COST_BYTES);
    node_handle_closed(node);
}

/* The connection that libuv has taken from the queue; it takes no other until this one is accepted. */
static void accept_one(struct channel *channel) {
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection) return;
    channel->waiting = false;
    uv_loop_t *loop = channel->node->host->loop;
    connection->channel = channel;
    connection->handles = 2;
    uv_pipe_init(loop, &connection->pipe, 0);
    uv_timer_init(loop, &connection->timer);
    connection->pipe.data = connection->timer.data = connection;
    connection->in.max = channel->frame_max_bytes + FRAME_HEADER_BYTES + sizeof channel->node->host->read_buffer;
    connection->next = channel->all;
    channel->all = connection;
    channel->strangers++;
    channel->node->open_handles += 2;
    if (uv_accept((uv_stream_t *)&channel->listener, (uv_stream_t *)&connection->pipe) < 0) {
        close_connection(connection);
        return;
    }
    uv_timer_start(&connection->timer, on_hello_deadline, HELLO_DEADLINE_MS, 0);
    uv_read_start((uv_stream_t *)&connection->pipe, on_alloc, on_read);
}

static void accept_waiting(struct channel *channel) {
    if (channel->waiting && channel->listening && channel->strangers < STRANGERS_MAX) accept_one(channel);
}

/* Too many strangers: the next waits outside, so that a node that does nothing but dial costs us no more than those. */
static void on_connection(uv_stream_t *listener, int status) {
    struct channel *channel = listener->data;
    if (status < 0) return;
    channel->waiting = true;
    accept_waiting(channel);
}

/* A socket bound through the directory's descriptor, so that the length of the home's path doesn't matter. */
static int bind_socket(const char *directory, struct error *reterr) {
    CLEANUP_FD int folder = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return error_errno(reterr, errno, "opening %s", directory);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/agent.sock", folder);
    unlinkat(folder, "agent.sock", 0);
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return error_errno(reterr, errno, "binding agent.sock in %s", directory);
    /* The node has a uid of its own; only it sees this directory. */
    if (chmod(address.sun_path, 0666) < 0)
        return error_errno(reterr, errno, "opening agent.sock in %s to its node", directory);
    return take_fd(&fd);
}

int channel_listen(struct channel *channel, struct node *node, const char *directory, struct error *reterr) {
    int fd = bind_socket(directory, reterr);
    if (fd < 0) return fd;
    channel->node = node;
    pace_start(&channel->pace, (int64_t)channel->frame_max_bytes * 2, BUDGET_BYTES_PER_MS, uv_now(node->host->loop));
    uv_pipe_init(node->host->loop, &channel->listener, 0);
    channel->listener.data = channel;
    channel->listening = true;
    node->open_handles++;
    int status = uv_pipe_open(&channel->listener, fd);
    if (status < 0)
        fd_close(fd);
    else
        status = uv_listen((uv_stream_t *)&channel->listener, STRANGERS_MAX, on_connection);
    if (status < 0)
        return error_set(reterr, E_SYSTEM, "listening on agent.sock in %s: %s", directory, uv_strerror(status));
    return 0;
}

static void on_sent(uv_write_t *write, int status) {
    (void)status; /* a failed write shows as a closed connection */
    struct send *send = write->data;
    buf_free(&send->frame);
    free(send);
}

/* What the socket takes at once, which is nearly always all of it: waiting to hear that it was taken would cost a turn
   of the loop. Returns how much. */
static size_t send_now(struct connection *agent, const struct buf *frame) {
    uv_buf_t bytes = uv_buf_init((char *)frame->data, (unsigned)frame->size);
    int taken = uv_try_write((uv_stream_t *)&agent->pipe, &bytes, 1);
    return taken > 0 ? (size_t)taken : 0;
}

static bool send_later(struct connection *agent, struct buf *frame, size_t taken) {
    struct send *send = calloc(1, sizeof *send);
    if (!send) return false;
    send->frame = *frame;
    send->write.data = send;
    uv_buf_t bytes = uv_buf_init((char *)frame->data + taken, (unsigned)(frame->size - taken));
    if (uv_write(&send->write, (uv_stream_t *)&agent->pipe, &bytes, 1, on_sent) < 0) {
        free(send);
        return false;
    }
    *frame = (struct buf)BUF_INIT;
    return true;
}

static bool is_sendable(const struct connection *agent, const struct buf *frame) {
    return agent && !frame->failed && frame->size - FRAME_HEADER_BYTES <= SEND_MAX_BYTES &&
           uv_stream_get_write_queue_size((uv_stream_t *)&agent->pipe) + frame->size <= (size_t)2 * SEND_MAX_BYTES;
}

bool channel_send(struct channel *channel, struct buf *frame) {
    struct connection *agent = channel->agent;
    bool sent = is_sendable(agent, frame);
    if (sent) {
        size_t size = frame->size - FRAME_HEADER_BYTES;
        for (int i = 0; i < FRAME_HEADER_BYTES; i++) frame->data[i] = (uint8_t)(size >> (24 - 8 * i));
        size_t taken = send_now(agent, frame);
        sent = taken == frame->size || send_later(agent, frame, taken);
        if (!sent && taken > 0) abort(); /* half a frame is on its way; as in node_call */
    }
    buf_free(frame);
    return sent;
}

static void on_listener_closed(uv_handle_t *handle) {
    struct channel *channel = handle->data;
    node_handle_closed(channel->node);
}

void channel_close(struct channel *channel) {
    bool listening = channel->listening;
    channel->listening = false;
    while (channel->all) close_connection(channel->all);
    if (listening) uv_close((uv_handle_t *)&channel->listener, on_listener_closed);
}
