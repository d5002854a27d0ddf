/* Tests the accessors of decoded terms: shapes, elements, keys, integers and texts. */
#include "term_test.h"

/* {call, 7, #{a => 1, <<"b">> => [1, 2]}, -1, 2^64 - 1} */
static struct term_doc *call_sample(void) {
    return must_decode(BYTES("\x83\x68\x05\x77\x04"
                             "call\x61\x07"
                             "\x74\0\0\0\x02\x77\x01"
                             "a\x61\x01\x6d\0\0\0\x01"
                             "b\x6b\0\x02\x01\x02"
                             "\x62\xff\xff\xff\xff\x6e\x08\0\xff\xff\xff\xff\xff\xff\xff\xff"));
}

static void test_shapes_are_recognised(void **state) {
    (void)state;
    CLEANUP_TERM struct term_doc *doc = call_sample();
    const struct term *root = term_root(doc);
    assert_true(term_is_tagged(root, "call", 5));
    assert_false(term_is_tagged(root, "call", 4));
    assert_false(term_is_tagged(root, "cal", 5));
    assert_false(term_is_tagged(root, "calls", 5));
    assert_false(term_is_tagged(term_at(root, 1), "call", 5));
    assert_false(term_is_tagged(root, "call", 0));
    assert_true(term_is_atom(term_at(root, 0), "call"));
    assert_false(term_is_atom(term_at(root, 1), "call"));
    assert_false(term_is_atom(NULL, "call"));
    assert_false(term_is_tuple(NULL, 0));
}

static void test_elements_are_reached_within_range(void **state) {
    (void)state;
    CLEANUP_TERM struct term_doc *doc = call_sample();
    const struct term *root = term_root(doc);
    assert_non_null(term_at(root, 4));
    assert_null(term_at(root, 5));
    assert_null(term_at(term_at(root, 0), 0));
    assert_null(term_at(NULL, 0));
    assert_int_equal(term_at(term_map_get(term_at(root, 2), "b"), 1)->integer, 2);
}

static void test_keys_may_be_atoms_or_binaries(void **state) {
    (void)state;
    CLEANUP_TERM struct term_doc *doc = call_sample();
    const struct term *map = term_at(term_root(doc), 2);
    assert_int_equal(term_map_get(map, "a")->integer, 1);
    assert_int_equal(term_map_get(map, "b")->type, TERM_LIST);
    assert_null(term_map_get(map, "c"));
    assert_null(term_map_get(map, ""));
    assert_null(term_map_get(term_root(doc), "a"));
    assert_null(term_map_get(NULL, "a"));
}

/* Found in few steps, whether atom or binary, first, last or absent. */
static void test_keys_of_wide_maps(void **state) {
    (void)state;
    enum { PAIRS = 1000 };
    CLEANUP(buf_free) struct buf bytes = BUF_INIT;
    CLEANUP_TERM struct term_doc *doc = NULL;
    struct error error;
    char key[16];
    term_put_version(&bytes);
    term_put_map(&bytes, PAIRS);
    for (int i = 0; i < PAIRS; i++) {
        snprintf(key, sizeof key, "key%d", i);
        if (i % 2)
            term_put_atom(&bytes, key);
        else
            term_put_string(&bytes, key);
        term_put_integer(&bytes, i);
    }
    assert_int_equal(term_decode(bytes.data, bytes.size, &term_default_bounds, &doc, &error), 0);
    assert_int_equal(term_count(doc), 1 + 2 * PAIRS);
    for (int i = 0; i < PAIRS; i++) {
        snprintf(key, sizeof key, "key%d", i);
        assert_int_equal(term_map_get(term_root(doc), key)->integer, i);
    }
    assert_null(term_map_get(term_root(doc), "key1000"));
    assert_null(term_map_get(term_root(doc), ""));
}

static void test_integers_convert_when_they_fit(void **state) {
    (void)state;
    CLEANUP_TERM struct term_doc *doc = call_sample();
    const struct term *root = term_root(doc);
    int64_t signed_value = 99;
    uint64_t unsigned_value = 99;
    assert_true(term_to_int64(term_at(root, 3), &signed_value) && signed_value == -1);
    assert_false(term_to_uint64(term_at(root, 3), &unsigned_value));
    assert_int_equal(unsigned_value, 99);
    assert_true(term_to_uint64(term_at(root, 4), &unsigned_value) && unsigned_value == UINT64_MAX);
    assert_false(term_to_int64(term_at(root, 4), &signed_value));
    assert_true(term_to_uint64(term_at(root, 1), &unsigned_value) && unsigned_value == 7);
    assert_false(term_to_int64(term_at(root, 0), &signed_value));
    assert_false(term_to_int64(NULL, &signed_value) || term_to_uint64(NULL, &unsigned_value));
    assert_int_equal(signed_value, -1);
    CLEANUP_TERM struct term_doc *negative = must_decode(BYTES("\x83\x6e\x08\x01\xff\xff\xff\xff\xff\xff\xff\xff"));
    assert_false(term_to_uint64(term_root(negative), &unsigned_value));
    CLEANUP_TERM struct term_doc *wide = must_decode(BYTES("\x83\x6e\x09\0\0\0\0\0\0\0\0\0\1"));
    assert_false(term_to_uint64(term_root(wide), &unsigned_value));
}

static void assert_string(const char *bytes, size_t size, const char *expected) {
    CLEANUP_TERM struct term_doc *doc = must_decode(bytes, size);
    CLEANUP_FREE char *string = NULL;
    assert_int_equal(term_to_string(term_root(doc), &string), expected != NULL);
    if (expected)
        assert_string_equal(string, expected);
    else
        assert_null(string);
}

static void test_texts_become_strings(void **state) {
    (void)state;
    assert_string(BYTES("\x83\x6d\0\0\0\x02\xc3\xa9"), "é");
    assert_string(BYTES("\x83\x6d\0\0\0\0"), "");
    assert_string(BYTES("\x83\x77\x02ok"), "ok");
    assert_string(BYTES("\x83\x6a"), "");
    assert_string(BYTES("\x83\x6b\0\x02"
                        "ab"),
                  "ab");
    assert_string(BYTES("\x83\x6c\0\0\0\x02\x62\0\0\x03\xbb\x62\0\x01\xf6\0\x6a"), "λ😀");
}

static void assert_text(const char *bytes, size_t size, size_t max_bytes, const char *expected) {
    CLEANUP_TERM struct term_doc *doc = must_decode(bytes, size);
    CLEANUP_FREE char *text = NULL;
    assert_true(term_to_text(term_root(doc), max_bytes, &text));
    assert_string_equal(text, expected);
}

static void test_texts_are_cut(void **state) {
    (void)state;
    assert_text(BYTES("\x83\x6d\0\0\0\x04\xc3\xa9\xc3\xa9"), 3, "é");
    assert_text(BYTES("\x83\x77\x02ok"), 1, "o");
    assert_text(BYTES("\x83\x77\x02ok"), 2, "ok");
    assert_text(BYTES("\x83\x6a"), 2, "");
    assert_text(BYTES("\x83\x6c\0\0\0\x02\x62\0\0\x03\xbb\x62\0\x01\xf6\0\x6a"), 5, "λ");
    /* What follows is not looked at: it takes a stranger's time. */
    assert_text(BYTES("\x83\x6c\0\0\0\x02\x61\x61\x62\0\x11\0\0\x6a"), 1, "a");
    char *text = NULL;
    assert_false(term_to_text(NULL, 1, &text));
}

static void test_other_terms_are_no_strings(void **state) {
    (void)state;
    assert_string(BYTES("\x83\x6d\0\0\0\x02"
                        "a\0"),
                  NULL);
    assert_string(BYTES("\x83\x6b\0\x02"
                        "a\0"),
                  NULL);
    assert_string(BYTES("\x83\x6c\0\0\0\x01\x61\x61\x61\x61"), NULL);
    assert_string(BYTES("\x83\x6c\0\0\0\x01\x62\0\0\xd8\0\x6a"), NULL);
    assert_string(BYTES("\x83\x6c\0\0\0\x01\x62\0\x11\0\0\x6a"), NULL);
    assert_string(BYTES("\x83\x6c\0\0\0\x01\x62\xff\xff\xff\xff\x6a"), NULL);
    assert_string(BYTES("\x83\x6c\0\0\0\x01\x77\x01"
                        "a\x6a"),
                  NULL);
    assert_string(BYTES("\x83\x4d\0\0\0\x01\x03\xe0"), NULL);
    assert_string(BYTES("\x83\x61\x07"), NULL);
    char *string = NULL;
    assert_false(term_to_string(NULL, &string));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes_are_recognised),
        cmocka_unit_test(test_elements_are_reached_within_range),
        cmocka_unit_test(test_keys_of_wide_maps),
        cmocka_unit_test(test_keys_may_be_atoms_or_binaries),
        cmocka_unit_test(test_integers_convert_when_they_fit),
        cmocka_unit_test(test_texts_become_strings),
        cmocka_unit_test(test_texts_are_cut),
        cmocka_unit_test(test_other_terms_are_no_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
