/* Tests the client's parser of HTTP responses, fed in pieces of every size, with valid and invalid responses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/http.h"

static int collect(struct http_parser *parser, const uint8_t *bytes, size_t size, struct error *reterr) {
    (void)reterr;
    buf_append(parser->data, bytes, size);
    return 0;
}

struct outcome {
    int result;
    struct error error;
    struct buf body;
    struct http_parser parser;
    size_t used;
};

static void outcome_free(struct outcome *outcome) {
    http_parser_free(&outcome->parser);
    buf_free(&outcome->body);
}

/* Feed a response in pieces of one size. */
static void feed(struct outcome *outcome, const char *text, size_t size, size_t piece) {
    memset(outcome, 0, sizeof *outcome);
    http_parser_init(&outcome->parser, collect, &outcome->body);
    while (outcome->used < size && outcome->result == 0 && outcome->parser.state != HTTP_DONE) {
        size_t left = size - outcome->used;
        size_t used = 0;
        outcome->result = http_parse(&outcome->parser, (const uint8_t *)text + outcome->used,
                                     left < piece ? left : piece, &used, &outcome->error);
        outcome->used += used;
    }
}

static void expect_body(const char *text, int status, const char *body, bool keep_alive) {
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        struct outcome outcome;
        feed(&outcome, text, strlen(text), piece);
        assert_int_equal(outcome.result, 0);
        assert_int_equal(outcome.parser.state, HTTP_DONE);
        assert_int_equal(outcome.parser.status, status);
        assert_int_equal(outcome.parser.keep_alive, keep_alive);
        assert_string_equal(buf_string(&outcome.body), body);
        assert_int_equal(outcome.used, strlen(text));
        outcome_free(&outcome);
    }
}

static void bodies_with_a_length(void **state) {
    (void)state;
    expect_body("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true);
    expect_body("HTTP/1.1 404 Not Found\r\ncontent-length:0\r\nConnection: close\r\n\r\n", 404, "", false);
    expect_body("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false);
    expect_body("HTTP/1.1 204 No Content\r\n\r\n", 204, "", true);
    expect_body("HTTP/1.1 200 OK\nContent-Length: 1\n\nx", 200, "x", true);
}

static void bodies_in_chunks(void **state) {
    (void)state;
    expect_body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n, sandbox!\r\n0\r\n\r\n",
                200, "hello, sandbox!", true);
    expect_body("HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n", 200, "", true);
}

static void interim_answers_are_passed_over(void **state) {
    (void)state;
    expect_body("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", true);
}

static void what_follows_is_left_alone(void **state) {
    (void)state;
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500";
    struct outcome outcome;
    feed(&outcome, text, sizeof text - 1, sizeof text);
    assert_int_equal(outcome.parser.state, HTTP_DONE);
    assert_string_equal(text + outcome.used, "HTTP/1.1 500");
    outcome_free(&outcome);
}

static void the_type_is_known_without_parameters(void **state) {
    (void)state;
    struct outcome outcome;
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Type: Application/JSON; charset=utf-8\r\n"
                               "Content-Length: 0\r\n\r\n";
    feed(&outcome, text, sizeof text - 1, 7);
    assert_string_equal(outcome.parser.type, "application/json");
    outcome_free(&outcome);
}

static void an_end_is_fine_only_where_it_may_be(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int result;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\n\r\nall of it", 0},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", -E_NO_DAEMON},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello", -E_NO_DAEMON},
        {"HTTP/1.1 200 OK\r\n", -E_NO_DAEMON},
        {"", -E_NO_DAEMON},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct outcome outcome;
        feed(&outcome, cases[i].text, strlen(cases[i].text), 3);
        assert_int_equal(http_parse_end(&outcome.parser, &outcome.error), cases[i].result);
        outcome_free(&outcome);
    }
}

static void expect_failure(const char *text, size_t size, enum error_code code) {
    static const size_t pieces[] = {1, 2, 7, 4096};
    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
        struct outcome outcome;
        feed(&outcome, text, size, pieces[i]);
        if (outcome.result != -(int)code) fail_msg("%.60s: %d", text, outcome.result);
        outcome_free(&outcome);
    }
}

static void garbage_is_refused(void **state) {
    (void)state;
    static const char *const cases[] = {
        "hello\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: empty\r\n\r\n",
        "HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) expect_failure(cases[i], strlen(cases[i]), E_FORMAT);
    static const char nul[] = "HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n";
    expect_failure(nul, sizeof nul - 1, E_FORMAT);
}

static void too_much_is_refused(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_append_string(&text, "HTTP/1.1 200 OK\r\nA: ");
    for (int i = 0; i < HTTP_LINE_MAX_BYTES; i++) buf_append_byte(&text, 'x');
    expect_failure((const char *)text.data, text.size, E_TOO_LARGE);
    buf_clear(&text);
    buf_append_string(&text, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i <= HTTP_HEADERS_MAX; i++) buf_printf(&text, "H%d: x\r\n", i);
    expect_failure((const char *)text.data, text.size, E_TOO_LARGE);
    buf_clear(&text);
    buf_append_string(&text, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
    for (int i = 0; i <= HTTP_HEADERS_MAX; i++) buf_append_string(&text, "T: x\r\n");
    expect_failure((const char *)text.data, text.size, E_TOO_LARGE);
}

static int refuse(struct http_parser *parser, const uint8_t *bytes, size_t size, struct error *reterr) {
    (void)parser, (void)bytes, (void)size;
    return error_set(reterr, E_CONFLICT, "no more");
}

static void a_reader_can_stop(void **state) {
    (void)state;
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    CLEANUP(http_parser_free) struct http_parser parser;
    http_parser_init(&parser, refuse, NULL);
    size_t used = 0;
    struct error error;
    assert_int_equal(http_parse(&parser, (const uint8_t *)text, sizeof text - 1, &used, &error), -E_CONFLICT);
    assert_string_equal(error.detail, "no more");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_with_a_length),
        cmocka_unit_test(bodies_in_chunks),
        cmocka_unit_test(interim_answers_are_passed_over),
        cmocka_unit_test(what_follows_is_left_alone),
        cmocka_unit_test(the_type_is_known_without_parameters),
        cmocka_unit_test(an_end_is_fine_only_where_it_may_be),
        cmocka_unit_test(garbage_is_refused),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(a_reader_can_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
