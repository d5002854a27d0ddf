/* Tests log records: filters of readers, and records from a node that may send anything. */
#include "core/sandbox/logs.h"
#include "core/sandbox/tree.h"
#include "core/stage.h"
#include "terms.h"

static json_t *record(const char *stream, const char *level, const char *text, const char *time) {
    return json_pack("{s:s, s:s?, s:s, s:s}", "stream", stream, "level", level, "text", text, "time", time);
}

static bool is_wanted(json_t *params, json_t *entry) {
    struct log_filter filter = log_filter_of(params, INT64_C(1700000000000));
    bool wanted = log_matches(&filter, entry);
    json_decref(params);
    json_decref(entry);
    return wanted;
}

#define TIME "2023-11-14T22:13:20.000Z" /* the clock's */

static void test_nothing_said_is_everything(void **state) {
    (void)state;
    assert_true(is_wanted(json_object(), record("output", NULL, "", TIME)));
    assert_true(is_wanted(json_object(), record("log", "debug", "x", TIME)));
    assert_true(is_wanted(json_object(), record("vm", NULL, "x", "1999-01-01T00:00:00.000Z")));
}

static void test_levels_are_ordered(void **state) {
    static const struct {
        const char *wanted, *level;
        bool is_wanted;
    } cases[] = {
        {"debug", "debug", true},      {"info", "debug", false},   {"warning", "notice", false},
        {"warning", "warning", true},  {"warning", "error", true}, {"error", "alert", true},
        {"emergency", "alert", false}, {"debug", NULL, false},     {"emergency", "emergency", true},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        if (is_wanted(json_pack("{s:s}", "level", cases[i].wanted), record("log", cases[i].level, "x", TIME)) !=
            cases[i].is_wanted)
            fail_msg("case %zu", i);
}

static void test_texts_and_streams(void **state) {
    (void)state;
    assert_true(is_wanted(json_pack("{s:s}", "grep", "DISK"), record("output", NULL, "the disk is full", TIME)));
    assert_false(is_wanted(json_pack("{s:s}", "grep", "disc"), record("output", NULL, "the disk is full", TIME)));
    assert_true(is_wanted(json_pack("{s:s}", "stream", "vm"), record("vm", NULL, "x", TIME)));
    assert_false(is_wanted(json_pack("{s:s}", "stream", "vm"), record("output", NULL, "x", TIME)));
}

static void test_what_is_too_old(void **state) {
    (void)state;
    assert_true(is_wanted(json_pack("{s:i}", "since_ms", 1000), record("log", "info", "x", TIME)));
    assert_true(
        is_wanted(json_pack("{s:i}", "since_ms", 1000), record("log", "info", "x", "2023-11-14T22:13:19.000Z")));
    assert_false(
        is_wanted(json_pack("{s:i}", "since_ms", 1000), record("log", "info", "x", "2023-11-14T22:13:18.999Z")));
}

/* ---- what a node sends ---- */

static json_t *last_of(struct sandbox *sandbox) {
    const struct feed *log = sandbox->log;
    return log->records[(log->first + log->count - 1) % log->capacity];
}

static void take(struct sandbox *sandbox, struct buf *bytes) {
    CLEANUP(cleanup_term) struct term_doc *doc = NULL;
    struct error error;
    if (term_decode(bytes->data, bytes->size, &term_default_bounds, &doc, &error) < 0) fail_msg("%s", error.detail);
    log_take_record(sandbox, term_root(doc));
    buf_free(bytes);
}

static void put_text(struct buf *bytes, const char *key, const char *text) {
    term_put_atom(bytes, key);
    term_put_string(bytes, text);
}

static void assert_member(struct sandbox *sandbox, const char *name, const char *value) {
    const char *got = json_string_value(json_object_get(last_of(sandbox), name));
    if (!string_equal(got, value)) fail_msg("%s is '%s', not '%s'", name, got ? got : "", value ? value : "");
}

static void test_a_record_says_where_it_was_logged(void **state) {
    (void)state;
    struct sandbox sandbox = {.id = "a"};
    struct buf bytes = BUF_INIT;
    sandbox.log = feed_new(4, 0);
    assert_non_null(sandbox.log);
    term_put_version(&bytes);
    term_put_map(&bytes, 5);
    put_text(&bytes, "text", "hello");
    term_put_atom(&bytes, "level");
    term_put_atom(&bytes, "warning");
    put_text(&bytes, "pid", "<0.9.0>");
    put_text(&bytes, "function", "counter:init/1");
    term_put_atom(&bytes, "line");
    term_put_uint64(&bytes, 7);
    take(&sandbox, &bytes);
    assert_member(&sandbox, "text", "hello");
    assert_member(&sandbox, "level", "warning");
    assert_member(&sandbox, "pid", "<0.9.0>");
    assert_member(&sandbox, "function", "counter:init/1");
    assert_int_equal(json_integer_value(json_object_get(last_of(&sandbox), "line")), 7);
    feed_release(sandbox.log);
}

/* The node may send anything: what makes no sense is left out, and what is too long cut. */
static void test_inventions_of_a_node(void **state) {
    (void)state;
    struct sandbox sandbox = {.id = "a"};
    struct buf bytes = BUF_INIT;
    char longer[NODE_TEXT_MAX_BYTES + 100];
    memset(longer, 'f', sizeof longer);
    sandbox.log = feed_new(4, 0);
    assert_non_null(sandbox.log);
    term_put_version(&bytes);
    term_put_map(&bytes, 5);
    put_text(&bytes, "text", "hello");
    term_put_atom(&bytes, "level");
    term_put_atom(&bytes, "apocalypse");
    term_put_atom(&bytes, "pid");
    term_put_uint64(&bytes, 1);
    term_put_atom(&bytes, "function");
    term_put_binary(&bytes, longer, sizeof longer);
    put_text(&bytes, "line", "seven");
    take(&sandbox, &bytes);
    assert_member(&sandbox, "level", "info");
    assert_member(&sandbox, "pid", NULL);
    assert_int_equal(json_string_length(json_object_get(last_of(&sandbox), "function")), NODE_TEXT_MAX_BYTES);
    assert_null(json_object_get(last_of(&sandbox), "line"));
    term_put_version(&bytes);
    term_put_map(&bytes, 0);
    take(&sandbox, &bytes);
    assert_int_equal(sandbox.log->count, 1); /* without a text it is none */
    feed_release(sandbox.log);
}

static void test_long_text_becomes_several_records(void **state) {
    (void)state;
    struct sandbox sandbox = {.id = "a"};
    char text[LOG_RECORD_MAX_BYTES + 10];
    memset(text, 'x', sizeof text);
    sandbox.log = feed_new(4, 0);
    assert_non_null(sandbox.log);
    log_add(&sandbox, "output", NULL, NULL, text, sizeof text);
    assert_int_equal(sandbox.log->count, 2);
    assert_int_equal(json_string_length(json_object_get(last_of(&sandbox), "text")), 10);
    assert_true(json_is_null(json_object_get(last_of(&sandbox), "level")));
    feed_release(sandbox.log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_said_is_everything),
        cmocka_unit_test(test_levels_are_ordered),
        cmocka_unit_test(test_texts_and_streams),
        cmocka_unit_test(test_what_is_too_old),
        cmocka_unit_test(test_a_record_says_where_it_was_logged),
        cmocka_unit_test(test_inventions_of_a_node),
        cmocka_unit_test(test_long_text_becomes_several_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
