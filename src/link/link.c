/* The connection to the launcher: dialled again when it breaks; each request is answered once, in time or with an
   error. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "link/link_internal.h"

enum {
    REDIAL_FIRST_MS = 20,
    REDIAL_LAST_MS = 1000,
    QUEUE_BYTES_MAX = 16 << 20, /* of messages that wait for room in the socket */
    RECEIVE_BURST = 64,         /* messages taken before other handles get their turn */
    ANSWER_TIMEOUT_MS = 30000,  /* the launcher's own deadlines are shorter: later means that it hangs */
    HELLO_ID = 0,
};

enum link_state {
    LINK_DOWN,
    LINK_GREETING, /* hello is sent */
    LINK_LISTING,  /* it is answered; nodes are told until "ready" */
    LINK_UP,
};

/* A message that waits for room in the socket. */
struct outgoing {
    struct outgoing *next;
    int fd; /* ours; -1: none */
    size_t size;
    char text[];
};

/* One per dial: a poll handle can't be used again before its close is done. */
struct connection {
    uv_poll_t poll;
    struct launcher_link *link;
    int fd;
};

struct calls {
    struct link_call *first;
    struct link_call **end;
};

struct launcher_link {
    uv_loop_t *loop;
    struct sockaddr_un address;
    char home[PATH_MAX];
    struct link_stream *streams; /* projects whose files are coming */
    struct link_handler handler;
    void *data;
    enum link_state state;
    struct connection *connection; /* NULL when down */
    struct jail_features features;
    uint64_t last_id;
    struct link_turns turns;
    struct calls asked;  /* sent or queued, in that order */
    struct calls failed; /* wait to be told, so that no caller is called back from inside its request */
    struct outgoing *queue;
    struct outgoing **queue_end;
    size_t queue_bytes;
    uv_timer_t redial_timer;
    unsigned failures; /* to reach the launcher, in a row */
    uv_timer_t failed_timer;
    uv_timer_t answer_timer; /* runs while a call waits for an answer */
    uint64_t answer_timeout_ms;
    unsigned open_handles;
    bool is_closing;
    void (*closed)(void *data);
    void *closed_data;
    char message[JAIL_MESSAGE_BYTES + 1];
};

static void receive(uv_poll_t *poll, int status, int events);
static void on_answer_timer(uv_timer_t *timer);

/* ---- calls ---- */

static void calls_init(struct calls *calls) {
    calls->first = NULL;
    calls->end = &calls->first;
}

static void calls_append(struct calls *calls, struct link_call *call) {
    call->next = NULL;
    *calls->end = call;
    calls->end = &call->next;
}

static struct link_call *calls_take(struct calls *calls, uint64_t id) {
    for (struct link_call **at = &calls->first; *at; at = &(*at)->next)
        if ((*at)->id == id) {
            struct link_call *call = *at;
            *at = call->next;
            if (!*at) calls->end = at;
            return call;
        }
    return NULL;
}

static void fail_call(struct launcher_link *link, struct link_call *call, enum error_code code, const char *detail) {
    error_set(&call->error, code, "%s", detail);
    calls_append(&link->failed, call);
}

/* Tell those that have failed so far; calls that are made meanwhile are told the next time. */
static void tell_failed(struct launcher_link *link) {
    struct link_call *next = link->failed.first;
    calls_init(&link->failed);
    while (next) {
        CLEANUP_FREE struct link_call *call = next;
        next = call->next;
        call->deliver(call, NULL, &call->error);
    }
}

static void on_failed_timer(uv_timer_t *timer) {
    tell_failed(timer->data);
}

static void tell_failed_later(struct launcher_link *link) {
    if (!link->is_closing) uv_timer_start(&link->failed_timer, on_failed_timer, 0, 0);
}

/* ---- closing ---- */

static void on_handle_closed(struct launcher_link *link) {
    if (--link->open_handles > 0) return;
    while (link->failed.first) tell_failed(link);
    if (link->closed) link->closed(link->closed_data);
    map_free(&link->turns.owners);
    free(link);
}

struct link_turns *link_turns(struct launcher_link *link) {
    return &link->turns;
}

void link_use_principals(struct launcher_link *link, const struct principals *principals) {
    link->turns.principals = principals;
}

void link_set_owner(struct launcher_link *link, const char *node, uid_t owner) {
    link_turns_set_owner(&link->turns, node, owner);
}

uv_loop_t *link_loop(struct launcher_link *link) {
    return link->loop;
}

const char *link_home(const struct launcher_link *link) {
    return link->home;
}

struct link_stream **link_streams(struct launcher_link *link) {
    return &link->streams;
}

void link_hold(struct launcher_link *link) {
    link->open_handles++;
}

void link_let_go(struct launcher_link *link) {
    on_handle_closed(link);
}

static void on_timer_closed(uv_handle_t *handle) {
    on_handle_closed(handle->data);
}

static void on_connection_closed(uv_handle_t *handle) {
    CLEANUP_FREE struct connection *connection = handle->data;
    on_handle_closed(connection->link);
}

static void outgoing_free(struct outgoing *outgoing) {
    fd_close(outgoing->fd);
    free(outgoing);
}

struct failing {
    struct launcher_link *link;
    const char *reason;
};

static void fail_waiting(void *data, struct link_call *call) {
    const struct failing *failing = data;
    fail_call(failing->link, call, E_LAUNCHER, failing->reason);
}

static void disconnect(struct launcher_link *link, const char *reason) {
    struct connection *connection = link->connection;
    link->state = LINK_DOWN;
    link->connection = NULL;
    if (connection) {
        uv_close((uv_handle_t *)&connection->poll, on_connection_closed);
        connection->fd = fd_close(connection->fd);
    }
    for (struct outgoing *next; link->queue; link->queue = next) {
        next = link->queue->next;
        outgoing_free(link->queue);
    }
    link->queue_end = &link->queue;
    link->queue_bytes = 0;
    for (struct link_call *call; (call = link->asked.first);) {
        calls_take(&link->asked, call->id);
        fail_call(link, call, E_LAUNCHER, reason);
    }
    link_turns_fail(&link->turns, fail_waiting, &(struct failing){link, reason});
    struct error error;
    error_set(&error, E_LAUNCHER, "%s", reason);
    link_streams_fail(link, &error);
    if (!link->is_closing) uv_timer_stop(&link->answer_timer);
    tell_failed_later(link);
}

static void dial(uv_timer_t *timer);

static void redial_later(struct launcher_link *link) {
    uv_timer_start(&link->redial_timer, dial, backoff_ms(REDIAL_FIRST_MS, REDIAL_LAST_MS, link->failures++), 0);
}

/* Only from the loop, never from inside a request. */
static void drop_because(struct launcher_link *link, const char *reason) {
    bool was_up = link->state == LINK_UP;
    disconnect(link, reason);
    redial_later(link);
    if (was_up) link->handler.down(link->data);
}

static void drop(struct launcher_link *link) {
    drop_because(link, "the link to the launcher broke");
}

/* ---- sending ---- */

static ssize_t send_packet(int socket_fd, const char *text, size_t size, int fd) {
    return fd_send(socket_fd, text, size, &fd, fd >= 0, MSG_DONTWAIT);
}

static void watch(struct launcher_link *link) {
    int events = UV_READABLE | (link->queue ? UV_WRITABLE : 0);
    uv_poll_start(&link->connection->poll, events, receive);
}

/* A connection that can't be written to ends where it is read. */
static void hang_up(struct launcher_link *link) {
    shutdown(link->connection->fd, SHUT_RDWR);
}

static void flush_queue(struct launcher_link *link) {
    while (link->queue) {
        struct outgoing *first = link->queue;
        if (send_packet(link->connection->fd, first->text, first->size, first->fd) < 0) {
            if (errno != EAGAIN) hang_up(link);
            return;
        }
        link->queue = first->next;
        if (!link->queue) link->queue_end = &link->queue;
        link->queue_bytes -= first->size;
        outgoing_free(first);
    }
    watch(link);
}

static bool enqueue(struct launcher_link *link, const struct buf *text, int fd) {
    if (text->size > QUEUE_BYTES_MAX - link->queue_bytes) return false;
    struct outgoing *outgoing = malloc(sizeof *outgoing + text->size);
    int own_fd = outgoing && fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (!outgoing || (fd >= 0 && own_fd < 0)) {
        free(outgoing);
        return false;
    }
    *outgoing = (struct outgoing){.fd = own_fd, .size = text->size};
    memcpy(outgoing->text, text->data, text->size);
    *link->queue_end = outgoing;
    link->queue_end = &outgoing->next;
    link->queue_bytes += text->size;
    watch(link);
    return true;
}

/* False when there is no room for it. */
static bool send_or_queue(struct launcher_link *link, const struct buf *text, int fd) {
    if (link->queue) return enqueue(link, text, fd);
    if (send_packet(link->connection->fd, (const char *)text->data, text->size, fd) >= 0) return true;
    if (errno == EAGAIN) return enqueue(link, text, fd);
    hang_up(link);
    return true; /* it fails with all the others */
}

/* All wait equally long, so that the first in line is the first to be overdue. */
static void await_first(struct launcher_link *link) {
    uint64_t now_ms = uv_now(link->loop), due_ms = link->asked.first->due_ms;
    uv_timer_start(&link->answer_timer, on_answer_timer, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

static void await_answer(struct launcher_link *link, struct link_call *call) {
    call->due_ms = uv_now(link->loop) + link->answer_timeout_ms;
    link_turns_sent(&link->turns, call);
    calls_append(&link->asked, call);
    if (!uv_is_active((uv_handle_t *)&link->answer_timer)) await_first(link);
}

static void ask(struct launcher_link *link, struct link_call *call, const struct buf *text, int fd) {
    /* While it is told of nodes a daemon may ask already: to bury nodes without a sandbox. */
    if (link->state != LINK_UP && link->state != LINK_LISTING)
        fail_call(link, call, E_LAUNCHER, "there is no link to the launcher");
    else if (text->failed)
        fail_call(link, call, E_NO_MEMORY, "no memory for a message to the launcher");
    else if (text->size > JAIL_MESSAGE_BYTES)
        fail_call(link, call, E_TOO_LARGE, "the message is too long for the launcher");
    else if (!send_or_queue(link, text, fd))
        fail_call(link, call, E_LIMIT, "too many messages wait for the launcher");
    else
        await_answer(link, call);
    if (link->failed.first) tell_failed_later(link);
}

static void send_waiting(void *data, struct link_call *call, const struct buf *message, int fd) {
    ask(data, call, message, fd);
}

static void ask_in_turn(struct launcher_link *link, struct link_call *call, struct buf *message, int fd) {
    if (message->failed || !link_turns_must_wait(&link->turns, call)) {
        ask(link, call, message, fd);
    } else if (!link_turns_add(&link->turns, call, message, fd)) {
        fail_call(link, call, E_NO_MEMORY, "no memory for a call of the launcher");
        tell_failed_later(link);
    }
}

void link_ask(struct launcher_link *link, const struct link_call *call, const char *verb, const struct buf *text,
              int fd) {
    CLEANUP(buf_free) struct buf message = BUF_INIT;
    struct link_call *own = malloc(sizeof *own);
    if (!own) { /* nothing to remember it in: the one answer that comes at once */
        call->deliver(call, NULL, &(struct error){E_NO_MEMORY, "no memory for a call of the launcher"});
        return;
    }
    *own = *call;
    own->link = link;
    own->id = ++link->last_id;
    buf_printf(&message, "%s %llu", verb, (unsigned long long)own->id);
    buf_append(&message, text->data, text->size);
    message.failed = message.failed || text->failed;
    ask_in_turn(link, own, &message, fd);
}

/* ---- receiving ---- */

/* The size of the packet; 0 at the end or for one that is no text of ours; negative when there is none. */
static ssize_t receive_packet(struct launcher_link *link, struct link_answer *ret) {
    ssize_t size =
        fd_receive(link->connection->fd, link->message, JAIL_MESSAGE_BYTES, ret->fds, LINK_FDS_MAX, MSG_DONTWAIT);
    if (size < 0) return errno == EAGAIN || errno == EINTR ? -1 : 0;
    link->message[size] = '\0';
    return strlen(link->message) == (size_t)size ? size : 0;
}

static bool finish_call(struct launcher_link *link, struct link_answer *answer, bool failed) {
    const struct wire_message *message = answer->message;
    uint64_t id;
    if (!message->count || !parse_u64(message->words[0], &id)) return false;
    CLEANUP_FREE struct link_call *call = calls_take(&link->asked, id);
    if (!call) return false;
    link_turns_ended(&link->turns, call->user, send_waiting, link);
    if (!failed) return call->deliver(call, answer, NULL);
    const char *slug = wire_message_word(message, 1), *detail = wire_message_word(message, 2);
    enum error_code code = slug ? error_code_from_slug(slug) : E_NONE;
    struct error error;
    error_set(&error, code == E_NONE ? E_LAUNCHER : code, "%s", detail ? detail : "the launcher gave no reason");
    call->deliver(call, answer, &error);
    return true;
}

static bool finish_greeting(struct launcher_link *link, const struct wire_message *message) {
    uint64_t id;
    if (!message->count || !parse_u64(message->words[0], &id) || id != HELLO_ID) return false;
    if (!link_read_features(message, &link->features)) return false;
    link->state = LINK_LISTING;
    return true;
}

static bool finish_listing(struct launcher_link *link) {
    link->state = LINK_UP;
    link->failures = 0;
    link->handler.up(link->data, &link->features);
    return true;
}

/* False when this is no message for this moment. */
static bool handle(struct launcher_link *link, struct link_answer *answer) {
    const char *verb = answer->message->verb;
    if (link->state == LINK_GREETING) return strcmp(verb, "ok") == 0 && finish_greeting(link, answer->message);
    if (strcmp(verb, "ok") == 0) return finish_call(link, answer, false);
    if (strcmp(verb, "error") == 0) return finish_call(link, answer, true);
    if (strcmp(verb, "ready") == 0) return link->state == LINK_LISTING && finish_listing(link);
    return link_tell(&link->handler, link->data, answer);
}

/* Whether to go on with the next packet. */
static bool receive_one(struct launcher_link *link) {
    struct wire_message message;
    struct link_answer answer = {.message = &message, .fds = {-1, -1, -1, -1}};
    ssize_t size = receive_packet(link, &answer);
    if (size < 0) return false;
    bool is_good = size > 0 && wire_message_parse(link->message, &message, NULL) == 0 && handle(link, &answer);
    for (size_t i = 0; i < LINK_FDS_MAX; i++) fd_close(answer.fds[i]);
    /* The callback may have closed the link. */
    if (!is_good && link->connection) drop(link);
    return link->connection;
}

static void receive(uv_poll_t *poll, int status, int events) {
    struct connection *connection = poll->data;
    struct launcher_link *link = connection->link;
    if (status < 0) {
        drop(link);
        return;
    }
    if (events & UV_WRITABLE) flush_queue(link);
    if (!(events & UV_READABLE)) return;
    for (int i = 0; i < RECEIVE_BURST && receive_one(link); i++) {
    }
}

/* A launcher that is stopped or stuck. The daemon must see its requests fail to do something about it. */
static void on_answer_timer(uv_timer_t *timer) {
    struct launcher_link *link = timer->data;
    /* We may have been held up ourselves: what has come already has come in time. */
    for (int i = 0; i < RECEIVE_BURST && link->connection && receive_one(link); i++) {
    }
    if (!link->connection || !link->asked.first) return;
    if (link->asked.first->due_ms <= uv_now(link->loop))
        drop_because(link, "the launcher did not answer in time");
    else
        await_first(link);
}

void link_expect_answers_within(struct launcher_link *link, uint64_t timeout_ms) {
    link->answer_timeout_ms = timeout_ms;
}

/* ---- dialling ---- */

static struct connection *connect_to(const struct sockaddr_un *address, uv_loop_t *loop) {
    CLEANUP_FREE struct connection *connection = calloc(1, sizeof *connection);
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (!connection || fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address) < 0) return NULL;
    if (uv_poll_init(loop, &connection->poll, fd) < 0) return NULL;
    connection->poll.data = connection;
    connection->fd = take_fd(&fd);
    return take_ptr(connection);
}

static void dial(uv_timer_t *timer) {
    struct launcher_link *link = timer->data;
    char hello[32];
    snprintf(hello, sizeof hello, "hello 0 version=%d", JAIL_PROTOCOL_VERSION);
    struct connection *connection = connect_to(&link->address, link->loop);
    if (!connection) {
        redial_later(link);
        return;
    }
    connection->link = link;
    link->connection = connection;
    link->open_handles++;
    link->state = LINK_GREETING;
    watch(link);
    if (send_packet(connection->fd, hello, strlen(hello), -1) < 0) hang_up(link);
}

static void timer_open(struct launcher_link *link, uv_timer_t *timer) {
    uv_timer_init(link->loop, timer);
    timer->data = link;
    link->open_handles++;
}

int link_open(uv_loop_t *loop, const char *home, const struct link_handler *handler, void *data,
              struct launcher_link **ret, struct error *reterr) {
    struct launcher_link *link = calloc(1, sizeof *link);
    if (!link) return error_set(reterr, E_NO_MEMORY, "no memory for the launcher's link");
    link->loop = loop, link->handler = *handler, link->data = data;
    link->address.sun_family = AF_UNIX;
    int failed = string_format(link->address.sun_path, sizeof link->address.sun_path, reterr, "%s/launcher.sock", home);
    if (!failed) failed = string_format(link->home, sizeof link->home, reterr, "%s", home);
    if (failed) {
        free(link);
        return failed;
    }
    calls_init(&link->asked);
    calls_init(&link->failed);
    link->queue_end = &link->queue;
    timer_open(link, &link->redial_timer);
    timer_open(link, &link->failed_timer);
    timer_open(link, &link->answer_timer);
    link->answer_timeout_ms = ANSWER_TIMEOUT_MS;
    uv_timer_start(&link->redial_timer, dial, 0, 0);
    *ret = link;
    return 0;
}

void link_close(struct launcher_link *link, void (*closed)(void *data), void *data) {
    if (link->is_closing) return;
    link->is_closing = true;
    link->closed = closed, link->closed_data = data;
    disconnect(link, "the link to the launcher was closed");
    uv_close((uv_handle_t *)&link->redial_timer, on_timer_closed);
    uv_close((uv_handle_t *)&link->failed_timer, on_timer_closed);
    uv_close((uv_handle_t *)&link->answer_timer, on_timer_closed);
}

bool link_is_up(const struct launcher_link *link) {
    return link->state == LINK_UP;
}
