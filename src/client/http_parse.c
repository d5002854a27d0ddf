/* Parses an HTTP/1.1 response as its bytes come, in pieces of any size. Pure: no socket is read here. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "client/http.h"

void http_parser_init(struct http_parser *parser, http_body_fn *body, void *data) {
    *parser = (struct http_parser){.body = body, .data = data, .line = {.max = HTTP_LINE_MAX_BYTES + 1}};
}

void http_parser_free(struct http_parser *parser) {
    buf_free(&parser->line);
}

/* ---- lines ---- */

static int parse_status_line(struct http_parser *parser, const char *line, struct error *reterr) {
    bool version_1 = string_starts(line, "HTTP/1.0 ") || string_starts(line, "HTTP/1.1 ");
    if (!version_1 || strlen(line) < 12 || strspn(line + 9, "0123456789") != 3)
        return error_set(reterr, E_FORMAT, "the answer does not begin as HTTP/1.1 does");
    parser->status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
    if (parser->status < 100) return error_set(reterr, E_FORMAT, "%d is not a status of HTTP", parser->status);
    parser->keep_alive = line[7] == '1';
    parser->state = HTTP_HEADER;
    return 0;
}

static int parse_length(struct http_parser *parser, const char *value, struct error *reterr) {
    uint64_t length;
    if (!parse_u64(value, &length) || (parser->length_known && length != parser->remaining))
        return error_set(reterr, E_FORMAT, "the answer's Content-Length is not a number");
    parser->length_known = true;
    parser->remaining = length;
    return 0;
}

static int parse_coding(struct http_parser *parser, const char *value, struct error *reterr) {
    if (strcasecmp(value, "chunked") != 0)
        return error_set(reterr, E_FORMAT, "the answer's Transfer-Encoding is not chunked");
    parser->chunked = true;
    return 0;
}

static int parse_connection(struct http_parser *parser, const char *value, struct error *reterr) {
    (void)reterr;
    parser->keep_alive = strcasecmp(value, "close") != 0;
    return 0;
}

static int parse_type(struct http_parser *parser, const char *value, struct error *reterr) {
    (void)reterr;
    size_t length = strcspn(value, "; ");
    if (length >= sizeof parser->type) return 0;
    for (size_t i = 0; i < length; i++) parser->type[i] = (char)tolower((unsigned char)value[i]);
    parser->type[length] = '\0';
    return 0;
}

static const struct {
    const char *name;
    int (*parse)(struct http_parser *parser, const char *value, struct error *reterr);
} headers[] = {
    {"Content-Length", parse_length},
    {"Transfer-Encoding", parse_coding},
    {"Connection", parse_connection},
    {"Content-Type", parse_type},
};

static int parse_header(struct http_parser *parser, char *line, struct error *reterr) {
    size_t name_size = strcspn(line, ": \t");
    if (line[name_size] != ':' || name_size == 0)
        return error_set(reterr, E_FORMAT, "a header of the answer has no name");
    if (++parser->header_count > HTTP_HEADERS_MAX)
        return error_set(reterr, E_TOO_LARGE, "the answer has more than %d headers", HTTP_HEADERS_MAX);
    char *value = line + name_size + 1;
    value += strspn(value, " \t");
    size_t value_size = strlen(value);
    while (value_size > 0 && (value[value_size - 1] == ' ' || value[value_size - 1] == '\t')) value_size--;
    value[value_size] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
        if (strlen(headers[i].name) == name_size && strncasecmp(line, headers[i].name, name_size) == 0)
            return headers[i].parse(parser, value, reterr);
    return 0;
}

/* The empty line: what comes next follows from the headers. */
static int end_headers(struct http_parser *parser, struct error *reterr) {
    if (parser->chunked && parser->length_known)
        return error_set(reterr, E_FORMAT, "the answer has both a length and chunks");
    bool is_upgraded = parser->takes_upgrade && parser->status == HTTP_SWITCHING_PROTOCOLS;
    if (is_upgraded || parser->status == 204 || parser->status == 304) {
        parser->state = HTTP_DONE;
    } else if (parser->status < 200) {
        /* An interim answer; the real one follows. */
        parser->state = HTTP_STATUS_LINE;
        parser->length_known = parser->chunked = false;
    } else if (parser->chunked) {
        parser->state = HTTP_CHUNK_SIZE;
    } else if (parser->length_known) {
        parser->state = parser->remaining > 0 ? HTTP_BODY : HTTP_DONE;
    } else {
        parser->keep_alive = false;
        parser->state = HTTP_BODY_TO_END;
    }
    return 0;
}

static int parse_chunk_size(struct http_parser *parser, const char *line, struct error *reterr) {
    size_t digits = strspn(line, "0123456789abcdefABCDEF");
    if (digits == 0 || digits > 15 || (line[digits] && !strchr("; \t", line[digits])))
        return error_set(reterr, E_FORMAT, "a chunk of the answer has no size");
    parser->remaining = strtoull(line, NULL, 16);
    parser->state = parser->remaining > 0 ? HTTP_CHUNK : HTTP_TRAILER;
    return 0;
}

static int parse_line(struct http_parser *parser, char *line, struct error *reterr) {
    switch (parser->state) {
    case HTTP_STATUS_LINE: return parse_status_line(parser, line, reterr);
    case HTTP_HEADER: return *line ? parse_header(parser, line, reterr) : end_headers(parser, reterr);
    case HTTP_CHUNK_SIZE: return parse_chunk_size(parser, line, reterr);
    case HTTP_CHUNK_END:
        parser->state = HTTP_CHUNK_SIZE;
        return *line ? error_set(reterr, E_FORMAT, "a chunk of the answer is longer than its size") : 0;
    default:
        if (!*line) parser->state = HTTP_DONE;
        if (++parser->header_count > HTTP_HEADERS_MAX)
            return error_set(reterr, E_TOO_LARGE, "the answer has more than %d headers", HTTP_HEADERS_MAX);
        return 0;
    }
}

/* ---- bytes ---- */

static int feed_line(struct http_parser *parser, const uint8_t *data, size_t size, size_t *ret_used,
                     struct error *reterr) {
    const uint8_t *newline = memchr(data, '\n', size);
    size_t taken = newline ? (size_t)(newline - data) : size;
    *ret_used = newline ? taken + 1 : taken;
    buf_append(&parser->line, data, taken);
    if (parser->line.failed || parser->line.size > HTTP_LINE_MAX_BYTES - 1)
        return error_set(reterr, E_TOO_LARGE, "a line of the answer is longer than %d bytes", HTTP_LINE_MAX_BYTES);
    if (!newline) return 0;
    if (parser->line.size > 0 && parser->line.data[parser->line.size - 1] == '\r') parser->line.size--;
    if (memchr(parser->line.data ? parser->line.data : data, '\0', parser->line.size))
        return error_set(reterr, E_FORMAT, "a line of the answer holds a NUL");
    int result = parse_line(parser, (char *)(uintptr_t)buf_string(&parser->line), reterr);
    buf_clear(&parser->line);
    return result;
}

static int feed_body(struct http_parser *parser, const uint8_t *data, size_t size, size_t *ret_used,
                     struct error *reterr) {
    bool bounded = parser->state != HTTP_BODY_TO_END;
    size_t taken = bounded && parser->remaining < size ? (size_t)parser->remaining : size;
    *ret_used = taken;
    if (bounded) parser->remaining -= taken;
    if (bounded && parser->remaining == 0) parser->state = parser->state == HTTP_CHUNK ? HTTP_CHUNK_END : HTTP_DONE;
    return parser->body(parser, data, taken, reterr);
}

static bool in_body(enum http_state state) {
    return state == HTTP_BODY || state == HTTP_CHUNK || state == HTTP_BODY_TO_END;
}

int http_parse(struct http_parser *parser, const uint8_t *data, size_t size, size_t *ret_used, struct error *reterr) {
    size_t at = 0;
    while (at < size && parser->state != HTTP_DONE) {
        size_t used = 0;
        int result = in_body(parser->state) ? feed_body(parser, data + at, size - at, &used, reterr)
                                            : feed_line(parser, data + at, size - at, &used, reterr);
        if (result < 0) return result;
        at += used;
    }
    *ret_used = at;
    return 0;
}

int http_parse_end(struct http_parser *parser, struct error *reterr) {
    if (parser->state == HTTP_BODY_TO_END) parser->state = HTTP_DONE;
    if (parser->state == HTTP_DONE) return 0;
    return error_set(reterr, E_NO_DAEMON, "the service closed the connection before its answer was complete");
}
