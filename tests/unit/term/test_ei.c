/* Erlang's own C library must agree on where each term ends. It takes no length, so only good terms are given to it. */
#include "term_test.h"

#include <ei.h>

static void test_ei_skips_every_tag(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(every_tag); i++) {
        int at = 0, version;
        /* ei does not know the one, and its releases before 29 not the other. */
        if (strcmp(every_tag[i].name, "COMPRESSED") == 0 || strcmp(every_tag[i].name, "RECORD") == 0) continue;
        assert_int_equal(ei_decode_version(every_tag[i].bytes, &at, &version), 0);
        if (ei_skip_term(every_tag[i].bytes, &at) != 0) fail_msg("%s", every_tag[i].name);
        assert_int_equal(at, every_tag[i].size);
    }
}

static void test_ei_reads_what_we_write(void **state) {
    (void)state;
    struct buf buf = BUF_INIT;
    term_put_version(&buf);
    term_put_tuple(&buf, 4);
    term_put_integer(&buf, INT64_MIN + 1);
    term_put_uint64(&buf, UINT64_MAX);
    term_put_float(&buf, -0.1);
    term_put_atom(&buf, "name");
    const char *bytes = (const char *)buf.data;
    int at = 0, version, arity;
    long long number;
    unsigned long long unsigned_number;
    double real;
    char atom[MAXATOMLEN];
    assert_int_equal(ei_decode_version(bytes, &at, &version), 0);
    assert_int_equal(ei_decode_tuple_header(bytes, &at, &arity), 0);
    assert_int_equal(arity, 4);
    assert_int_equal(ei_decode_longlong(bytes, &at, &number), 0);
    assert_true(number == INT64_MIN + 1);
    assert_int_equal(ei_decode_ulonglong(bytes, &at, &unsigned_number), 0);
    assert_true(unsigned_number == UINT64_MAX);
    assert_int_equal(ei_decode_double(bytes, &at, &real), 0);
    assert_true(real == -0.1);
    assert_int_equal(ei_decode_atom(bytes, &at, atom), 0);
    assert_string_equal(atom, "name");
    assert_int_equal(at, buf.size);
    buf_free(&buf);
}

static void test_we_read_what_ei_writes(void **state) {
    (void)state;
    ei_x_buff written;
    assert_int_equal(ei_x_new_with_version(&written), 0);
    ei_x_encode_map_header(&written, 1);
    ei_x_encode_atom(&written, "key");
    ei_x_encode_list_header(&written, 2);
    ei_x_encode_longlong(&written, -(1LL << 40));
    ei_x_encode_string(&written, "text");
    ei_x_encode_empty_list(&written);
    CLEANUP_TERM struct term_doc *doc = must_decode(written.buff, (size_t)written.index);
    const struct term *list = term_map_get(term_root(doc), "key");
    CLEANUP_FREE char *text = NULL;
    int64_t number;
    assert_true(term_to_int64(term_at(list, 0), &number) && number == -(1LL << 40));
    assert_true(term_to_string(term_at(list, 1), &text));
    assert_string_equal(text, "text");
    assert_null(term_at(list, 2));
    ei_x_free(&written);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ei_skips_every_tag),
        cmocka_unit_test(test_ei_reads_what_we_write),
        cmocka_unit_test(test_we_read_what_ei_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
