/* Between the api's own files. */
#ifndef API_API_INTERNAL_H
#define API_API_INTERNAL_H

#include <microhttpd.h>
#include <sys/queue.h>

#include "api/api.h"
#include "api/cpu_affinity.h"
#include "api/intake.h"
#include "api/outcome.h"
#include "loop/loop.h"
#include "ops/run.h"

enum {
    WRITE_TIMEOUT_S = 60, /* for a reader who takes nothing of an answer */
    REQUEST_ID_BYTES = 65,
    IDEMPOTENCY_KEY_MAX_BYTES = 255,
    PAGE_LIMIT_MAX = 1000,
};

/* ---- answer.c: what goes back, as bytes; shared by reference, because a remembered answer may be sent again ---- */

struct answer {
    unsigned references;
    unsigned status;
    const char *content_type;
    char *body;
    size_t size;
    char allow[OPS_ALLOW_BYTES]; /* the Allow header of a 405, else "" */
    struct api *api;             /* of a long one, which is freed beside the loop; else NULL */
    uid_t uid;                   /* whose it is then */
};

struct answer *answer_reference(struct answer *answer);
struct answer *answer_release(struct answer *answer);
/* The value is taken over; NULL without memory, or for a NULL value. One that is too long becomes a problem. */
struct answer *answer_print(const struct outcome *outcome);
struct answer *answer_json(unsigned status, json_t *value);
/* What the engine said; the result is borrowed. */
struct outcome outcome_of(json_t *result, const struct error *error, const char *sandbox_id);
struct answer *answer_problem(const struct error *error, const char *sandbox_id, json_t *result);
struct answer *answer_overloaded(uint32_t connections_max);

/* Take "limit" and "cursor" out of the parameters. */
int page_take(json_t *params, struct page *ret, struct error *reterr);
/* {"items": […], "next": …} of the whole list, which is taken over. */
json_t *page_cut(json_t *list, const struct page *page);

/* ---- input.c: what a stranger sent, as parameters ---- */

/* For MHD: percent-decoding in place that leaves %00 and broken escapes as they are. */
size_t input_unescape(void *context, struct MHD_Connection *connection, char *text);
/* Put the query's, or an object's, members into params; E_INVALID for one that is there twice. */
int input_merge_query(struct MHD_Connection *connection, json_t *params, struct error *reterr);
int input_merge(json_t *members, json_t *params, struct error *reterr);
/* The caller's own id when it is fit for a header, else the fallback; without a connection too. */
void input_request_id(struct MHD_Connection *connection, uint64_t fallback, char ret[REQUEST_ID_BYTES]);
/* NULL in *ret: the caller gave none. */
int input_idempotency_key(struct MHD_Connection *connection, const char **ret, struct error *reterr);

/* ---- connection.c: who is there, and how long they may keep us waiting ---- */

struct connection {
    TAILQ_ENTRY(connection) link;
    int fd;
    struct caller caller;
    bool is_refused;       /* it is told why when it asks, and closed */
    struct error *refusal; /* its caller's quota; NULL: all connections are taken */
    /* By loop_attended_ms: time in which the loop did not listen makes no caller late. */
    uint64_t asked_at_ms; /* when the request at hand began to come */
    uint64_t deadline_ms; /* 0: it is our turn, or the answer is being sent */
};

TAILQ_HEAD(connection_list, connection);

void connection_notify(void *api, struct MHD_Connection *mhd, void **context, enum MHD_ConnectionNotificationCode code);
struct connection *connection_of(struct MHD_Connection *mhd); /* NULL: there was no memory for it */
struct answer *connection_refusal(const struct api *api, const struct connection *connection);
/* What may a caller take for the next part: the header, the body of which `received` has come, or nothing to wait for.
 */
void connection_await_request(struct api *api, struct connection *connection);
void connection_begin_body(struct api *api, struct connection *connection);
void connection_await_body(struct api *api, struct connection *connection, size_t received);
void connection_await_reader(struct api *api, struct connection *connection);
void connection_await_nothing(struct connection *connection);
void connection_close_ended(struct api *api); /* after MHD has run: it has closed its own descriptors of them */

/* The caller's uid, as the kernel tells it. (uid_t)-1: it does not tell. */
uid_t connection_uid(int fd);

/* ---- listener.c: new connections, their users by turns ---- */

struct listener {
    uv_poll_t poll;
    uv_idle_t turn;      /* while connections wait */
    uv_timer_t again;    /* while none can be accepted */
    struct fair waiting; /* accepted ones that the HTTP server has not been given yet; by principal */
};

int listener_open(struct api *api, struct error *reterr);
/* Nothing is accepted from now on, and what waits is closed. */
void listener_stop(struct api *api);
void listener_close(struct api *api); /* the socket, if it is still open */

/* ---- idempotency.c: answers to requests with an Idempotency-Key ---- */

struct exchange;
TAILQ_HEAD(exchange_list, exchange);

struct remembered {
    TAILQ_ENTRY(remembered) link;
    char *key;
    uid_t principal;
    bool is_bound; /* by quotas */
    uint8_t fingerprint[FINGERPRINT_BYTES];
    struct answer *answer; /* NULL: the first request is still running */
    uint64_t expires_ms;
    struct exchange_list waiters;
};

struct idempotency {
    struct map entries;
    TAILQ_HEAD(, remembered) oldest_first;
    size_t bytes;        /* of the answers */
    struct answer *note; /* in place of those that were too much to keep; NULL: there was none yet */
};

struct idempotency_user {
    uid_t uid;       /* whose keys they are */
    uid_t principal; /* whose share it is */
    bool is_bound;   /* by quotas: it has its share, see base/schedule/share.h */
};

void idempotency_init(struct idempotency *answered);
void idempotency_free(struct idempotency *answered);
int idempotency_fingerprint(const char *method, const char *path, const uint8_t *body, size_t size,
                            uint8_t ret[FINGERPRINT_BYTES], struct error *reterr);
/* *ret_new: the caller runs the request and calls idempotency_settle. Else the entry has an answer, or will have one.
   E_CONFLICT when the key was used for something else, E_LIMIT when there is no room for it. */
int idempotency_recall(struct idempotency *answered, const struct idempotency_user *user, const char *key,
                       const uint8_t fingerprint[FINGERPRINT_BYTES], uint64_t now_ms, struct remembered **ret,
                       bool *ret_new, struct error *reterr);
/* Keep the answer, or forget the entry when asking again may help. The waiters must have been served, and the entry is
   not the caller's any more. */
void idempotency_settle(struct idempotency *answered, struct remembered *entry, struct answer *answer);

/* ---- stream.c: answers that come in pieces ---- */

enum stream_format { STREAM_NDJSON, STREAM_SSE };

/* One that takes long to print, or that comes after such a one. */
struct stream_line {
    TAILQ_ENTRY(stream_line) link;
    const char *name; /* "item", "done", "problem" */
    json_t *value;
    struct buf text; /* printed */
};

struct stream {
    TAILQ_ENTRY(stream) link;
    struct exchange *exchange;
    enum stream_format format;
    struct buf out;
    size_t sent;                                 /* of out */
    struct stream_line *line;                    /* that a thread prints */
    TAILQ_HEAD(stream_lines, stream_line) lines; /* that wait for it */
    struct buf printed;                          /* a long line, which the reader gets after what is in out */
    size_t long_bytes;                           /* of long lines that the reader has not taken yet */
    bool started, ended, cut_off;
    uint64_t deadline_ms; /* when to start without an item, or to send an empty line */
    int peer_fd;          /* a duplicate for the engine, since the connection may close before it has answered */
};

TAILQ_HEAD(stream_list, stream);

int stream_open(struct exchange *exchange, int peer_fd, struct error *reterr);
void stream_free(struct stream *stream);
void stream_item(struct request *request, json_t *item);
void stream_item_text(struct request *request, uint64_t seq, const char *text, size_t size);
bool stream_has_room(struct request *request);
/* False: nothing was sent yet, so the failure can be an ordinary answer. Otherwise the result is taken over. */
bool stream_finish(struct stream *stream, json_t *result, const struct error *error);
struct MHD_Response *stream_response(struct stream *stream);

/* ---- stream_line.c: lines that take long to print ---- */

enum { STREAM_LINES_MAX = 64 };

/* One line {"name": value}; as an event, an item is a message with its number as id, the end is an event by name. */
void stream_line_head(enum stream_format format, const char *name, uint64_t seq, struct buf *to);
void stream_line_end(enum stream_format format, struct buf *to);
void stream_line_print(enum stream_format format, const char *name, const json_t *value, struct buf *to);
/* Whether a line must wait, for those before it or since it takes long itself. */
bool stream_line_waits(const struct stream *stream, const json_t *value);
bool stream_is_behind(const struct stream *stream);
/* The value is taken over. */
void stream_line_put(struct stream *stream, const char *name, json_t *value);
/* The reader has taken all of `out`: what was printed meanwhile is next. */
void stream_line_advance(struct stream *stream);
void stream_lines_drop(struct stream *stream);
/* Freed on a thread where it is much. */
void stream_discard(struct stream *stream, json_t *value);

/* ---- exchange.c: one request and its answer ---- */

struct exchange {
    TAILQ_ENTRY(exchange) link;
    TAILQ_ENTRY(exchange) waiter_link;
    struct api *api;
    struct MHD_Connection *mhd;
    struct connection *connection;
    char request_id[REQUEST_ID_BYTES];
    uint64_t header_ms;
    struct buf body;
    size_t body_max_bytes;
    size_t reserved_bytes; /* for the body, until it is read */
    size_t received;
    const struct op *op;
    struct error misrouted; /* why there is none */
    struct intake intake;
    struct request request;
    struct outcome outcome; /* while it is being printed */
    struct answer *answer;
    struct loop_work work;
    struct loop_waiter turn;  /* while it waits to be dispatched */
    const char *method, *url; /* of the request, the server's, while it waits */
    unsigned status;          /* of the response; 0 before there is one */
    bool is_upgrade;          /* to direct calls */
    struct stream *stream;
    struct remembered *remembered; /* set while this exchange is the one that runs the request */
    bool dispatched;
    bool in_work;   /* a thread reads its body, or prints its answer or a line of its stream */
    bool prints;    /* what it is in work for is an answer, or lines of its stream are to be printed */
    bool waiting;   /* for another exchange's answer to the same Idempotency-Key */
    bool running;   /* the engine has it */
    bool suspended; /* by us, so that MHD leaves the connection alone */
    bool gone;      /* the caller has left */
    bool completed; /* MHD has forgotten it */
};

enum MHD_Result exchange_handle(void *api, struct MHD_Connection *mhd, const char *url, const char *method,
                                const char *version, const char *upload, size_t *upload_size, void **context);
void exchange_completed(void *api, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode code);
struct exchange *exchange_of_work(struct loop_work *work);
/* On a thread; the exchange stays until it is done. */
void exchange_work(struct exchange *exchange, void (*run)(struct loop_work *work),
                   void (*done)(struct loop_work *work));
void exchange_suspend(struct exchange *exchange);
void exchange_wake(struct exchange *exchange);
void exchange_wake_or_free(struct exchange *exchange); /* once nothing but MHD may hold it */
void exchange_caller_left(struct exchange *exchange);
void exchange_cancel(struct exchange *exchange);
bool exchange_is_of(const struct exchange *exchange, const uid_t *principal); /* NULL: of any */
void exchange_free_body(struct exchange *exchange);                           /* beside the loop where it is long */

/* ---- record.c: what was asked, in the service's log ---- */

struct record {
    const struct op *op;    /* NULL: none was found */
    const char *sandbox_id; /* NULL: about none */
    unsigned status;        /* 0: there was no answer, and nothing is written */
    uid_t uid;
    uint64_t begun_ms;
    const char *request_id;
};

void record_write(const struct api *api, const struct record *record);
void record_passed_descriptor(const struct api *api, uid_t uid);

/* ---- receive.c: bytes of callers without their descriptors ---- */

/* As recv without waiting; what has descriptors along fails with ECONNRESET. */
ssize_t receive_bytes(struct api *api, int fd, void *data, size_t size);

/* ---- server_calls.c: system calls of the HTTP server's library, bounded for each run ---- */

enum { SERVER_USERS_COUNTED = 64 }; /* in a run; the calls of further users are bounded by the turn alone */

struct server_socket;

struct server_user {
    uid_t uid; /* a principal's */
    unsigned calls;
};

struct server {
    struct server_socket **sockets; /* by descriptor */
    size_t socket_count;
    struct fair waiting; /* sockets whose call was put off, by principal */
    unsigned calls;      /* of this run */
    struct server_user users[SERVER_USERS_COUNTED];
    size_t user_count;
};

void server_init(struct api *api);
bool server_is_behind(const struct api *api); /* it must run again: calls were put off */
void server_run_begin(struct api *api);       /* the server runs from now on, on this thread */
void server_run_end(void);
void server_connection_began(struct api *api, struct connection *connection);
void server_connection_ended(struct api *api, const struct connection *connection);
void server_free(struct api *api);

/* ---- dispatch.c: from a received request to the operation, or straight to an answer ---- */

/* Which operation it is, as soon as the header is there. */
void dispatch_route(struct exchange *exchange, const char *method, const char *path);
void dispatch(struct exchange *exchange, const char *method, const char *path);
void dispatch_fail(struct exchange *exchange, const struct error *error);

/* ---- answers.c: the memory of long answers ---- */

/* Whether the answers that wait to be read are not too many, for this caller and in all. E_DISCARDED, here and below:
   the operation has been carried out. */
int answers_admit(const struct api *api, const struct caller *caller, struct error *reterr);
/* Whether one more long answer may wait to be printed, for this caller and in all: its values take five times as much
   memory as their text. */
int answers_admit_value(const struct api *api, const struct caller *caller, struct error *reterr);
void answers_discard(struct api *api, uid_t uid, json_t *value);
/* Frees what has this size, on a thread where it is much. */
void answers_free(struct api *api, uid_t uid, void *data, size_t size);

/* ---- bodies.c: the memory of what is being received ---- */

/* Whether there is room for one more body, for this caller and in all. A short one always has some. */
int bodies_reserve(const struct api *api, const struct caller *caller, size_t size, struct error *reterr);

/* ---- direct.c: calls without HTTP ---- */

struct direct;
TAILQ_HEAD(direct_list, direct);

struct MHD_Response *direct_response(struct api *api);
/* Reserved for questions that are being received; of one principal, or of all. */
size_t direct_reserved_bytes(const struct api *api, const uid_t *principal);
/* How many print an answer; of one principal, or of all. */
size_t direct_prints(const struct api *api, const uid_t *principal);
/* The same of answers that are being sent. */
size_t direct_answer_bytes(const struct api *api, const uid_t *principal);
/* Connections without a running operation end at once, the others with their answer, or when it is late for that too.
 */
void direct_close_all(struct api *api, bool is_late);

/* ---- api.c: the loop and MHD ---- */

struct api {
    uv_loop_t *loop;
    struct engine *engine;
    struct api_config config;
    struct MHD_Daemon *daemon;
    struct listener listener;
    struct server server;
    uv_poll_t mhd_poll;
    uv_timer_t mhd_timer;
    int gone_epoll; /* holds the sockets of suspended connections, and reports only those whose caller has left */
    uv_poll_t gone_poll;
    uv_timer_t sweep_timer;
    uv_timer_t stream_timer;
    uv_timer_t close_timer;
    unsigned handles;
    bool is_careful; /* the kernel refuses no descriptors here: look before reading, close on another thread */
    struct connection_list connections;
    size_t served_count, refused_count; /* of the connections */
    struct buf ended_fds;               /* duplicates of those that MHD closes now */
    struct exchange_list exchanges;
    struct direct_list directs;
    struct stream_list streams;
    struct idempotency answered;
    struct loop_workers workers; /* for long bodies and answers */
    struct loop_turns turns;     /* of exchanges and direct connections, by principal */
    uv_idle_t mhd_idle;
    size_t freeing_count;      /* of what threads free */
    struct answer *openapi;    /* made when first asked for */
    struct answer *operations; /* likewise, all of them on one page */
    uint64_t next_request_id;
    struct back_to_back questions; /* direct ones */
    struct cpu_affinity affinity;
    bool resumed; /* a connection, and MHD has not run since */
    bool closing, stopped;
    uint64_t close_deadline_ms;
    void (*closed)(void *data);
    void *closed_data;
};

uid_t api_principal(const struct api *api, uid_t uid); /* whose turns and shares its are */
void api_run_soon(struct api *api);                    /* after a connection was resumed */
/* Whether the loop has worked long enough in this turn: then the caller waits for its own, in which go is called. */
bool api_must_wait(struct api *api, uid_t uid, struct loop_waiter *turn);
void api_watch_caller(struct api *api, struct exchange *exchange);
void api_unwatch_caller(struct api *api, struct exchange *exchange);
void api_maybe_stop(struct api *api); /* goes on with closing when no exchange is left */

#endif
