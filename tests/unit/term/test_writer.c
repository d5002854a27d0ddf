/* Tests the encoder of the external term format, against the bytes that the VM would write. */
#include "term_test.h"

static void assert_bytes(struct buf *buf, const char *bytes, size_t size) {
    assert_false(buf->failed);
    assert_int_equal(buf->size, size);
    assert_memory_equal(buf->data, bytes, size);
    buf_free(buf);
}

static void test_integers_take_the_smallest_form(void **state) {
    (void)state;
    static const struct {
        int64_t value;
        const char *bytes;
        size_t size;
    } cases[] = {
        {0, BYTES("\x61\0")},
        {255, BYTES("\x61\xff")},
        {256, BYTES("\x62\0\0\x01\0")},
        {-1, BYTES("\x62\xff\xff\xff\xff")},
        {INT32_MAX, BYTES("\x62\x7f\xff\xff\xff")},
        {INT32_MIN, BYTES("\x62\x80\0\0\0")},
        {1LL << 31, BYTES("\x6e\x04\0\0\0\0\x80")},
        {INT64_MAX, BYTES("\x6e\x08\0\xff\xff\xff\xff\xff\xff\xff\x7f")},
        {INT64_MIN, BYTES("\x6e\x08\x01\0\0\0\0\0\0\0\x80")},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf buf = BUF_INIT;
        term_put_integer(&buf, cases[i].value);
        assert_bytes(&buf, cases[i].bytes, cases[i].size);
    }
    struct buf buf = BUF_INIT;
    term_put_uint64(&buf, UINT64_MAX);
    assert_bytes(&buf, BYTES("\x6e\x08\0\xff\xff\xff\xff\xff\xff\xff\xff"));
    term_put_uint64(&buf, 5);
    assert_bytes(&buf, BYTES("\x61\x05"));
}

static void test_scalars_are_written(void **state) {
    (void)state;
    struct buf buf = BUF_INIT;
    term_put_version(&buf);
    term_put_float(&buf, 1.5);
    term_put_bool(&buf, true);
    term_put_bool(&buf, false);
    term_put_binary(&buf, "\0", 1);
    term_put_binary(&buf, NULL, 0);
    term_put_string(&buf, "x");
    term_put_nil(&buf);
    assert_bytes(&buf, BYTES("\x83\x46\x3f\xf8\0\0\0\0\0\0\x77\x04true\x77\x05"
                             "false\x6d\0\0\0\x01\0\x6d\0\0\0\0\x6d\0\0\0"
                             "\x01x\x6a"));
}

static void test_headers_take_the_smallest_form(void **state) {
    (void)state;
    struct buf buf = BUF_INIT;
    term_put_tuple(&buf, 255);
    term_put_tuple(&buf, 256);
    term_put_list(&buf, 0);
    term_put_list(&buf, 3);
    term_put_map(&buf, 2);
    assert_bytes(&buf, BYTES("\x68\xff\x69\0\0\x01\0\x6a\x6c\0\0\0\x03\x74\0\0\0\x02"));
}

static void test_long_atoms_are_written_or_refused(void **state) {
    (void)state;
    char text[2 * 256 + 1] = "";
    for (int i = 0; i < 255; i++) strcat(text, "é");
    struct buf buf = BUF_INIT;
    term_put_atom(&buf, text);
    assert_false(buf.failed);
    assert_memory_equal(buf.data, "\x76\x01\xfe", 3);
    assert_int_equal(buf.size, 3 + 510);
    strcat(text, "é");
    term_put_atom(&buf, text);
    assert_true(buf.failed);
    buf_free(&buf);
}

static void test_what_the_format_cannot_hold_fails(void **state) {
    (void)state;
    struct buf buf = BUF_INIT;
    term_put_list(&buf, (size_t)UINT32_MAX + 1);
    assert_true(buf.failed);
    buf_free(&buf);
    term_put_map(&buf, (size_t)UINT32_MAX + 1);
    assert_true(buf.failed);
    buf_free(&buf);
}

/* What the VM would write comes back byte for byte; older forms come back as their newer ones. */
static void test_every_tag_is_written_again(void **state) {
    (void)state;
    static const char *const rewritten[] = {"BIT_BINARY", "LARGE_BIG",     "FLOAT",       "ATOM", "SMALL_ATOM",
                                            "ATOM_UTF8",  "LIST",          "LARGE_TUPLE", "PID",  "PORT",
                                            "REFERENCE",  "NEW_REFERENCE", "COMPRESSED"};
    for (size_t i = 0; i < ARRAY_SIZE(every_tag); i++) {
        CLEANUP_TERM struct term_doc *doc = must_decode(every_tag[i].bytes, every_tag[i].size);
        struct buf buf = BUF_INIT;
        term_put_version(&buf);
        assert_int_equal(term_put(&buf, term_root(doc), NULL), 0);
        bool same = buf.size == every_tag[i].size && memcmp(buf.data, every_tag[i].bytes, buf.size) == 0;
        bool expected = true;
        for (size_t j = 0; j < ARRAY_SIZE(rewritten); j++) expected &= strcmp(rewritten[j], every_tag[i].name) != 0;
        if (same != expected) fail_msg("%s", every_tag[i].name);
        CLEANUP_TERM struct term_doc *again = must_decode((char *)buf.data, buf.size);
        if (!term_equal(term_root(doc), term_root(again))) fail_msg("%s", every_tag[i].name);
        buf_free(&buf);
    }
}

static void test_long_lists_of_bytes_are_no_strings(void **state) {
    (void)state;
    enum { COUNT = 65536 };
    struct buf buf = BUF_INIT;
    term_put_version(&buf);
    term_put_list(&buf, COUNT);
    for (int i = 0; i < COUNT; i++) term_put_integer(&buf, 1);
    term_put_nil(&buf);
    CLEANUP_TERM struct term_doc *doc = must_decode((char *)buf.data, buf.size);
    struct buf again = BUF_INIT;
    term_put_version(&again);
    assert_int_equal(term_put(&again, term_root(doc), NULL), 0);
    assert_bytes(&again, (char *)buf.data, buf.size);
    buf_free(&buf);
}

static void test_a_bound_buffer_is_too_small(void **state) {
    (void)state;
    CLEANUP_TERM struct term_doc *doc = must_decode(BYTES("\x83\x6d\0\0\0\x08"
                                                          "12345678"));
    struct buf buf = {.max = 12};
    struct error error = {0};
    assert_int_equal(term_put(&buf, term_root(doc), &error), -E_TOO_LARGE);
    buf_free(&buf);
    buf.max = 13;
    assert_int_equal(term_put(&buf, term_root(doc), &error), 0);
    buf_free(&buf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers_take_the_smallest_form),
        cmocka_unit_test(test_scalars_are_written),
        cmocka_unit_test(test_headers_take_the_smallest_form),
        cmocka_unit_test(test_long_atoms_are_written_or_refused),
        cmocka_unit_test(test_what_the_format_cannot_hold_fails),
        cmocka_unit_test(test_every_tag_is_written_again),
        cmocka_unit_test(test_long_lists_of_bytes_are_no_strings),
        cmocka_unit_test(test_a_bound_buffer_is_too_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
