/* Answers of many records, sent as they come. A reader that falls too far behind is cut off, so that the buffer stays
   bounded. */
#include "api/api_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum {
    START_MS = 100,           /* a failure that comes sooner is an ordinary answer with its own status */
    BLOCK_BYTES = 16 << 10,   /* of one chunk */
    COMPACT_BYTES = 64 << 10, /* sent bytes that are worth moving the rest for */
    MOVED_MAX_BYTES = 2 << 20,
    ROOM_BYTES = 64 << 10 /* with more unread, a reader is not sent more of what can wait */
};

/* ---- the timer: when to start, when to send an empty line ---- */

static void on_timer(uv_timer_t *timer);

static void arm_timer(struct api *api) {
    uint64_t next_ms = UINT64_MAX, now_ms = uv_now(api->loop);
    struct stream *stream;
    TAILQ_FOREACH(stream, &api->streams, link) {
        if (stream->deadline_ms < next_ms) next_ms = stream->deadline_ms;
    }
    if (next_ms == UINT64_MAX)
        uv_timer_stop(&api->stream_timer);
    else
        uv_timer_start(&api->stream_timer, on_timer, next_ms > now_ms ? next_ms - now_ms : 0, 0);
}

static void append_keepalive(struct stream *stream) {
    /* A reader who has not taken the last one needs no other. */
    if (stream->out.size > stream->sent) return;
    buf_append_string(&stream->out, stream->format == STREAM_SSE ? ":\n\n" : "\n");
}

static void on_timer(uv_timer_t *timer) {
    struct api *api = timer->data;
    uint64_t now_ms = uv_now(api->loop);
    struct stream *stream;
    TAILQ_FOREACH(stream, &api->streams, link) {
        if (stream->deadline_ms > now_ms) continue;
        if (stream->started) append_keepalive(stream);
        stream->started = true;
        stream->deadline_ms = now_ms + api->config.keepalive_interval_ms;
        exchange_wake(stream->exchange);
    }
    arm_timer(api);
}

/* ---- opening and closing ---- */

static enum stream_format format_for(struct MHD_Connection *mhd) {
    const char *accept = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    return accept && strstr(accept, "text/event-stream") ? STREAM_SSE : STREAM_NDJSON;
}

int stream_open(struct exchange *exchange, int peer_fd, struct error *reterr) {
    struct api *api = exchange->api;
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream) return error_set(reterr, E_NO_MEMORY, "no memory for a stream");
    stream->peer_fd = fcntl(peer_fd, F_DUPFD_CLOEXEC, 0);
    int result = stream->peer_fd < 0
                     ? error_errno(reterr, errno, "keeping the caller's socket")
                     : quotas_take(api->config.quotas, exchange->request.caller.uid, QUOTA_STREAMS, 1, reterr);
    if (result < 0) {
        fd_close(stream->peer_fd);
        free(stream);
        return result;
    }
    stream->exchange = exchange;
    stream->format = format_for(exchange->mhd);
    stream->deadline_ms = uv_now(api->loop) + START_MS;
    TAILQ_INIT(&stream->lines);
    TAILQ_INSERT_TAIL(&api->streams, stream, link);
    exchange->stream = stream;
    arm_timer(api);
    return 0;
}

static void free_out(struct stream *stream) {
    struct exchange *exchange = stream->exchange;
    answers_free(exchange->api, exchange->request.caller.uid, take_ptr(stream->out.data), stream->out.capacity);
    stream->out = (struct buf)BUF_INIT;
    stream->sent = stream->long_bytes = 0;
}

void stream_free(struct stream *stream) {
    if (!stream) return;
    struct api *api = stream->exchange->api;
    TAILQ_REMOVE(&api->streams, stream, link);
    quotas_give(api->config.quotas, stream->exchange->request.caller.uid, QUOTA_STREAMS, 1);
    if (TAILQ_EMPTY(&api->streams)) uv_timer_stop(&api->stream_timer);
    fd_close(stream->peer_fd);
    stream_lines_drop(stream);
    free_out(stream);
    free(stream);
}

/* ---- what the engine says ---- */

static json_t *problem_of(const struct stream *stream, const struct error *error, json_t *result) {
    return api_problem(error, json_string_value(json_object_get(stream->exchange->request.params, "id")), result);
}

static void compact(struct stream *stream) {
    size_t left = stream->out.size - stream->sent;
    if (left > 0 && (stream->sent < COMPACT_BYTES || stream->sent < left || left > MOVED_MAX_BYTES)) return;
    buf_consume(&stream->out, stream->sent);
    stream->sent = 0;
}

/* The reader learns why, after what it has not read yet; the engine learns that the reader is gone. */
static void cut_off(struct stream *stream) {
    struct error error;
    error_set(&error, E_LIMIT, "the reader is more than %zu bytes behind",
              stream->exchange->api->config.stream_buffer_max_bytes);
    json_t *problem = problem_of(stream, &error, NULL);
    stream_lines_drop(stream);
    stream_line_print(stream->format, "problem", problem, &stream->out);
    json_decref(problem);
    stream->cut_off = true;
    stream->ended = true;
    exchange_wake(stream->exchange);
    exchange_cancel(stream->exchange);
}

static bool is_open(const struct exchange *exchange) {
    return exchange->stream && !exchange->stream->ended && !exchange->completed && !exchange->gone;
}

static void note_item(struct stream *stream) {
    const struct api *api = stream->exchange->api;
    stream->started = true;
    stream->deadline_ms = uv_now(api->loop) + api->config.keepalive_interval_ms;
}

/* An item stands behind what was there before, or is taken off again because it is too much. */
static void item_appended(struct stream *stream, size_t before) {
    struct exchange *exchange = stream->exchange;
    size_t waiting = before - stream->sent;
    note_item(stream);
    bool too_much = waiting > 0 && stream->out.size - stream->sent > exchange->api->config.stream_buffer_max_bytes;
    if (!too_much && !stream->out.failed) {
        exchange_wake(exchange);
        return;
    }
    stream->out.size = before;
    stream->out.failed = false;
    cut_off(stream);
}

static size_t count_lines(const struct stream *stream) {
    size_t count = 0;
    const struct stream_line *line;
    TAILQ_FOREACH(line, &stream->lines, link) count++;
    return count;
}

static void put_item(struct stream *stream, json_t *item) {
    compact(stream);
    size_t before = stream->out.size;
    if (!stream_line_waits(stream, item)) {
        stream_line_print(stream->format, "item", item, &stream->out);
        json_decref(item);
        item_appended(stream, before);
        return;
    }
    note_item(stream);
    if (count_lines(stream) < STREAM_LINES_MAX) {
        stream_line_put(stream, "item", item);
        return;
    }
    stream_discard(stream, item);
    cut_off(stream);
}

void stream_item(struct request *request, json_t *item) {
    struct exchange *exchange = request->transport;
    if (is_open(exchange))
        put_item(exchange->stream, item);
    else if (exchange->stream)
        stream_discard(exchange->stream, item);
    else
        json_decref(item);
}

void stream_item_text(struct request *request, uint64_t seq, const char *text, size_t size) {
    struct exchange *exchange = request->transport;
    struct stream *stream = exchange->stream;
    if (!is_open(exchange)) return;
    if (stream_is_behind(stream)) { /* it has no room, and was not asked */
        put_item(stream, json_loadb(text, size, 0, NULL));
        return;
    }
    compact(stream);
    size_t before = stream->out.size;
    stream_line_head(stream->format, "item", seq, &stream->out);
    buf_append(&stream->out, text, size);
    stream_line_end(stream->format, &stream->out);
    item_appended(stream, before);
}

/* A reader that is gone is not waited for: whatever it was to get is dropped. */
bool stream_has_room(struct request *request) {
    const struct exchange *exchange = request->transport;
    size_t max = exchange->api->config.stream_buffer_max_bytes / 2;
    if (!is_open(exchange)) return true;
    return !stream_is_behind(exchange->stream) &&
           exchange->stream->out.size - exchange->stream->sent < (max < ROOM_BYTES ? max : ROOM_BYTES);
}

bool stream_finish(struct stream *stream, json_t *result, const struct error *error) {
    if (!stream->started && error) return false;
    stream->started = true;
    if (stream->ended || stream->exchange->gone || stream->exchange->completed) {
        stream_discard(stream, result);
    } else {
        compact(stream);
        stream_line_put(stream, error ? "problem" : "done", error ? problem_of(stream, error, result) : result);
        if (error) json_decref(result); /* the problem has it */
    }
    stream->ended = true;
    return true;
}

/* ---- what the reader gets ---- */

static ssize_t read_stream(void *data, uint64_t position, char *into, size_t max) {
    (void)position;
    struct stream *stream = data;
    if (stream->sent == stream->out.size) {
        if (stream->long_bytes > 0 && stream->printed.size == 0) free_out(stream);
        stream_line_advance(stream);
    }
    size_t waiting = stream->out.size - stream->sent;
    if (stream->exchange->gone || stream->out.failed) return MHD_CONTENT_READER_END_WITH_ERROR;
    if (waiting == 0 && stream->ended && !stream_is_behind(stream)) return MHD_CONTENT_READER_END_OF_STREAM;
    if (waiting == 0) {
        exchange_suspend(stream->exchange);
        return 0;
    }
    size_t size = waiting < max ? waiting : max;
    memcpy(into, stream->out.data + stream->sent, size);
    stream->sent += size;
    struct request *request = &stream->exchange->request;
    if (stream->exchange->running && request->more && stream_has_room(request)) request->more(request);
    return (ssize_t)size;
}

struct MHD_Response *stream_response(struct stream *stream) {
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, stream, NULL);
    if (!response) return NULL;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                            stream->format == STREAM_SSE ? "text/event-stream" : "application/x-ndjson");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    return response;
}
