/* Tests the table of guarded operations: which call takes which operation. */
#include "guard_test.h"

static struct beam_text text(const char *string) {
    return (struct beam_text){string, strlen(string)};
}

static const char *operation_of(const char *module, const char *function, int arity) {
    size_t count;
    const struct guard_operation *table = guard_operations(&count);
    int operation = operation_of_call(text(module), text(function), arity);
    return operation < 0 ? "none" : table[operation].name;
}

static void test_calls(void **state) {
    (void)state;
    assert_string_equal(operation_of("os", "cmd", 1), "os_command");
    assert_string_equal(operation_of("os", "cmd", SCAN_ANY_ARITY), "os_command");
    assert_string_equal(operation_of("os", "cmdx", 1), "none");
    assert_string_equal(operation_of("os", "cm", 1), "none");
    assert_string_equal(operation_of("osx", "cmd", 1), "none");
    assert_string_equal(operation_of("erlang", "spawn", 2), "distribution");
    assert_string_equal(operation_of("erlang", "spawn", 3), "none");
    assert_string_equal(operation_of("file", "list_dir_all", 1), "file_read");
    assert_string_equal(operation_of("math", "anything", 9), "math");
    assert_string_equal(operation_of("Elixir.File", "write!", 2), "file_write");
}

static void test_writing(void **state) {
    (void)state;
    size_t count;
    const struct guard_operation *table = guard_operations(&count);
    int operation = operation_of_writing(text("file"), text("open"), 2);
    assert_true(operation >= 0);
    assert_string_equal(table[operation].name, "file_write");
    assert_int_equal(operation_of_writing(text("file"), text("read_file"), 1), GUARD_NO_OPERATION);
}

static void test_every_row_is_whole(void **state) {
    (void)state;
    size_t count;
    const struct guard_operation *table = guard_operations(&count);
    assert_true(count <= 32);
    for (size_t i = 0; i < count; i++) {
        operation_set set = 0;
        assert_non_null(table[i].summary);
        assert_non_null(table[i].held);
        assert_int_equal(guard_operations_parse(table[i].name, &set, NULL), 0);
        assert_true(set >> i & 1);
        assert_true(i == 0 || table[i].imports);
    }
}

static void test_sets(void **state) {
    (void)state;
    struct error error;
    operation_set set = 7;
    assert_int_equal(guard_operations_parse("all", &set, &error), 0);
    assert_int_equal(set, UINT32_MAX);
    assert_int_equal(guard_operations_need(set),
                     GUARD_NEEDS_NETWORK | GUARD_NEEDS_EXEC | GUARD_NEEDS_NATIVE | GUARD_NEEDS_OUTGOING);
    assert_int_equal(guard_operations_parse("math,string", &set, &error), 0);
    assert_int_equal(guard_operations_need(set), 0);
    assert_int_equal(guard_operations_parse(" os_command , network_client", &set, &error), 0);
    assert_int_equal(guard_operations_need(set), GUARD_NEEDS_NETWORK | GUARD_NEEDS_EXEC | GUARD_NEEDS_OUTGOING);
    assert_int_equal(guard_operations_parse("", &set, &error), 0);
    assert_int_equal(set, 0);
    set = 7;
    assert_true(guard_operations_parse("math, mathematics", &set, &error) < 0);
    assert_int_equal(error.code, E_INVALID);
    assert_non_null(strstr(error.detail, "'mathematics'"));
    assert_int_equal(set, 7);
}

static void test_indirect(void **state) {
    (void)state;
    struct beam_import apply = {text("erlang"), text("apply"), 3}, after = {text("timer"), text("apply_after"), 4};
    struct beam_import closure = {text("erlang"), text("apply"), 2};
    assert_int_equal(indirect_module_argument(&apply), 0);
    assert_int_equal(indirect_module_argument(&after), 1);
    assert_true(indirect_module_argument(&closure) < 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls), cmocka_unit_test(test_writing),  cmocka_unit_test(test_every_row_is_whole),
        cmocka_unit_test(test_sets),  cmocka_unit_test(test_indirect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
