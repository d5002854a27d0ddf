/* Tests text for a terminal: control characters removed, widths in columns, and values with their units. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/cli_internal.h"

static void expect_clean(const char *text, size_t size, const char *expected) {
    CLEANUP(buf_free) struct buf clean = BUF_INIT;
    text_clean(&clean, text, size);
    assert_string_equal(buf_string(&clean), expected);
}

static void terminals_are_safe_from_text(void **state) {
    (void)state;
    static const struct {
        const char *text, *clean;
    } cases[] = {
        {"plain\n\ttext", "plain\n\ttext"},
        {"\033[31mred", "\\x1B[31mred"},
        {"bell\a back\b del\x7f cr\r", "bell\\x07 back\\x08 del\\x7F cr\\x0D"},
        {"\xc2\x9b"
         "31m",
         "\\x9B31m"},
        {"größe 漢字 \xf0\x9f\x90\xb1", "größe 漢字 \xf0\x9f\x90\xb1"},
        {"a\xe2\x80\xae"
         "b",
         "a\\u{202E}b"},
        {"broken \xff \xc3", "broken \\xFF \\xC3"},
        {"\"quotes\" and \\", "\"quotes\" and \\"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) expect_clean(cases[i].text, strlen(cases[i].text), cases[i].clean);
    expect_clean("a\0b", 3, "a\\x00b");
}

/* The name of a folder can't add a line to what is shown of it. */
static void a_name_stays_on_its_line(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    static const char name[] = "/tmp/a\nstatus  running\033[2J";
    text_clean_line(&line, name, strlen(name));
    assert_string_equal(buf_string(&line), "/tmp/a\\nstatus  running\\x1B[2J");
}

static void widths_are_columns(void **state) {
    (void)state;
    assert_int_equal(text_width(""), 0);
    assert_int_equal(text_width("abc"), 3);
    assert_int_equal(text_width("größe"), 5);
    assert_int_equal(text_width("漢字"), 4);
    assert_int_equal(text_width("e\xcc\x81"), 1);
    assert_int_equal(text_width("\xf0\x9f\x90\xb1"), 2);
}

static void expect_format(const char *key, const char *value, const char *expected) {
    CLEANUP_JSON json_t *json = json_loads(value, JSON_DECODE_ANY, NULL);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    assert_non_null(json);
    format_value(key, json, &text);
    assert_string_equal(buf_string(&text), expected);
}

static void values_show_their_unit(void **state) {
    (void)state;
    expect_format("memory_bytes", "67108864", "64 MiB");
    expect_format("memory_bytes", "1234567", "1.2 MiB");
    expect_format("memory_bytes", "512", "512 B");
    expect_format("uptime_ms", "250", "250 ms");
    expect_format("uptime_ms", "5000", "5 s");
    expect_format("uptime_ms", "1500", "1.5 s");
    expect_format("uptime_ms", "3723000", "1 h 2 min");
    expect_format("uptime_ms", "90061000", "1 d 1 h");
    expect_format("duration_us", "250", "250 µs");
    expect_format("duration_us", "2500", "2.5 ms");
    expect_format("cpu_percent", "50", "50 %");
    expect_format("cpu_percent", "null", "-");
    expect_format("processes", "42", "42");
    expect_format("frozen", "false", "no");
    expect_format("modules", "[\"A\",\"B\"]", "A, B");
    expect_format("modules", "[]", "-");
    expect_format("source", "\"a\\u001bb\"", "a\\x1Bb");
}

static void colour_is_off_without_a_terminal(void **state) {
    (void)state;
    assert_string_equal(style_code(false, STYLE_RED), "");
    assert_string_equal(style_code(true, STYLE_RED), "\033[31m");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terminals_are_safe_from_text),
        cmocka_unit_test(a_name_stays_on_its_line),
        cmocka_unit_test(widths_are_columns),
        cmocka_unit_test(values_show_their_unit),
        cmocka_unit_test(colour_is_off_without_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
