/* Tests the encoding of words and messages on the launcher's socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "jail/wire.h"

static void assert_encoded(const char *word, const char *expected) {
    CLEANUP(buf_free) struct buf buf = BUF_INIT;
    wire_put_word(&buf, word);
    assert_string_equal(buf_string(&buf), expected);
}

static void encodes_what_would_break_a_line(void **state) {
    (void)state;
    assert_encoded("plain/path-1.2", "plain/path-1.2");
    assert_encoded("", "%");
    assert_encoded("a b\nc%", "a%20b%0Ac%25");
    assert_encoded("\x01\x7f\xc3\xa9", "%01%7F%C3%A9");
}

static void decodes_what_it_encodes(void **state) {
    (void)state;
    char every[256];
    for (int i = 0; i < 255; i++) every[i] = (char)(i + 1);
    every[255] = '\0';
    CLEANUP(buf_free) struct buf buf = BUF_INIT;
    wire_put_word(&buf, every);
    buf_append_byte(&buf, ' ');
    wire_put_word(&buf, "");
    buf_string(&buf);
    char *at = (char *)buf.data;
    assert_string_equal(wire_next_word(&at), every);
    assert_string_equal(wire_next_word(&at), "");
    assert_null(wire_next_word(&at));
    assert_int_equal(*at, '\0');
}

static void stops_at_the_ends_of_words_and_lines(void **state) {
    (void)state;
    char text[] = "one two\nthree";
    char *at = text;
    assert_string_equal(wire_next_word(&at), "one");
    assert_string_equal(wire_next_word(&at), "two");
    assert_string_equal(wire_next_word(&at), "three");
    assert_null(wire_next_word(&at));
}

static void refuses_bad_encodings(void **state) {
    (void)state;
    static const char *const bad[] = {"%0", "%zz", "a%", "%00", "%4", "a%g1", "a\x01", "a\x80", " a", "%%"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        char text[16];
        strcpy(text, bad[i]);
        char *at = text;
        assert_null(wire_next_word(&at));
        assert_ptr_equal(at, text);
        assert_int_not_equal(*at, '\0');
    }
}

static void cuts_lines(void **state) {
    (void)state;
    char text[] = "first\n\nlast";
    char *at = text;
    assert_string_equal(wire_next_line(&at), "first");
    assert_string_equal(wire_next_line(&at), "");
    assert_string_equal(wire_next_line(&at), "last");
    assert_null(wire_next_line(&at));
}

static void takes_messages_apart(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf buf = BUF_INIT;
    buf_append_string(&buf, "ok 17");
    wire_put_number(&buf, "pid", 4711);
    wire_put_pair(&buf, "detail", "a b=c");
    wire_put_pair(&buf, "memory", "");
    buf_append_string(&buf, "\nnode x\nproc\n");
    buf_string(&buf);
    struct wire_message message;
    struct error error;
    assert_int_equal(wire_message_parse((char *)buf.data, &message, &error), 0);
    uint64_t pid = 0;
    assert_string_equal(message.verb, "ok");
    assert_string_equal(wire_message_word(&message, 0), "17");
    assert_true(wire_message_number(&message, "pid", &pid));
    assert_int_equal(pid, 4711);
    assert_string_equal(wire_message_value(&message, "detail"), "a b=c");
    assert_string_equal(wire_message_value(&message, "memory"), "");
    assert_false(wire_message_number(&message, "memory", &pid));
    assert_null(wire_message_value(&message, "det"));
    assert_null(wire_message_word(&message, 4));
    assert_string_equal(message.body, "node x\nproc\n");
}

static void refuses_bad_messages(void **state) {
    (void)state;
    static const char *const bad[] = {"", "\nbody", " ok 1", "ok 1  2", "ok %q", "v 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        char text[64];
        strcpy(text, bad[i]);
        struct wire_message message = {.count = 99};
        struct error error = {0};
        assert_true(wire_message_parse(text, &message, &error) < 0);
        assert_int_equal(error.code, E_FORMAT);
        assert_int_equal(message.count, 99);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_what_would_break_a_line),
        cmocka_unit_test(decodes_what_it_encodes),
        cmocka_unit_test(stops_at_the_ends_of_words_and_lines),
        cmocka_unit_test(refuses_bad_encodings),
        cmocka_unit_test(cuts_lines),
        cmocka_unit_test(takes_messages_apart),
        cmocka_unit_test(refuses_bad_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
