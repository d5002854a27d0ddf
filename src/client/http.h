/* A small HTTP/1.1 client: a pure response parser, and exchanges over a connected socket. */
#ifndef CLIENT_HTTP_H
#define CLIENT_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

enum {
    HTTP_LINE_MAX_BYTES = 8192,
    HTTP_HEADERS_MAX = 64,
    HTTP_TYPE_BYTES = 64,
    HTTP_SWITCHING_PROTOCOLS = 101,
    HTTP_SERVER_ERROR = 500, /* and above: the service's fault, not the request's */
};

/* ---- parser (http_parse.c) ---- */

enum http_state {
    HTTP_STATUS_LINE,
    HTTP_HEADER,
    HTTP_BODY,
    HTTP_BODY_TO_END, /* neither length nor chunks: until the peer closes */
    HTTP_CHUNK_SIZE,
    HTTP_CHUNK,
    HTTP_CHUNK_END,
    HTTP_TRAILER,
    HTTP_DONE,
};

struct http_parser;
/* A piece of the body; status and type are known by then. Negative ends the parse with the error it set. */
typedef int http_body_fn(struct http_parser *parser, const uint8_t *bytes, size_t size, struct error *reterr);

struct http_parser {
    http_body_fn *body;
    void *data;
    int status;
    char type[HTTP_TYPE_BYTES]; /* the Content-Type without its parameters, in lower case */
    bool takes_upgrade;         /* 101 is an answer, not one on the way to another */
    bool keep_alive;            /* the connection can carry another request afterwards */

    enum http_state state;
    struct buf line;
    unsigned header_count;
    bool chunked;
    bool length_known;
    uint64_t remaining; /* of the body or chunk */
};

void http_parser_init(struct http_parser *parser, http_body_fn *body, void *data);
void http_parser_free(struct http_parser *parser);

/* Feed what was read, in pieces of any size. *ret_used tells how much belonged to this response; less than size only
   when the response is done. E_FORMAT for anything that is not HTTP, E_TOO_LARGE past the bounds. */
int http_parse(struct http_parser *parser, const uint8_t *data, size_t size, size_t *ret_used, struct error *reterr);
/* The peer closed: an error unless the response may end so. */
int http_parse_end(struct http_parser *parser, struct error *reterr);

/* ---- exchange (http.c) ---- */

struct http_wait {
    uint64_t deadline_ms; /* on the monotonic clock; 0: none */
    int cancel_fd;        /* readable: give up; -1: none */
};

struct http_request {
    const char *method;
    const char *path;
    const char *body; /* NULL: none */
    size_t body_size;
    const char *upgrade; /* the protocol to go on with, if the other side can; NULL: HTTP */
};

/* Connect to a unix socket. E_NO_DAEMON when no process listens there. */
int http_connect(const char *socket_path, const struct http_wait *wait, int *ret_fd, struct error *reterr);

/* Send a request and feed the parser until its response is done. */
int http_exchange(int fd, const struct http_request *request, const struct http_wait *wait, struct http_parser *parser,
                  struct error *reterr);

/* Send all of it. A peer that has closed may have said why: the reader of the answer finds out. */
int http_send(int fd, const uint8_t *data, size_t size, const struct http_wait *wait, struct error *reterr);
/* Until there is something to read, or the other side has closed. */
int http_await(int fd, const struct http_wait *wait, struct error *reterr);

/* An idle connection that is still open and has nothing unasked to say. */
bool http_usable(int fd);

#endif
