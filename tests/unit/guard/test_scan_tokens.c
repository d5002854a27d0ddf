/* Tests the tokenizer of Elixir and Erlang source text. */
#include "guard_test.h"

#include "guard/scan_tokens.h"

/* The tokens in a line, each behind a letter for its kind. */
static void expect(enum scan_language language, const char *text, const char *expected) {
    static const char letters[] = {[TOKEN_NAME] = 'n', [TOKEN_ALIAS] = 'A', [TOKEN_ATOM] = 'a', [TOKEN_MARK] = 'm'};
    CLEANUP(buf_free) struct buf told = BUF_INIT;
    CLEANUP_FREE char *exact = memcpy(malloc(strlen(text) + 1), text, strlen(text) + 1);
    struct tokens tokens;
    tokens_begin(&tokens, exact, strlen(text), language);
    for (struct token token; (token = tokens_next(&tokens)).kind != TOKEN_END;)
        buf_printf(&told, "%s%c%.*s", told.size > 0 ? " " : "", letters[token.kind], (int)token.text.size,
                   token.text.data);
    assert_string_equal(buf_string(&told), expected);
}

static void test_elixir(void **state) {
    (void)state;
    expect(SCAN_ELIXIR, "System.cmd(:os)", "ASystem m. ncmd m( aos m)");
    expect(SCAN_ELIXIR, "# System.cmd\nx", "nx");
    expect(SCAN_ELIXIR, "\"System.cmd\" <> 'os'", "m< m>");
    expect(SCAN_ELIXIR, "\"a #{System.cmd(\"b\")} c\" d", "ASystem m. ncmd m( m) nd");
    expect(SCAN_ELIXIR, "\"#{%{a: \"}\"}}\" d", "m% m{ na m: m} nd");
    expect(SCAN_ELIXIR, "\"\"\"\nSystem.cmd \"x\"\n\"\"\" y", "ny");
    expect(SCAN_ELIXIR, "~s(System.cmd) ~S|#{x}| ~r/os/i z", "ni nz");
    expect(SCAN_ELIXIR, "~w[a b]a c ~> d", "na nc m~ m> nd");
    expect(SCAN_ELIXIR, "?\" x ?\\n y", "nx ny");
    expect(SCAN_ELIXIR, "File.exists?(x) a != b", "AFile m. nexists? m( nx m) na m! m= nb");
    expect(SCAN_ELIXIR, "<<x::binary>> :\"odd atom\"", "m< m< nx m: nbinary m> m> aodd atom");
    expect(SCAN_ELIXIR, ":\"\"", "a");
    expect(SCAN_ELIXIR, "\"never closed", "");
    expect(SCAN_ELIXIR, "\"#{never closed", "nnever nclosed");
    expect(SCAN_ELIXIR, "", "");
}

static void test_erlang(void **state) {
    (void)state;
    expect(SCAN_ERLANG, "os:cmd(X).", "aos m: acmd m( nX m) m.");
    expect(SCAN_ERLANG, "% os:cmd\n'os':'cmd'", "aos m: acmd");
    expect(SCAN_ERLANG, "\"os:cmd\" $\" a $\\\" b $% c", "aa ab ac");
    expect(SCAN_ERLANG, "'quoted \\' atom' x", "aquoted \\' atom ax");
    expect(SCAN_ERLANG, "''", "a");
    expect(SCAN_ERLANG, "'never closed", "anever close");
}

static void test_lines(void **state) {
    (void)state;
    struct tokens tokens;
    static const char text[] = "a\n\"two\nlines\"\nb";
    tokens_begin(&tokens, text, strlen(text), SCAN_ELIXIR);
    assert_int_equal(tokens_next(&tokens).line, 1);
    assert_int_equal(tokens_next(&tokens).line, 4);
}

/* Code in strings in code, deeper than we keep account of. */
static void test_depth(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct tokens tokens;
    for (int i = 0; i < 10 * TOKENS_NESTED_MAX; i++) buf_append_string(&text, "\"#{");
    tokens_begin(&tokens, buf_string(&text), text.size, SCAN_ELIXIR);
    while (tokens_next(&tokens).kind != TOKEN_END) assert_true(tokens.depth <= TOKENS_NESTED_MAX);
    assert_int_equal(tokens.depth, TOKENS_NESTED_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_elixir), cmocka_unit_test(test_erlang),
                                       cmocka_unit_test(test_lines), cmocka_unit_test(test_depth)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
