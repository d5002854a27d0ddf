/* Lines of streams. One that takes long to print is printed on a thread, and those after it wait for it: the loop
   serves other callers meanwhile. */
#include "api/api_internal.h"

#include <stdlib.h>
#include <string.h>

#include "term/term.h"

enum { LINE_MAX_BYTES = 32 << 20 }; /* as an answer */

/* ---- printing ---- */

void stream_line_head(enum stream_format format, const char *name, uint64_t seq, struct buf *to) {
    if (format == STREAM_NDJSON) {
        buf_printf(to, "{\"%s\":", name);
    } else {
        if (strcmp(name, "item") != 0) buf_printf(to, "event: %s\n", name);
        if (seq > 0) buf_printf(to, "id: %llu\n", (unsigned long long)seq);
        buf_append_string(to, "data: ");
    }
}

void stream_line_end(enum stream_format format, struct buf *to) {
    buf_append_string(to, format == STREAM_NDJSON ? "}\n" : "\n\n");
}

void stream_line_print(enum stream_format format, const char *name, const json_t *value, struct buf *to) {
    stream_line_head(format, name, (uint64_t)json_integer_value(json_object_get(value, "seq")), to);
    if (value)
        term_json_write(value, to);
    else
        buf_append_string(to, "null");
    stream_line_end(format, to);
}

/* ---- what waits ---- */

static bool is_heavy(const json_t *value) {
    return value && outcome_is_heavy(&(struct outcome){.value = (json_t *)(uintptr_t)value});
}

bool stream_is_behind(const struct stream *stream) {
    return stream->line || !TAILQ_EMPTY(&stream->lines) || stream->printed.size > 0;
}

bool stream_line_waits(const struct stream *stream, const json_t *value) {
    return stream_is_behind(stream) || is_heavy(value);
}

void stream_discard(struct stream *stream, json_t *value) {
    const struct exchange *exchange = stream->exchange;
    if (is_heavy(value))
        answers_discard(exchange->api, exchange->request.caller.uid, value);
    else
        json_decref(value);
}

static void note_prints(struct stream *stream) {
    stream->exchange->prints = stream->line || !TAILQ_EMPTY(&stream->lines);
}

static void free_text(struct stream *stream, struct buf *text) {
    const struct exchange *exchange = stream->exchange;
    answers_free(exchange->api, exchange->request.caller.uid, take_ptr(text->data), text->capacity);
    *text = (struct buf)BUF_INIT;
}

void stream_lines_drop(struct stream *stream) {
    struct stream_line *line;
    while ((line = TAILQ_FIRST(&stream->lines))) {
        TAILQ_REMOVE(&stream->lines, line, link);
        stream_discard(stream, line->value);
        free(line);
    }
    free_text(stream, &stream->printed);
    note_prints(stream);
}

/* ---- on a thread ---- */

static void print(struct loop_work *work) {
    const struct stream *stream = exchange_of_work(work)->stream;
    struct stream_line *line = stream->line;
    line->text.max = LINE_MAX_BYTES;
    stream_line_print(stream->format, line->name, line->value, &line->text);
    line->text.max = 0;
    json_decref(take_ptr(line->value));
}

/* ---- on the loop ---- */

/* In the place of a line that can't be sent. What goes on, goes on without the item. */
static json_t *instead_of(const struct stream *stream, const char **name, const struct error *error) {
    const json_t *params = stream->exchange->request.params;
    if (strcmp(*name, "item") == 0) return json_pack("{s:i}", "skipped", 1);
    *name = "problem";
    return api_problem(error, json_string_value(json_object_get(params, "id")), NULL);
}

static void print_here(struct stream *stream, const char *name, json_t *value) {
    stream_line_print(stream->format, name, value, &stream->out);
    json_decref(value);
}

/* Its bytes count among those that are held. */
static void take_printed(struct stream *stream, struct stream_line *line) {
    const struct exchange *exchange = stream->exchange;
    struct error error;
    bool is_too_long = line->text.failed;
    stream->long_bytes += line->text.size;
    if (is_too_long) error_set(&error, E_TOO_LARGE, "the answer is longer than %d bytes", LINE_MAX_BYTES);
    if (!is_too_long && answers_admit(exchange->api, &exchange->request.caller, &error) == 0) {
        stream->printed = line->text;
        return;
    }
    stream->long_bytes -= line->text.size;
    free_text(stream, &line->text);
    json_t *value = instead_of(stream, &line->name, &error);
    print_here(stream, line->name, value);
}

static void on_printed(struct loop_work *work) {
    struct exchange *exchange = exchange_of_work(work);
    struct stream *stream = exchange->stream;
    struct stream_line *line = take_ptr(stream->line);
    exchange->in_work = false;
    if (exchange->gone || exchange->completed || stream->cut_off) {
        free_text(stream, &line->text);
        stream_lines_drop(stream);
    } else {
        take_printed(stream, line);
    }
    free(line);
    note_prints(stream);
    if (stream->sent == stream->out.size) stream_line_advance(stream);
    if (!exchange->completed || !exchange->running) exchange_wake_or_free(exchange);
}

/* The first that waits; false: the others go on waiting. */
static bool send_next(struct stream *stream) {
    struct stream_line *line = TAILQ_FIRST(&stream->lines);
    TAILQ_REMOVE(&stream->lines, line, link);
    if (is_heavy(line->value)) {
        stream->line = line;
        exchange_work(stream->exchange, print, on_printed);
        return false;
    }
    print_here(stream, line->name, line->value);
    free(line);
    return true;
}

static void send_waiting(struct stream *stream) {
    while (!stream->line && stream->printed.size == 0 && !TAILQ_EMPTY(&stream->lines) && send_next(stream)) continue;
    note_prints(stream);
}

void stream_line_advance(struct stream *stream) {
    if (stream->printed.size > 0) {
        free_text(stream, &stream->out);
        stream->out = stream->printed;
        stream->printed = (struct buf)BUF_INIT;
        stream->sent = 0;
        stream->long_bytes = stream->out.size;
    }
    send_waiting(stream);
}

void stream_line_put(struct stream *stream, const char *name, json_t *value) {
    const struct exchange *exchange = stream->exchange;
    struct error error;
    bool is_refused = is_heavy(value) && answers_admit_value(exchange->api, &exchange->request.caller, &error) < 0;
    struct stream_line *line = new_or_abort(struct stream_line);
    if (is_refused) {
        stream_discard(stream, value);
        value = instead_of(stream, &name, &error);
    }
    *line = (struct stream_line){.name = name, .value = value};
    TAILQ_INSERT_TAIL(&stream->lines, line, link);
    send_waiting(stream);
}
