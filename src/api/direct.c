/* Direct calls: connections that were upgraded from HTTP to frames (ops/direct.h). A call into a sandbox takes a tenth
   of a millisecond; HTTP's header, and the turns that its server takes for each request, took as long again. */
#include "api/api_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "ops/direct.h"

enum {
    READ_BYTES = 16384,
    SEND_BYTES = 128 << 10, /* of one answer in one turn: a reader that takes all there is could keep the loop */
    KEPT_BYTES = 65536,
};

struct direct {
    TAILQ_ENTRY(direct) link;
    struct api *api;
    struct MHD_UpgradeResponseHandle *upgrade; /* the socket is MHD's to close */
    struct connection *connection;
    uv_poll_t poll;
    struct buf in, out;
    size_t sent;       /* of out */
    uint64_t begun_ms; /* when the first bytes of a question came */
    char request_id[REQUEST_ID_BYTES];
    const struct op *op;
    struct intake intake;
    struct request request;
    struct outcome outcome; /* while it is being printed */
    struct loop_work work;
    struct loop_waiter turn; /* while it waits to be read, or to be sent more */
    size_t reserved_bytes;   /* for the question that is being received */
    bool in_work;            /* a thread reads the question or prints the answer */
    bool prints;             /* that is for an answer */
    bool running;            /* the engine has it */
    bool ends;               /* with the answer that is being sent */
    bool gone;               /* the caller has left, or is not worth listening to */
    bool moves;              /* to the caller's processor, after the answer */
    unsigned processor;
};

/* ---- the end ---- */

static void free_long(struct direct *direct, struct buf *buf) {
    answers_free(direct->api, direct->connection->caller.uid, take_ptr(buf->data), buf->capacity);
    *buf = (struct buf){.max = buf->max};
}

/* Memory for a large question or answer is not kept. */
static void empty(struct direct *direct, struct buf *buf) {
    if (buf->capacity > KEPT_BYTES || buf->failed)
        free_long(direct, buf);
    else
        buf_clear(buf);
}

static void on_closed(uv_handle_t *handle) {
    struct direct *direct = handle->data;
    struct api *api = direct->api;
    TAILQ_REMOVE(&api->directs, direct, link);
    loop_turns_remove(&api->turns, &direct->turn);
    free_long(direct, &direct->in);
    free_long(direct, &direct->out);
    MHD_upgrade_action(direct->upgrade, MHD_UPGRADE_ACTION_CLOSE);
    json_decref(direct->request.params);
    json_decref(direct->intake.params);
    free(direct);
    api_run_soon(api);
}

static void cancel(struct direct *direct) {
    if (direct->running && direct->request.cancel) direct->request.cancel(&direct->request);
}

/* The socket stays open while the engine may look at whose it is. */
static void leave(struct direct *direct) {
    if (direct->gone) return;
    direct->gone = true;
    uv_poll_stop(&direct->poll);
    connection_await_nothing(direct->connection);
    if (direct->running)
        cancel(direct);
    else if (!direct->in_work)
        uv_close((uv_handle_t *)&direct->poll, on_closed);
}

static void work_on(struct direct *direct, void (*run)(struct loop_work *work), void (*done)(struct loop_work *work)) {
    direct->in_work = true;
    direct->work = (struct loop_work){.run = run, .done = done};
    loop_work_submit(&direct->api->workers, api_principal(direct->api, direct->connection->caller.uid), &direct->work);
}

static struct direct *direct_of(struct loop_work *work) {
    return (struct direct *)((char *)work - offsetof(struct direct, work));
}

/* Whether it is still there to go on with, now that the thread is done. */
static bool end_work(struct direct *direct) {
    direct->in_work = false;
    if (direct->gone) uv_close((uv_handle_t *)&direct->poll, on_closed);
    return !direct->gone;
}

/* ---- answering ---- */

static void on_ready(uv_poll_t *poll, int status, int events);

static void move_to_caller(struct direct *direct) {
    struct api *api = direct->api;
    if (direct->moves) affinity_moved(&api->affinity, uv_now(api->loop), affinity_move_us(direct->processor));
    direct->moves = false;
}

static void await_question(struct direct *direct) {
    empty(direct, &direct->out);
    direct->sent = 0;
    move_to_caller(direct);
    connection_await_request(direct->api, direct->connection);
    if (direct->ends || direct->api->closing) leave(direct);
}

/* False: the caller is not there any more. */
static bool send_some(struct direct *direct) {
    size_t end = direct->sent + SEND_BYTES < direct->out.size ? direct->sent + SEND_BYTES : direct->out.size;
    while (direct->sent < end) {
        ssize_t sent = send(direct->connection->fd, direct->out.data + direct->sent, end - direct->sent,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return errno == EAGAIN;
        direct->sent += (size_t)sent;
    }
    return true;
}

/* The rest goes in later turns. */
static void flush(struct direct *direct) {
    if (!send_some(direct)) {
        leave(direct);
    } else if (direct->sent == direct->out.size) {
        await_question(direct);
    } else {
        connection_await_reader(direct->api, direct->connection);
        uv_poll_start(&direct->poll, UV_READABLE | UV_WRITABLE, on_ready);
    }
}

static const char *sandbox_of(const struct direct *direct) {
    const json_t *params = direct->request.params;
    const char *id = json_string_value(json_object_get(params, "id"));
    return id ? id : json_string_value(json_object_get(params, "sandbox_id"));
}

/* A question that was answered takes no memory. */
static void forget_question(struct direct *direct) {
    json_decref(direct->request.params);
    json_decref(take_ptr(direct->intake.params)); /* of a question that was refused */
    direct->request = (struct request){.params = NULL};
    direct->reserved_bytes = 0;
    direct->op = NULL;
}

static void note_end(const struct direct *direct, unsigned status) {
    record_write(direct->api, &(struct record){.op = direct->op,
                                               .sandbox_id = sandbox_of(direct),
                                               .status = status,
                                               .uid = direct->connection->caller.uid,
                                               .begun_ms = direct->begun_ms,
                                               .request_id = direct->request_id});
}

/* What is to be sent is in out; without memory for it there is nothing to say. */
static void send_answer(struct direct *direct, unsigned status) {
    note_end(direct, status);
    forget_question(direct);
    if (direct->out.failed || direct->out.size == 0)
        leave(direct);
    else
        flush(direct);
}

static void put_answer(struct direct *direct) {
    struct answer *answer = answer_print(&direct->outcome);
    if (answer) direct->outcome.status = answer->status; /* it may have been too long */
    if (answer) direct_put_answer(&direct->out, answer->status, answer->body, answer->size);
    answer_release(answer);
}

static void print(struct loop_work *work) {
    put_answer(direct_of(work));
}

static void answer_error(struct direct *direct, const struct error *error) {
    direct->outcome = outcome_of(NULL, error, sandbox_of(direct));
    put_answer(direct);
    send_answer(direct, direct->outcome.status);
}

static void on_printed(struct loop_work *work) {
    struct direct *direct = direct_of(work);
    struct error error;
    direct->prints = false;
    if (!end_work(direct)) return;
    if (answers_admit(direct->api, &direct->connection->caller, &error) == 0) {
        send_answer(direct, direct->outcome.status);
        return;
    }
    empty(direct, &direct->out);
    answer_error(direct, &error);
}

static void on_done(struct request *request, json_t *result, const struct error *error) {
    struct direct *direct = request->transport;
    direct->running = false;
    direct->outcome = outcome_of(result, error, sandbox_of(direct));
    json_decref(result);
    struct error too_many;
    bool is_heavy = outcome_is_heavy(&direct->outcome);
    if (is_heavy && answers_admit_value(direct->api, &direct->connection->caller, &too_many) == 0) {
        direct->prints = true;
        work_on(direct, print, on_printed); /* also when the caller has left: freeing it takes as long */
        return;
    }
    if (is_heavy) {
        answers_discard(direct->api, direct->connection->caller.uid, direct->outcome.value);
        direct->outcome = outcome_of(NULL, &too_many, sandbox_of(direct));
    }
    if (direct->gone) {
        json_decref(direct->outcome.value);
        uv_close((uv_handle_t *)&direct->poll, on_closed);
        return;
    }
    put_answer(direct);
    send_answer(direct, direct->outcome.status);
}

/* ---- asking ---- */

static void run(struct direct *direct) {
    struct api *api = direct->api;
    loop_note(api->loop, "request", direct->op->name);
    direct->running = true;
    direct->request = (struct request){.params = take_ptr(direct->intake.params),
                                       .caller = direct->connection->caller,
                                       .done = on_done,
                                       .transport = direct,
                                       .correlation_id = direct->request_id};
    bool is_checked = direct->intake.outcome == INTAKE_CHECKED;
    ops_run(api->engine, direct->op, &direct->request, is_checked ? NULL : &direct->intake.error);
}

static void note_processor(struct direct *direct, unsigned processor) {
    struct api *api = direct->api;
    uint64_t now_ms = uv_now(api->loop);
    bool is_back_to_back = back_to_back_note(&api->questions, direct, now_ms);
    if (!is_back_to_back) affinity_forget(&api->affinity); /* what one caller says is of no use for the next */
    if (!is_back_to_back || processor == DIRECT_PROCESSOR_UNKNOWN) return;
    direct->processor = processor;
    direct->moves = affinity_is_due(&api->affinity, processor == affinity_own(), now_ms);
}

static void end_intake(struct direct *direct) {
    struct error error;
    empty(direct, &direct->in);
    direct->reserved_bytes = 0;
    if (direct->api->closing) {
        error_set(&error, E_SHUTDOWN, "the service takes no more requests");
        answer_error(direct, &error);
    } else if (direct->intake.outcome == INTAKE_MALFORMED) {
        answer_error(direct, &direct->intake.error);
    } else {
        run(direct);
    }
}

static void take_in(struct loop_work *work) {
    intake_run(&direct_of(work)->intake);
}

static void on_taken_in(struct loop_work *work) {
    struct direct *direct = direct_of(work);
    if (end_work(direct)) end_intake(direct);
}

static void begin_intake(struct direct *direct, const struct direct_text *text) {
    direct->op = text->op;
    direct->intake = (struct intake){.op = text->op,
                                     .params = json_object(),
                                     .text = text->params,
                                     .size = text->size,
                                     .is_not = "the parameters are not"};
    connection_await_nothing(direct->connection);
    if (text->size > INTAKE_SHORT_BYTES) {
        work_on(direct, take_in, on_taken_in);
        return;
    }
    intake_run(&direct->intake);
    end_intake(direct);
}

static void take_question(struct direct *direct) {
    struct direct_text text;
    struct error error;
    int result = direct_split_question(direct->in.data, direct->in.size, &text, &error);
    input_request_id(NULL, direct->api->next_request_id++, direct->request_id);
    if (result == 0) {
        note_processor(direct, text.processor);
        begin_intake(direct, &text);
    } else if (result == -E_FORMAT) {
        leave(direct);
    } else {
        empty(direct, &direct->in);
        answer_error(direct, &error);
    }
}

/* What follows is the unread rest of a refused question. */
static void refuse_unread(struct direct *direct, const struct error *error) {
    buf_free(&direct->in);
    direct->ends = true;
    answer_error(direct, error);
}

static bool is_busy(const struct direct *direct) {
    return direct->running || direct->in_work || direct->out.size > 0;
}

/* How long the question may be: which operation it is for stands at its beginning. */
static size_t question_max(const struct direct *direct) {
    struct direct_text text;
    size_t max = direct->api->config.body_max_bytes;
    if (direct->in.size < DIRECT_HEAD_MAX_BYTES || direct_split_question(direct->in.data, direct->in.size, &text, NULL))
        return DIRECT_HEAD_MAX_BYTES + max;
    size_t own = ops_body_max(text.op);
    return DIRECT_HEAD_MAX_BYTES + (own < max ? own : max);
}

static int admit_question(struct direct *direct, size_t frame_size, struct error *reterr) {
    size_t max = question_max(direct);
    if (direct->in.failed || frame_size > max)
        return error_set(reterr, E_TOO_LARGE, "the question is longer than %zu bytes", max);
    if (frame_size <= direct->reserved_bytes) return 0;
    int result = bodies_reserve(direct->api, &direct->connection->caller, frame_size, reterr);
    if (result == 0) direct->reserved_bytes = frame_size;
    return result;
}

/* One question at a time: a client that sends more before the answer has come breaks the protocol. */
static void take_input(struct direct *direct) {
    struct error error;
    size_t frame_size = 0;
    bool is_whole = direct_is_whole(direct->in.data, direct->in.size, &frame_size);
    if (is_whole && frame_size < direct->in.size)
        leave(direct);
    else if (admit_question(direct, frame_size, &error) < 0)
        refuse_unread(direct, &error);
    else if (is_whole)
        take_question(direct);
    else
        connection_await_body(direct->api, direct->connection, direct->in.size);
}

static void begin_question(struct direct *direct) {
    direct->begun_ms = uv_now(direct->api->loop);
    connection_begin_body(direct->api, direct->connection);
}

static void read_some(struct direct *direct) {
    uint8_t bytes[READ_BYTES];
    ssize_t size = receive_bytes(direct->api, direct->connection->fd, bytes, sizeof bytes);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0 || is_busy(direct)) { /* what a thread reads stays as it is */
        leave(direct);
        return;
    }
    if (direct->in.size == 0) begin_question(direct);
    buf_append(&direct->in, bytes, (size_t)size);
    take_input(direct);
}

static void on_turn(struct loop_waiter *turn) {
    struct direct *direct = (struct direct *)((char *)turn - offsetof(struct direct, turn));
    if (direct->gone) return;
    if (direct->out.size > 0) {
        flush(direct);
        return;
    }
    uv_poll_start(&direct->poll, UV_READABLE, on_ready);
    read_some(direct);
}

/* The reader has room again. While the connection waits for its turn, only its end is of interest. */
static void flush_in_turn(struct direct *direct) {
    uv_poll_start(&direct->poll, UV_READABLE, on_ready);
    if (!api_must_wait(direct->api, direct->connection->caller.uid, &direct->turn)) flush(direct);
}

/* A connection that waits for its turn is not polled meanwhile. */
static void read_in_turn(struct direct *direct) {
    if (!is_busy(direct) && api_must_wait(direct->api, direct->connection->caller.uid, &direct->turn))
        uv_poll_stop(&direct->poll);
    else
        read_some(direct);
}

static void on_ready(uv_poll_t *poll, int status, int events) {
    struct direct *direct = poll->data;
    if (status < 0) {
        leave(direct);
        return;
    }
    if (events & UV_WRITABLE) flush_in_turn(direct);
    if (events & UV_READABLE && !direct->gone) read_in_turn(direct);
}

/* A question that has come is answered, if only with why not. */
static void close_soon(struct direct *direct) {
    cancel(direct);
    if (!direct->gone && !is_busy(direct)) read_some(direct);
    if (!is_busy(direct) && direct->in.size == 0) leave(direct);
}

static bool is_of(const struct direct *direct, const uid_t *principal) {
    return !principal || api_principal(direct->api, direct->connection->caller.uid) == *principal;
}

size_t direct_reserved_bytes(const struct api *api, const uid_t *principal) {
    size_t bytes = 0;
    const struct direct *direct;
    TAILQ_FOREACH(direct, &api->directs, link) {
        if (is_of(direct, principal)) bytes += direct->reserved_bytes;
    }
    return bytes;
}

size_t direct_prints(const struct api *api, const uid_t *principal) {
    size_t count = 0;
    const struct direct *direct;
    TAILQ_FOREACH(direct, &api->directs, link) {
        count += direct->prints && is_of(direct, principal);
    }
    return count;
}

size_t direct_answer_bytes(const struct api *api, const uid_t *principal) {
    size_t bytes = 0;
    const struct direct *direct;
    TAILQ_FOREACH(direct, &api->directs, link) {
        if (!direct->in_work && is_of(direct, principal)) bytes += direct->out.size;
    }
    return bytes;
}

void direct_close_all(struct api *api, bool is_late) {
    struct direct *direct = TAILQ_FIRST(&api->directs);
    while (direct) {
        struct direct *next = TAILQ_NEXT(direct, link);
        if (is_late)
            leave(direct);
        else if (!direct->gone)
            close_soon(direct);
        direct = next;
    }
}

/* ---- the beginning ---- */

static void begin(void *data, struct MHD_Connection *mhd, void *context, const char *bytes, size_t size, MHD_socket fd,
                  struct MHD_UpgradeResponseHandle *upgrade) {
    (void)context;
    struct api *api = data;
    struct direct *direct = calloc(1, sizeof *direct);
    if (!direct || uv_poll_init_socket(api->loop, &direct->poll, fd) < 0) {
        free(direct);
        MHD_upgrade_action(upgrade, MHD_UPGRADE_ACTION_CLOSE);
        api_run_soon(api);
        return;
    }
    direct->api = api;
    direct->upgrade = upgrade;
    direct->connection = connection_of(mhd);
    direct->poll.data = direct;
    direct->turn.go = on_turn;
    TAILQ_INSERT_TAIL(&api->directs, direct, link);
    uv_poll_start(&direct->poll, UV_READABLE, on_ready);
    await_question(direct);
    if (size == 0 || direct->gone) return;
    begin_question(direct);
    buf_append(&direct->in, bytes, size);
    take_input(direct);
}

struct MHD_Response *direct_response(struct api *api) {
    struct MHD_Response *response = MHD_create_response_for_upgrade(begin, api);
    if (response) MHD_add_response_header(response, MHD_HTTP_HEADER_UPGRADE, DIRECT_PROTOCOL);
    return response;
}
