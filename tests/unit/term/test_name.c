/* Tests module names as Erlang and as Elixir write them. */
#include "term_test.h"

static void assert_atom(const char *written, const char *expected) {
    struct buf buf = BUF_INIT;
    term_module_atom(written, &buf);
    assert_string_equal(buf_string(&buf), expected);
    buf_free(&buf);
}

static void test_names_are_written_as_their_language_does(void **state) {
    (void)state;
    assert_string_equal(term_module_name("Elixir.Counter.Server"), "Counter.Server");
    assert_string_equal(term_module_name("counter_server"), "counter_server");
    assert_string_equal(term_module_name("Elixir"), "Elixir");
    assert_string_equal(term_module_name("Elixir."), "Elixir.");
    assert_string_equal(term_module_name("Elixir.lower"), "Elixir.lower");
    assert_string_equal(term_module_name("Elixir.Elixir.A"), "Elixir.Elixir.A");
    assert_string_equal(term_module_name(""), "");
}

static void test_both_spellings_are_understood(void **state) {
    (void)state;
    assert_atom("Counter.Server", "Elixir.Counter.Server");
    assert_atom("Elixir.Counter", "Elixir.Counter");
    assert_atom("counter", "counter");
    assert_atom("Elixir", "Elixir");
    assert_atom("Elixirs", "Elixir.Elixirs");
    assert_atom("", "");
}

static void test_names_come_back(void **state) {
    (void)state;
    static const char *const atoms[] = {"Elixir.A.B", "a", "Elixir", "Elixir.Elixir", "Elixir.Elixir.A", "Elixir.a"};
    for (size_t i = 0; i < ARRAY_SIZE(atoms); i++) assert_atom(term_module_name(atoms[i]), atoms[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_written_as_their_language_does),
        cmocka_unit_test(test_both_spellings_are_understood),
        cmocka_unit_test(test_names_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
