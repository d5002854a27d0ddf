/* logs: what a sandbox printed and logged, searched and followed. */
#include "core/sandbox/logs.h"
#include "core/sandbox/sandbox.h"
#include "core/sandbox/tree.h"

#include <string.h>

/* As OTP orders them, the least first. */
static const char *const levels[] = {"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"};

static int level_rank(const char *name) {
    for (size_t i = 0; name && i < ARRAY_SIZE(levels); i++)
        if (strcmp(levels[i], name) == 0) return (int)i;
    return -1;
}

static const char *text_of(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

struct log_filter log_filter_of(const json_t *params, int64_t now_ms) {
    const json_t *newer = json_object_get(params, "since_ms");
    struct log_filter filter = {.level = level_rank(text_of(params, "level")),
                                .stream = text_of(params, "stream"),
                                .text = text_of(params, "grep")};
    if (json_is_integer(newer)) clock_rfc3339(now_ms - json_integer_value(newer), filter.since);
    return filter;
}

/* Times are texts of one form, so their order is that of the texts. */
bool log_matches(const struct log_filter *filter, const json_t *record) {
    const char *text = text_of(record, "text"), *time = text_of(record, "time");
    if (filter->level >= 0 && level_rank(text_of(record, "level")) < filter->level) return false;
    if (filter->stream && !string_equal(filter->stream, text_of(record, "stream"))) return false;
    if (filter->since[0] && (!time || strcmp(time, filter->since) < 0)) return false;
    return !filter->text || (text && strcasestr(text, filter->text));
}

static bool is_wanted(void *data, const struct caller *caller, const json_t *record) {
    (void)caller;
    return log_matches(data, record);
}

void engine_logs(struct engine *engine, struct request *request) {
    struct error error;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    json_t *tail = json_object_get(request->params, "tail");
    if (!sandbox) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    struct log_filter *wanted = new_or_abort(struct log_filter);
    *wanted = log_filter_of(request->params, clock_wall_ms());
    struct feed_filter filter = {.tail = json_is_integer(tail) ? (size_t)json_integer_value(tail) : SIZE_MAX,
                                 .may_see = is_wanted,
                                 .data = wanted,
                                 .release = free};
    feed_stream(engine, sandbox->log, request, &filter, json_is_true(json_object_get(request->params, "follow")));
}

/* The place of the first record of the tail. */
static uint64_t tail_place(const struct feed *log) {
    uint64_t place = feed_end_place(log);
    size_t bytes = 0;
    while (place > log->gone) {
        bytes += feed_record_text_bytes(feed_record_at(log, place - 1)) + 1;
        if (bytes > LOG_TAIL_BYTES) break;
        place--;
    }
    return place;
}

json_t *log_tail(const struct sandbox *sandbox) {
    CLEANUP(buf_free) struct buf tail = BUF_INIT;
    for (uint64_t place = tail_place(sandbox->log); place < feed_end_place(sandbox->log); place++) {
        const char *text = text_of(feed_record_at(sandbox->log, place), "text");
        if (!text || !text[0]) continue;
        buf_append_string(&tail, text);
        if (text[strlen(text) - 1] != '\n') buf_append_byte(&tail, '\n');
    }
    return json_stringn(buf_string(&tail), tail.size);
}

/* ---- taking them down ---- */

/* Text that is not UTF-8 takes as long as so many bytes of plain text for each of its own. */
enum { ESCAPED_COST = 8 };

/* A stranger's bytes as JSON text. What is not UTF-8 is escaped, and the node is charged for it. */
static json_t *text_json(const struct sandbox *sandbox, const char *bytes, size_t size) {
    CLEANUP(buf_free) struct buf escaped = BUF_INIT;
    json_t *value = json_stringn(bytes, size);
    if (value) return value;
    if (sandbox->node) node_charge(sandbox->node, size * ESCAPED_COST);
    escape_text(&escaped, bytes, size);
    return json_string(buf_string(&escaped));
}

static void add_place(const struct sandbox *sandbox, json_t *record, const struct log_place *place) {
    if (!place) return;
    if (place->pid.size > 0) json_object_set_new(record, "pid", text_json(sandbox, place->pid.bytes, place->pid.size));
    if (place->function.size > 0)
        json_object_set_new(record, "function", text_json(sandbox, place->function.bytes, place->function.size));
    if (place->line > 0) json_object_set_new(record, "line", json_integer((json_int_t)place->line));
}

void log_add(struct sandbox *sandbox, const char *stream, const char *level, const struct log_place *place,
             const char *bytes, size_t size) {
    do {
        size_t length = utf8_cut(bytes, size, LOG_RECORD_MAX_BYTES);
        json_t *record = json_pack("{s:s, s:s?, s:s, s:o}", "stream", stream, "level", level, "sandbox_id", sandbox->id,
                                   "text", text_json(sandbox, bytes, length));
        if (record) add_place(sandbox, record, place);
        if (record) feed_add(sandbox->log, record);
        bytes += length;
        size -= length;
    } while (size > 0);
}

/* ---- what the agent sends ---- */

static struct log_text text_at(const struct term *map, const char *key) {
    const struct term *value = term_map_get(map, key);
    if (!value || value->type != TERM_BINARY) return (struct log_text){0};
    const char *bytes = (const char *)value->binary.data;
    return (struct log_text){bytes, utf8_cut(bytes, value->binary.size, NODE_TEXT_MAX_BYTES)};
}

static uint64_t line_at(const struct term *map) {
    uint64_t line = 0;
    const struct term *value = term_map_get(map, "line");
    return value && term_to_uint64(value, &line) && line <= INT32_MAX ? line : 0;
}

/* A level that is none is the node's invention. */
void log_take_record(struct sandbox *sandbox, const struct term *term) {
    const struct term *text = term_map_get(term, "text"), *level = term_map_get(term, "level");
    struct log_place place = {
        .pid = text_at(term, "pid"), .function = text_at(term, "function"), .line = line_at(term)};
    if (!text || text->type != TERM_BINARY) return;
    int rank = level && level->type == TERM_ATOM ? level_rank(level->atom.text) : -1;
    log_add(sandbox, "log", rank < 0 ? "info" : levels[rank], &place, (const char *)text->binary.data,
            text->binary.size);
}

void log_take_output(struct sandbox *sandbox, const struct term *term) {
    if (term->type == TERM_BINARY)
        log_add(sandbox, "output", NULL, NULL, (const char *)term->binary.data, term->binary.size);
}
