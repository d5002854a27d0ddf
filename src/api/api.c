/* The HTTP service's life: libmicrohttpd driven by the loop, callers that leave, opening and closing. MHD never gets a
   thread of its own. */
#include "api/api_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

enum {
    SPARE_CONNECTIONS = 64,          /* above the limit, so that there is one on which to say so */
    CONNECTION_MEMORY_BYTES = 16384, /* bounds the header; cleared for each request */
    GONE_EVENTS = 64,
    CLOSE_GRACE_MS = 2000, /* for readers to take their last answers */
    CLOSE_STEP_MS = 20,
};

void api_config_defaults(struct api_config *ret) {
    *ret = (struct api_config){
        .listen_fd = -1,
        .admin_uid = 0,
        .connections_max = 1024,
        .body_max_bytes = 4 << 20,
        .request_timeout_ms = 30000,
        .idle_timeout_ms = 60000,
        .keepalive_interval_ms = 15000,
        .stream_buffer_max_bytes = 1 << 20,
    };
}

/* ---- MHD on the loop ---- */

static void on_mhd_timer(uv_timer_t *timer);
static void on_mhd_turn(uv_idle_t *idle);

/* What is ready now waits for the next turn: a timer of no time would go off again in the same one, for as long as
   callers send. */
static void run_mhd(struct api *api) {
    if (api->stopped) return;
    MHD_UNSIGNED_LONG_LONG timeout_ms = 0;
    loop_note(api->loop, "http", NULL);
    api->resumed = false;
    server_run_begin(api);
    MHD_run(api->daemon);
    server_run_end();
    connection_close_ended(api);
    bool is_due = api->resumed || MHD_get_timeout(api->daemon, &timeout_ms) == MHD_YES;
    if (server_is_behind(api) || (is_due && (api->resumed || timeout_ms == 0)))
        uv_idle_start(&api->mhd_idle, on_mhd_turn);
    else
        uv_idle_stop(&api->mhd_idle);
    if (is_due && timeout_ms > 0)
        uv_timer_start(&api->mhd_timer, on_mhd_timer, timeout_ms, 0);
    else
        uv_timer_stop(&api->mhd_timer);
}

static void on_mhd_timer(uv_timer_t *timer) {
    run_mhd(timer->data);
}

static void on_mhd_turn(uv_idle_t *idle) {
    run_mhd(idle->data);
}

static void on_mhd_ready(uv_poll_t *poll, int status, int events) {
    (void)status, (void)events;
    run_mhd(poll->data);
}

/* Without threads of its own MHD does not wake the loop. */
void api_run_soon(struct api *api) {
    if (api->resumed) return;
    api->resumed = true;
    uv_idle_start(&api->mhd_idle, on_mhd_turn);
}

uid_t api_principal(const struct api *api, uid_t uid) {
    return quotas_principal(api->config.quotas, uid);
}

/* Root and the service's own user wait for no turn. */
bool api_must_wait(struct api *api, uid_t uid, struct loop_waiter *turn) {
    if (api->config.quotas && !quotas_is_bound(api->config.quotas, uid)) return false;
    return loop_turns_wait(&api->turns, api_principal(api, uid), turn);
}

/* ---- callers who leave while we work: MHD does not look at suspended connections ---- */

static void on_callers_left(uv_poll_t *poll, int status, int events) {
    (void)status, (void)events;
    struct api *api = poll->data;
    struct epoll_event left[GONE_EVENTS];
    int count = epoll_wait(api->gone_epoll, left, GONE_EVENTS, 0);
    for (int i = 0; i < count; i++) exchange_caller_left(left[i].data.ptr);
}

/* No events are asked for: a hang-up is reported always, and a caller who only has nothing more to say still listens.
 */
void api_watch_caller(struct api *api, struct exchange *exchange) {
    struct epoll_event event = {.events = 0, .data.ptr = exchange};
    epoll_ctl(api->gone_epoll, EPOLL_CTL_ADD, exchange->connection->fd, &event);
}

void api_unwatch_caller(struct api *api, struct exchange *exchange) {
    epoll_ctl(api->gone_epoll, EPOLL_CTL_DEL, exchange->connection->fd, NULL);
}

/* ---- closing ---- */

static void free_api(struct api *api) {
    fd_close(api->gone_epoll);
    listener_close(api);
    buf_free(&api->ended_fds);
    idempotency_free(&api->answered);
    server_free(api);
    answer_release(api->openapi);
    answer_release(api->operations);
    free(api);
}

static void part_closed(struct api *api) {
    if (--api->handles > 0) return;
    void (*closed)(void *data) = api->closed;
    void *data = api->closed_data;
    free_api(api);
    if (closed) closed(data);
}

static void on_handle_closed(uv_handle_t *handle) {
    part_closed(handle->data);
}

static void on_turns_closed(uv_handle_t *idle) {
    struct loop_turns *turns = idle->data;
    part_closed((struct api *)((char *)turns - offsetof(struct api, turns)));
}

static void on_workers_closed(void *data) {
    part_closed(data);
}

/* Those that were opened. */
static void close_handles(struct api *api) {
    uv_handle_t *handles[] = {
        (uv_handle_t *)&api->mhd_poll,       (uv_handle_t *)&api->gone_poll,     (uv_handle_t *)&api->mhd_timer,
        (uv_handle_t *)&api->sweep_timer,    (uv_handle_t *)&api->stream_timer,  (uv_handle_t *)&api->close_timer,
        (uv_handle_t *)&api->mhd_idle,       (uv_handle_t *)&api->listener.poll, (uv_handle_t *)&api->listener.turn,
        (uv_handle_t *)&api->listener.again,
    };
    api->handles = 1;
    for (size_t i = 0; i < ARRAY_SIZE(handles); i++) {
        if (handles[i]->type == UV_UNKNOWN_HANDLE) continue;
        api->handles++;
        uv_close(handles[i], on_handle_closed);
    }
    if (api->turns.loop) {
        api->handles++;
        loop_turns_close(&api->turns, on_turns_closed);
    }
    loop_workers_close(&api->workers, on_workers_closed, api);
}

static bool anything_suspended(const struct api *api) {
    const struct exchange *exchange;
    TAILQ_FOREACH(exchange, &api->exchanges, link) {
        if (exchange->running || exchange->in_work || exchange->suspended) return true;
    }
    return false;
}

static void stop(struct api *api) {
    uv_poll_stop(&api->mhd_poll); /* MHD closes its descriptor */
    MHD_stop_daemon(api->daemon);
    connection_close_ended(api);
    api->stopped = true;
    close_handles(api);
}

/* From the loop, never from inside MHD. */
static void on_close_timer(uv_timer_t *timer) {
    struct api *api = timer->data;
    if (api->stopped) return;
    bool late = uv_now(api->loop) >= api->close_deadline_ms;
    if (late) direct_close_all(api, true);
    if (api->freeing_count > 0) return;
    if (TAILQ_EMPTY(&api->exchanges) || (late && !anything_suspended(api) && TAILQ_EMPTY(&api->directs))) stop(api);
}

void api_maybe_stop(struct api *api) {
    if (api->closing && !api->stopped && TAILQ_EMPTY(&api->exchanges))
        uv_timer_start(&api->close_timer, on_close_timer, 0, CLOSE_STEP_MS);
}

void api_close(struct api *api, void (*closed)(void *data), void *data) {
    api->closed = closed;
    api->closed_data = data;
    api->closing = true;
    api->close_deadline_ms = uv_now(api->loop) + CLOSE_GRACE_MS;
    listener_stop(api);
    struct exchange *exchange = TAILQ_FIRST(&api->exchanges);
    while (exchange) {
        struct exchange *next = TAILQ_NEXT(exchange, link);
        exchange_cancel(exchange);
        exchange = next;
    }
    direct_close_all(api, false);
    uv_timer_start(&api->close_timer, on_close_timer, 0, CLOSE_STEP_MS);
}

/* ---- opening ---- */

static struct MHD_Daemon *start_daemon(struct api *api) {
    const struct api_config *config = &api->config;
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE | MHD_USE_TURBO, 0,
        NULL, NULL, exchange_handle, api, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)config->connections_max + SPARE_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)WRITE_TIMEOUT_S,
        MHD_OPTION_NOTIFY_COMPLETED, exchange_completed, api, MHD_OPTION_NOTIFY_CONNECTION, connection_notify, api,
        MHD_OPTION_UNESCAPE_CALLBACK, input_unescape, NULL, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
}

static int set_nonblocking(int fd, struct error *reterr) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return error_errno(reterr, errno, "preparing the API's socket");
    return 0;
}

static bool is_listening(int fd) {
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) == 0 && value;
}

static int open_parts(struct api *api, struct error *reterr) {
    int result = set_nonblocking(api->config.listen_fd, reterr);
    if (result < 0) return result;
    if (!is_listening(api->config.listen_fd)) return error_set(reterr, E_SYSTEM, "the API's socket does not listen");
    api->is_careful = !stranger_refuse_descriptors(api->config.listen_fd);
    api->gone_epoll = epoll_create1(EPOLL_CLOEXEC);
    if (api->gone_epoll < 0) return error_errno(reterr, errno, "watching for callers who leave");
    api->daemon = start_daemon(api);
    if (!api->daemon) return error_set(reterr, E_SYSTEM, "the HTTP server does not start");
    return 0;
}

static void start_timers(struct api *api) {
    uv_timer_t *timers[] = {&api->mhd_timer, &api->sweep_timer, &api->stream_timer, &api->close_timer};
    for (size_t i = 0; i < ARRAY_SIZE(timers); i++) {
        uv_timer_init(api->loop, timers[i]);
        timers[i]->data = api;
    }
    loop_turns_open(&api->turns, api->loop, "turns", LOOP_TURN_FULL_US);
    uv_idle_init(api->loop, &api->mhd_idle);
    api->mhd_idle.data = api;
}

static int poll_descriptor(struct api *api, uv_poll_t *poll, int fd, uv_poll_cb ready, struct error *reterr) {
    int status = uv_poll_init(api->loop, poll, fd);
    if (status < 0) return error_errno(reterr, -status, "putting the HTTP server on the loop");
    poll->data = api;
    uv_poll_start(poll, UV_READABLE, ready);
    return 0;
}

/* From here on the handles must close before the api is freed. */
static int start_polling(struct api *api, struct error *reterr) {
    int epoll_fd = MHD_get_daemon_info(api->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    int result = loop_workers_open(&api->workers, api->loop, reterr);
    if (result < 0) return result;
    start_timers(api);
    result = poll_descriptor(api, &api->mhd_poll, epoll_fd, on_mhd_ready, reterr);
    if (result == 0) result = poll_descriptor(api, &api->gone_poll, api->gone_epoll, on_callers_left, reterr);
    if (result == 0) result = listener_open(api, reterr);
    if (result < 0) close_handles(api);
    return result;
}

static void init(struct api *api, uv_loop_t *loop, struct engine *engine, const struct api_config *config) {
    *api = (struct api){.loop = loop, .engine = engine, .config = *config, .gone_epoll = -1};
    TAILQ_INIT(&api->connections);
    TAILQ_INIT(&api->exchanges);
    TAILQ_INIT(&api->directs);
    TAILQ_INIT(&api->streams);
    fair_init(&api->listener.waiting);
    server_init(api);
    idempotency_init(&api->answered);
    /* A random start, so that ids of two runs don't look alike in a log. */
    if (getrandom(&api->next_request_id, sizeof api->next_request_id, GRND_NONBLOCK) < 0) api->next_request_id = 0;
}

int api_open(uv_loop_t *loop, struct engine *engine, const struct api_config *config, struct api **ret,
             struct error *reterr) {
    struct api *api = malloc(sizeof *api);
    if (!api) return error_set(reterr, E_NO_MEMORY, "opening the API");
    init(api, loop, engine, config);
    int result = open_parts(api, reterr);
    if (result == 0) result = start_polling(api, reterr);
    if (result == 0) {
        *ret = api;
        return 0;
    }
    if (api->daemon) MHD_stop_daemon(api->daemon);
    if (api->handles == 0) free_api(api);
    return result;
}
