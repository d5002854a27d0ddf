/* Tests the hash chain of audit records: every changed byte and every shortened line is found. */
#include "scratch.h"

#include "audit/audit.h"

static void test_records_follow_one_another(void **state) {
    (void)state;
    struct audit_chain chain, told;
    char before[AUDIT_HASH_BYTES], first[AUDIT_HASH_BYTES];
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    audit_chain_begin(&chain);
    assert_int_equal(audit_chain_add(&chain, "\"op\":\"create\"", &line, NULL), 0);
    assert_int_equal(chain.seq, 1);
    memcpy(first, chain.hash, sizeof first);
    assert_int_equal(audit_line_read((char *)line.data, line.size - 1, &told, before, NULL), 0);
    assert_int_equal(told.seq, 1);
    assert_string_equal(told.hash, first);
    assert_int_equal(strspn(before, "0"), AUDIT_HASH_BYTES - 1);
    buf_clear(&line);
    assert_int_equal(audit_chain_add(&chain, "\"op\":\"destroy\"", &line, NULL), 0);
    assert_int_equal(audit_line_read((char *)line.data, line.size - 1, &told, before, NULL), 0);
    assert_int_equal(told.seq, 2);
    assert_string_equal(before, first);
}

/* A line is JSON of its own. */
static void test_a_line_is_json(void **state) {
    (void)state;
    struct audit_chain chain;
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    audit_chain_begin(&chain);
    assert_int_equal(audit_chain_add(&chain, "\"op\":\"create\",\"uid\":0", &line, NULL), 0);
    json_t *record = json_loadb((char *)line.data, line.size, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(record, "op")), "create");
    assert_string_equal(json_string_value(json_object_get(record, "hash")), chain.hash);
    assert_int_equal(json_integer_value(json_object_get(record, "seq")), 1);
    json_decref(record);
}

static void test_every_changed_byte_is_found(void **state) {
    (void)state;
    struct audit_chain chain, told;
    char before[AUDIT_HASH_BYTES];
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    audit_chain_begin(&chain);
    assert_int_equal(audit_chain_add(&chain, "\"op\":\"create\",\"uid\":0", &line, NULL), 0);
    for (size_t i = 0; i + 1 < line.size; i++)
        for (unsigned change = 1; change < 256; change++) {
            line.data[i] ^= (uint8_t)change;
            assert_true(audit_line_read((char *)line.data, line.size - 1, &told, before, NULL) < 0);
            line.data[i] ^= (uint8_t)change;
        }
}

static void test_every_shorter_line_is_refused(void **state) {
    (void)state;
    struct audit_chain chain, told = {.seq = 7};
    char before[AUDIT_HASH_BYTES];
    struct error error;
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    audit_chain_begin(&chain);
    assert_int_equal(audit_chain_add(&chain, "\"op\":\"create\"", &line, NULL), 0);
    for (size_t size = 0; size + 1 < line.size; size++) {
        CLEANUP_FREE char *exact = memcpy(malloc(size + 1), line.data, size);
        assert_true(audit_line_read(exact, size, &told, before, &error) < 0);
        assert_int_equal(error.code, E_FORMAT);
    }
    assert_int_equal(told.seq, 7);
}

static void test_a_long_record_is_refused(void **state) {
    (void)state;
    struct audit_chain chain;
    struct error error;
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    CLEANUP_FREE char *members = calloc(1, AUDIT_LINE_MAX_BYTES + 1);
    memset(members, ' ', AUDIT_LINE_MAX_BYTES);
    audit_chain_begin(&chain);
    assert_true(audit_chain_add(&chain, members, &line, &error) < 0);
    assert_int_equal(error.code, E_TOO_LARGE);
    assert_int_equal(chain.seq, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_follow_one_another),  cmocka_unit_test(test_a_line_is_json),
        cmocka_unit_test(test_every_changed_byte_is_found), cmocka_unit_test(test_every_shorter_line_is_refused),
        cmocka_unit_test(test_a_long_record_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
