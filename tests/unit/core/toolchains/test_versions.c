/* Versions that a project's files name, and the toolchain that fits them best. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "core/toolchains/versions.h"

static void asdf_says(const char *text, const char *erlang, const char *elixir) {
    struct wanted_versions wanted = {0};
    wanted_read_tool_versions(text, strlen(text), &wanted);
    assert_string_equal(wanted.erlang, erlang);
    assert_string_equal(wanted.elixir, elixir);
}

static void mise_says(const char *text, const char *erlang, const char *elixir) {
    struct wanted_versions wanted = {0};
    wanted_read_mise(text, strlen(text), &wanted);
    assert_string_equal(wanted.erlang, erlang);
    assert_string_equal(wanted.elixir, elixir);
}

static void tool_versions_are_read(void **state) {
    (void)state;
    asdf_says("erlang 27.2\nelixir 1.18.1-otp-27\n", "27.2", "1.18.1-otp-27");
    asdf_says("# of the team\nnodejs 20\n  elixir\t1.18 1.17 # or older\r\nerlang 27.2", "27.2", "1.18");
    asdf_says("erlang 27\nerlang 26\n", "27", ""); /* the first counts */
    asdf_says("erlang\nerlang-ls 1\nerlang #27\n", "", "");
    asdf_says("", "", "");
    asdf_says("erlang 27.2.1.2.3.4.5.6.7.8.9.10.11.12.13.14\n", "", ""); /* no version is so long */
    asdf_says("erlang 27\x01\nelixir 1.18\xff\n", "", "");
}

static void mise_is_read(void **state) {
    (void)state;
    mise_says("[tools]\nerlang = \"27.2\"\nelixir = '1.18.1-otp-27'\n", "27.2", "1.18.1-otp-27");
    mise_says("[env]\nerlang = \"1\"\n[ tools ]\n\"erlang\" = [\"27\", \"26\"] # two\n[tasks]\nelixir = \"2\"\n", "27",
              "");
    mise_says("[tools]\nelixir = { os = \"linux\", version = \"1.18\" }\n", "", "1.18");
    mise_says("tools.erlang = \"27\"\n[x]\ntools.elixir = \"1\"\n", "27", "");
    mise_says("[tools]\nerlang = 27\nelixir\n=\n[tools\nerlang = \"5", "5", "");
    mise_says("[tools.erlang]\nversion = \"27\"\n", "", "");
    mise_says("", "", "");
}

static void the_first_file_counts(void **state) {
    (void)state;
    struct wanted_versions wanted = {0};
    static const char mise[] = "[tools]\nerlang = \"27\"\n", asdf[] = "erlang 26\nelixir 1.16\n";
    wanted_read_mise(mise, strlen(mise), &wanted);
    wanted_read_tool_versions(asdf, strlen(asdf), &wanted);
    assert_string_equal(wanted.erlang, "27");
    assert_string_equal(wanted.elixir, "1.16");
    assert_false(wanted_is_any(&wanted));
}

static void prefixes_fit_whole_numbers(void **state) {
    (void)state;
    assert_true(version_fits("27", "27"));
    assert_true(version_fits("27", "27.2.1"));
    assert_true(version_fits("27.2", "27.2.1"));
    assert_true(version_fits("latest", "27.2.1"));
    assert_true(version_fits("", "25"));
    assert_false(version_fits("2", "27"));
    assert_false(version_fits("27.2", "27.21"));
    assert_false(version_fits("27.2.1", "27.2"));
    assert_false(version_fits("ref:master", "27"));
}

static const struct version_candidate candidates[] = {
    {.otp = "25.2.3", .elixir = "1.14.0", .is_system = true, .is_default = true},
    {.otp = "27.1", .elixir = "1.18.1"},
    {.otp = "27.3.4", .elixir = "1.18.1"},
    {.otp = "27.3.4", .elixir = "1.17.3-otp-27"},
    {.otp = "29.1", .elixir = ""},
};

static size_t choose(const char *erlang, const char *elixir) {
    struct wanted_versions wanted = {0};
    strcpy(wanted.erlang, erlang);
    strcpy(wanted.elixir, elixir);
    return versions_choose(&wanted, candidates, ARRAY_SIZE(candidates));
}

static void the_newest_that_fits_is_chosen(void **state) {
    (void)state;
    assert_int_equal(choose("27", ""), 2);
    assert_int_equal(choose("27.1", ""), 1);
    assert_int_equal(choose("27", "1.17"), 3);
    assert_int_equal(choose("", "1.18.1-otp-27"), 2);
    assert_int_equal(choose("", "1.18.1-otp-26"), ARRAY_SIZE(candidates));
    assert_int_equal(choose("29", ""), 4);
    assert_int_equal(choose("29", "1.18"), ARRAY_SIZE(candidates));
    assert_int_equal(choose("26", ""), ARRAY_SIZE(candidates));
}

static void the_default_comes_first(void **state) {
    (void)state;
    assert_int_equal(choose("latest", ""), 0);
    assert_int_equal(choose("25", "1.14"), 0);
    assert_int_equal(choose("system", "system"), 0);
    assert_int_equal(choose("system", "1.18"), ARRAY_SIZE(candidates));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tool_versions_are_read),         cmocka_unit_test(mise_is_read),
        cmocka_unit_test(the_first_file_counts),          cmocka_unit_test(prefixes_fit_whole_numbers),
        cmocka_unit_test(the_newest_that_fits_is_chosen), cmocka_unit_test(the_default_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
