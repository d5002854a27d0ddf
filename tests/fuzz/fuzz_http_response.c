/* Any bytes at all as a response: fed whole and byte by byte, the parser must come to the same end. */
#include <stdlib.h>
#include <string.h>

#include "client/http.h"
#include "fuzz/harness/fuzz.h"

struct run {
    struct http_parser parser;
    struct buf body;
    int result;
};

static int collect(struct http_parser *parser, const uint8_t *bytes, size_t size, struct error *reterr) {
    (void)reterr;
    buf_append(parser->data, bytes, size);
    return 0;
}

static void feed(struct run *run, const uint8_t *data, size_t size, size_t piece) {
    size_t at = 0;
    http_parser_init(&run->parser, collect, &run->body);
    while (at < size && run->result == 0 && run->parser.state != HTTP_DONE) {
        size_t used = 0;
        run->result = http_parse(&run->parser, data + at, size - at < piece ? size - at : piece, &used, NULL);
        at += used;
    }
    if (run->result == 0) run->result = http_parse_end(&run->parser, NULL);
}

static void check(bool holds) {
    if (!holds) abort();
}

void fuzz_one(const uint8_t *data, size_t size) {
    struct run whole = {.result = 0}, pieces = {.result = 0};
    feed(&whole, data, size, size);
    feed(&pieces, data, size, 1);
    check(whole.result == pieces.result);
    check(whole.parser.status == pieces.parser.status && whole.body.size == pieces.body.size);
    check(whole.body.size == 0 || memcmp(whole.body.data, pieces.body.data, whole.body.size) == 0);
    http_parser_free(&whole.parser);
    http_parser_free(&pieces.parser);
    buf_free(&whole.body);
    buf_free(&pieces.body);
}
