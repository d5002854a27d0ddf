/* One connection of the control channel: length-prefixed terms. Everything that arrives here was written by a hostile
   node, which gets a bounded turn of the loop at a time. */
#include <errno.h>
#include <sys/socket.h>

#include "node/node_internal.h"

enum {
    TURN_FRAMES = 256,
    TURN_WEIGHT = 8192,
    NEXT_TURN_MS = 1, /* libuv runs a timer of 0 ms in the same turn again */
    DECODING_AGAIN_MS = 5,
    ROOM_AGAIN_MS = 20,
};

struct message { /* what the socket did not take at once */
    struct message *next;
    struct buf frame;
    size_t sent;
};

struct connection {
    struct connection *next;
    struct channel *channel;
    int fd;
    uv_poll_t poll;
    uv_timer_t timer; /* the deadline of its hello, then the end of a rest */
    struct buf in;
    struct frame_part room; /* for the large frame at hand */
    struct message *out, **out_tail;
    size_t out_bytes;
    struct loop_waiter turn; /* while the loop's turn is full */
    bool has_new_bytes;      /* in the socket, when it began to wait */
    unsigned reads;          /* before its hello */
    bool said_hello;
    bool rests;    /* is not read: it has had its turn, or outran its budget, or waits for its turn */
    bool decoding; /* is not read either: frames are taken in their order */
    uid_t decoder; /* whose the frame on a thread is */
    bool closing;
    int handles; /* that are not closed yet, and work under way */
};

struct channel_turn {
    size_t frames, terms, weight;
    bool is_cut;  /* more could be taken now */
    bool is_late; /* it waits for another frame to be decoded */
};

/* ---- room for large frames: what has come of one is in our memory until all of it was read ---- */

static size_t frame_size(const uint8_t *header) {
    return (size_t)header[0] << 24 | (size_t)header[1] << 16 | (size_t)header[2] << 8 | header[3];
}

/* Whether the rest of the frame at hand may come. */
static bool take_room(struct connection *connection) {
    size_t size = connection->in.size < FRAME_HEADER_BYTES ? 0 : frame_size(connection->in.data);
    return size <= FRAME_LARGE_BYTES || frame_room_take(connection->channel->node, &connection->room, size);
}

static void give_room(struct connection *connection) {
    frame_room_give(connection->channel->node->host, &connection->room);
}

/* ---- the end ---- */

static void free_messages(struct connection *connection) {
    while (connection->out) {
        struct message *message = connection->out;
        connection->out = message->next;
        host_discard(connection->channel->node->host, &message->frame);
        free(message);
    }
}

static void let_go(struct connection *connection) {
    struct node *node = connection->channel->node;
    if (--connection->handles == 0) {
        host_discard(node->host, &connection->in); /* what has come of a large frame */
        free_messages(connection);
        free(connection);
    }
    node_handle_closed(node);
}

static void hold(struct connection *connection) {
    connection->handles++;
    connection->channel->node->open_handles++;
}

static void on_closed(uv_handle_t *handle) {
    let_go(handle->data);
}

static void unlink_connection(struct connection *connection) {
    for (struct connection **at = &connection->channel->all; *at; at = &(*at)->next) {
        if (*at != connection) continue;
        *at = connection->next;
        return;
    }
}

void connection_close(struct connection *connection) {
    if (connection->closing) return;
    struct channel *channel = connection->channel;
    connection->closing = true;
    unlink_connection(connection);
    loop_turns_remove(&channel->node->host->reading, &connection->turn);
    if (!connection->said_hello) channel->strangers--;
    uv_close((uv_handle_t *)&connection->poll, on_closed);
    uv_close((uv_handle_t *)&connection->timer, on_closed);
    if (channel->is_careful)
        stranger_close(connection->fd);
    else
        fd_close(connection->fd);
    if (!connection->decoding) give_room(connection);
    if (channel->agent == connection) {
        channel->lacks_room = false;
        channel->agent = NULL;
        node_disconnected(channel->node);
    }
    channel_take_dials(channel);
}

/* ---- when it is looked at ---- */

static void on_ready(uv_poll_t *poll, int status, int events);

static void watch(struct connection *connection) {
    if (connection->closing) return;
    int events = connection->rests || connection->decoding ? 0 : UV_READABLE;
    if (connection->out) events |= UV_WRITABLE;
    if (events)
        uv_poll_start(&connection->poll, events, on_ready);
    else
        uv_poll_stop(&connection->poll);
}

static void take_turn(struct connection *connection, size_t bytes);

static void read_some(struct connection *connection);

static void on_turn(struct loop_waiter *turn) {
    struct connection *connection = (struct connection *)((char *)turn - offsetof(struct connection, turn));
    loop_note(connection->poll.loop, "node", connection->channel->node->name);
    connection->rests = false;
    if (connection->has_new_bytes)
        read_some(connection);
    else
        take_turn(connection, 0);
}

/* Nodes are many, and each may have enough to say for a turn. */
static bool must_wait(struct connection *connection, bool has_new_bytes) {
    struct node_host *host = connection->channel->node->host;
    if (!loop_turns_wait(&host->reading, (uintptr_t)connection->channel, &connection->turn)) return false;
    connection->has_new_bytes = has_new_bytes;
    connection->rests = true;
    watch(connection);
    return true;
}

static void on_rested(uv_timer_t *timer) {
    struct connection *connection = timer->data;
    loop_note(timer->loop, "node", connection->channel->node->name);
    connection->rests = false;
    if (!must_wait(connection, false)) take_turn(connection, 0);
}

static void rest(struct connection *connection, uint64_t ms) {
    connection->rests = true;
    uv_timer_start(&connection->timer, on_rested, ms, 0);
}

/* ---- hello ---- */

static void on_hello_deadline(uv_timer_t *timer) {
    connection_close(timer->data);
}

static void welcome(struct connection *connection) {
    struct channel *channel = connection->channel;
    connection->said_hello = true;
    channel->strangers--;
    uv_timer_stop(&connection->timer);
    if (channel->agent) connection_close(channel->agent); /* it dials again only after it has lost the old one */
    if (connection->closing) return;                      /* the owner of a lost call has let go of the node */
    channel->agent = connection;
    channel_take_dials(channel);
    struct buf frame = BUF_INIT;
    buf_append_u32(&frame, 0);
    term_put_version(&frame);
    term_put_tuple(&frame, 2);
    term_put_atom(&frame, "welcome");
    term_put_integer(&frame, PROTOCOL_VERSION);
    channel_send(channel, &frame, NULL);
    node_connected(channel->node);
}

/* {hello, 1, Secret, Info}: the only thing a stranger may say. */
static void take_hello(struct connection *connection, const struct term *frame) {
    int64_t version;
    bool is_known = term_is_tagged(frame, "hello", 4) && term_to_int64(term_at(frame, 1), &version) &&
                    version == PROTOCOL_VERSION &&
                    node_hello(connection->channel->node, term_at(frame, 2), connection->fd);
    if (is_known)
        welcome(connection);
    else
        connection_close(connection);
}

/* ---- frames ---- */

/* Told first: the calls that are lost with the connection may end the node too, for a lesser reason. */
static void refuse_frame(struct connection *connection, const struct error *error) {
    if (connection->said_hello)
        node_misbehaved(connection->channel->node, NODE_MISBEHAVED, "a frame can't be decoded: %s", error->detail);
    connection_close(connection);
}

static uint64_t cost_of_terms(size_t terms) {
    return terms > TERMS_FREE ? (terms - TERMS_FREE) * (uint64_t)TERM_COST_BYTES : 0;
}

/* Whatever is told of it may keep the terms. The node outlives this: its connection is held. */
static void tell(struct connection *connection, struct term_doc **doc, void **made) {
    struct node *node = connection->channel->node;
    node->frame = doc;
    node_frame(node, term_root(*doc), made);
    node->frame = NULL;
}

/* It waited for a thread, which is not its own doing. */
static void end_decoding(struct connection *connection, struct decoding *decoding) {
    struct node *node = connection->channel->node;
    decoding_end(decoding);
    connection->channel->is_decoding = connection->decoding = false;
    give_room(connection);
    frame_decoding_ended(node->host, connection->decoder);
    node->last_alive_ms = loop_attended_ms(node->host->loop);
    if (!connection->closing) take_turn(connection, 0);
    let_go(connection);
}

static void on_prepared(void *data, struct decoding *decoding) {
    struct connection *connection = data;
    if (!connection->closing) tell(connection, decoding_doc(decoding), decoding_made(decoding));
    end_decoding(connection, decoding);
}

static void on_decoded(void *data, struct decoding *decoding) {
    struct connection *connection = data;
    struct channel *channel = connection->channel;
    const struct term *part = NULL;
    struct error error;
    const struct term *frame = decoding_root(decoding, &error);
    pace_spend(&channel->pace, cost_of_terms(decoding_terms(decoding)), uv_now(channel->node->host->loop));
    const struct node_preparation *preparation =
        frame && !connection->closing ? calls_preparation(channel->node, frame, &part) : NULL;
    if (preparation) {
        decoding_prepare(decoding, preparation, part, on_prepared);
        return;
    }
    if (frame && !connection->closing)
        tell(connection, decoding_doc(decoding), NULL);
    else if (!connection->closing)
        refuse_frame(connection, &error);
    end_decoding(connection, decoding);
}

/* A thread takes the buffer as it is; what follows the frame goes on in a new one. */
static void take_large(struct connection *connection, size_t at, size_t size) {
    struct buf rest_of_it = {.max = connection->in.max};
    size_t end = at + size;
    buf_append(&rest_of_it, connection->in.data + end, connection->in.size - end);
    hold(connection);
    connection->channel->is_decoding = connection->decoding = true;
    connection->decoder = frame_decoding_begun(connection->channel->node);
    decode_large(connection->channel->node, &connection->in, at, size, on_decoded, connection);
    connection->in = rest_of_it;
}

/* False: it is one for a thread. */
static bool take_small(struct connection *connection, const uint8_t *data, size_t size, struct channel_turn *turn) {
    struct error error;
    CLEANUP_TERM struct term_doc *doc = NULL;
    int result = decode_small(data, size, &doc, &error);
    if (result > 0 && connection->said_hello) return false;
    turn->frames++;
    if (result != 0) {
        if (result > 0) error_set(&error, E_TOO_LARGE, "a hello of too many terms");
        refuse_frame(connection, &error);
        return true;
    }
    turn->terms += term_count(doc);
    turn->weight += term_weight(doc);
    if (connection->said_hello)
        tell(connection, &doc, NULL);
    else
        take_hello(connection, term_root(doc));
    return true;
}

/* How long the frame at an offset is; false until it is whole, or when it may not be. */
static bool next_frame(struct connection *connection, size_t at, size_t *ret) {
    const struct channel *channel = connection->channel;
    const uint8_t *header = connection->in.data + at;
    size_t left = connection->in.size - at;
    if (left < FRAME_HEADER_BYTES) return false;
    size_t size = frame_size(header);
    size_t max = connection->said_hello ? channel->frame_max_bytes : HELLO_MAX_BYTES;
    if (size > max) {
        if (connection->said_hello)
            node_misbehaved(channel->node, NODE_MISBEHAVED, "a frame of %zu bytes is larger than the %zu allowed", size,
                            max);
        connection_close(connection);
        return false;
    }
    *ret = size;
    return left >= FRAME_HEADER_BYTES + size;
}

static void drop_taken(struct connection *connection, size_t used) {
    if (connection->closing) return;
    buf_consume(&connection->in, used);
    if (connection->in.size == 0) buf_free(&connection->in);
}

static struct channel_turn take_frames(struct connection *connection) {
    struct channel_turn turn = {0};
    size_t used = 0, size;
    while (!connection->closing && next_frame(connection, used, &size)) {
        size_t at = used + FRAME_HEADER_BYTES;
        turn.is_cut = turn.frames == TURN_FRAMES || turn.weight >= TURN_WEIGHT;
        if (turn.is_cut) break;
        if (take_small(connection, connection->in.data + at, size, &turn)) {
            used = at + size;
            continue;
        }
        /* Another connection's, which this one has followed; or those of other nodes. */
        turn.is_cut = turn.is_late = connection->channel->is_decoding || !frame_may_decode(connection->channel->node);
        if (turn.is_cut) break;
        turn.frames++;
        take_large(connection, at, size);
        return turn;
    }
    drop_taken(connection, used);
    return turn;
}

/* A node that outruns its budget is read no faster than the budget grows. */
static void end_turn(struct connection *connection, size_t bytes, const struct channel_turn *turn) {
    struct channel *channel = connection->channel;
    uint64_t cost =
        bytes + (turn->frames || !bytes ? turn->frames : 1) * (uint64_t)FRAME_COST_BYTES + cost_of_terms(turn->terms);
    uint64_t pause_ms = pace_spend(&channel->pace, cost, uv_now(channel->node->host->loop));
    if (connection->said_hello && !connection->decoding) {
        channel->lacks_room = turn->is_late || !take_room(connection);
        uint64_t again_ms = turn->is_late ? DECODING_AGAIN_MS : channel->lacks_room ? ROOM_AGAIN_MS : NEXT_TURN_MS;
        if (pause_ms > 0 || turn->is_cut || channel->lacks_room) rest(connection, pause_ms > 0 ? pause_ms : again_ms);
        if (pause_ms > 0) node_flooded(channel->node);
    }
    watch(connection);
}

static void take_turn(struct connection *connection, size_t bytes) {
    hold(connection); /* the node must outlive what its own frames make happen */
    struct channel_turn turn = take_frames(connection);
    if (!connection->closing) end_turn(connection, bytes, &turn);
    let_go(connection);
}

/* ---- reading ---- */

static ssize_t receive(struct connection *connection) {
    struct node_host *host = connection->channel->node->host;
    size_t size = connection->said_hello ? sizeof host->read_buffer : HELLO_MAX_BYTES;
    return connection->channel->is_careful ? stranger_receive(connection->fd, host->read_buffer, size)
                                           : recv(connection->fd, host->read_buffer, size, MSG_DONTWAIT);
}

static void read_some(struct connection *connection) {
    struct channel *channel = connection->channel;
    ssize_t count = receive(connection);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        watch(connection);
        return;
    }
    if (count < 0 && errno == EBADMSG) node_passed_descriptor(channel->node);
    if (count > 0) buf_append(&connection->in, channel->node->host->read_buffer, (size_t)count);
    bool is_tedious = !connection->said_hello && ++connection->reads > STRANGER_READS_MAX;
    if (count <= 0 || connection->in.failed || is_tedious)
        connection_close(connection);
    else
        take_turn(connection, (size_t)count);
}

/* ---- sending ---- */

/* What the socket takes at once, which is nearly always all of it: waiting to hear that it was taken would cost a turn
   of the loop. Returns how much. A failure shows when it is read. */
static size_t send_now(const struct connection *connection, const uint8_t *data, size_t size) {
    ssize_t taken = send(connection->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    return taken > 0 ? (size_t)taken : 0;
}

static void send_waiting(struct connection *connection) {
    struct message *message = connection->out;
    size_t taken = send_now(connection, message->frame.data + message->sent, message->frame.size - message->sent);
    message->sent += taken;
    connection->out_bytes -= taken;
    if (message->sent < message->frame.size) return;
    connection->out = message->next;
    if (!connection->out) connection->out_tail = &connection->out;
    host_discard(connection->channel->node->host, &message->frame);
    free(message);
    watch(connection);
}

static void send_later(struct connection *connection, struct buf *frame, size_t sent) {
    struct message *message = new_or_abort(struct message);
    *message = (struct message){.frame = *frame, .sent = sent};
    *frame = (struct buf)BUF_INIT;
    *connection->out_tail = message;
    connection->out_tail = &message->next;
    connection->out_bytes += message->frame.size - sent;
    watch(connection);
}

bool connection_has_room(const struct connection *connection, size_t bytes) {
    return connection->out_bytes + bytes <= (size_t)2 * SEND_MAX_BYTES;
}

void connection_send(struct connection *connection, struct buf *frame) {
    size_t sent = connection->out ? 0 : send_now(connection, frame->data, frame->size);
    if (sent < frame->size) send_later(connection, frame, sent);
}

/* The other side is gone, which is noticed when it is its turn to be read. */
static void give_up_sending(struct connection *connection) {
    free_messages(connection);
    connection->out_tail = &connection->out;
    connection->out_bytes = 0;
    watch(connection);
}

/* A read shows the error, after what came before it; libuv stops looking then. */
static void on_ready(uv_poll_t *poll, int status, int events) {
    struct connection *connection = poll->data;
    loop_note(poll->loop, "node", connection->channel->node->name);
    if (events & UV_WRITABLE && connection->out) send_waiting(connection);
    bool is_read = !connection->rests && !connection->decoding;
    if (status < 0 && !is_read) give_up_sending(connection);
    bool has_new_bytes = is_read && (status < 0 || events & UV_READABLE);
    if (has_new_bytes && !must_wait(connection, true)) read_some(connection);
}

/* ---- the beginning ---- */

void connection_open(struct channel *channel, int fd) {
    struct connection *connection = new_or_abort(struct connection);
    uv_loop_t *loop = channel->node->host->loop;
    if (uv_poll_init_socket(loop, &connection->poll, fd) < 0) { /* the kernel watches no more for this user */
        stranger_close(fd);
        free(connection);
        return;
    }
    connection->channel = channel;
    connection->fd = fd;
    connection->turn.go = on_turn;
    connection->out_tail = &connection->out;
    connection->in.max = channel->frame_max_bytes + FRAME_HEADER_BYTES + 2 * sizeof channel->node->host->read_buffer;
    connection->next = channel->all;
    channel->all = connection;
    channel->strangers++;
    uv_timer_init(loop, &connection->timer);
    connection->poll.data = connection->timer.data = connection;
    hold(connection);
    hold(connection);
    uv_timer_start(&connection->timer, on_hello_deadline, HELLO_DEADLINE_MS, 0);
    watch(connection);
}
