/* Tests the scan of Elixir and Erlang sources: calls that are found, and text that only looks like one. */
#include "guard_test.h"

/* What is found in a text: "System.cmd:3 os:cmd:4". */
static void expect(enum scan_language language, const char *text, const char *expected) {
    CLEANUP(scan_free) struct scan_report report = {0};
    CLEANUP(buf_free) struct buf told = BUF_INIT;
    struct error error = {0};
    size_t index;
    json_t *finding;
    begin(&report, STRICT);
    if (scan_source(&report, "lib/a.ex", text, strlen(text), language, &error) < 0) fail_msg("%s", error.detail);
    json_array_foreach(report.findings, index, finding) {
        assert_string_equal(member(finding, "kind"), "source");
        assert_string_equal(member(finding, "file"), "lib/a.ex");
        buf_printf(&told, "%s%s:%d", index > 0 ? " " : "", member(finding, "calls"),
                   (int)json_integer_value(json_object_get(finding, "line")));
    }
    assert_string_equal(buf_string(&told), expected);
}

static void test_elixir_calls(void **state) {
    (void)state;
    expect(SCAN_ELIXIR, "defmodule A do\n  @version System.cmd(\"git\", [])\nend", "System.cmd:2");
    expect(SCAN_ELIXIR, "defmacrop m(c), do: quote(do: :os.cmd(unquote(c)))", "os:cmd:1");
    expect(SCAN_ELIXIR, "x = \"#{File.read!(\"/etc/shadow\")}\"", "File.read!:1");
    expect(SCAN_ELIXIR, "System.cmd \"ls\", []\n&System.shell/1", "System.cmd:1 System.shell:2");
    expect(SCAN_ELIXIR, "alias System, as: S\nS.cmd(1)", "System.cmd:2");
    expect(SCAN_ELIXIR, "Elixir.System.cmd(1)", "System.cmd:1");
}

static void test_elixir_look_alikes(void **state) {
    (void)state;
    expect(SCAN_ELIXIR, "os = 1\nfile = os.cmd\nx.file.open\n%{os: :cmd, file: File}", "");
    expect(SCAN_ELIXIR, "alias My.System\nSystem.cmd(1)", "");
    expect(SCAN_ELIXIR, "alias My.{File, System}\nSystem.cmd(1)\nFile.read(2)", "");
    expect(SCAN_ELIXIR, "defmodule A do\ndefmodule System do\nend\nSystem.cmd(1)\nend", "");
    expect(SCAN_ELIXIR, "My.System.cmd(1)\nSystem.Other.cmd(2)", "");
    expect(SCAN_ELIXIR, "# System.cmd(1)\n@doc \"\"\"\nSystem.cmd(2)\n\"\"\"\n~s(System.cmd)", "");
    expect(SCAN_ELIXIR, "@type t :: File.t() | Port.t()\n@spec f(Registry.t()) :: Module.t()", "");
    expect(SCAN_ELIXIR, "System.get_env(\"A\")\nString.upcase(\"b\")\nPath.join(1, 2)", "");
}

static void test_erlang_calls(void **state) {
    (void)state;
    expect(SCAN_ERLANG, "f() -> os:cmd(\"ls\").", "os:cmd:1");
    expect(SCAN_ERLANG, "-define(RUN(X), os:cmd(X)).\nf() -> fun os:cmd/1.", "os:cmd:1 os:cmd:2");
    expect(SCAN_ERLANG, "f() -> 'os':'cmd'(X).", "os:cmd:1");
}

static void test_erlang_look_alikes(void **state) {
    (void)state;
    expect(SCAN_ERLANG, "% os:cmd(X)\nf(Os) -> \"os:cmd(X)\", Os:cmd(X), {os, cmd}.", "");
    expect(SCAN_ERLANG, "-spec f(rpc:key()) ->\n  rpc:key().\n-type t() :: erl_eval:bindings().\nf() -> ok.", "");
    expect(SCAN_ERLANG, "f(Os) -> <<Os:8, X:16/little>>, #{os => cmd}.", "");
}

static void test_transforms(void **state) {
    (void)state;
    CLEANUP(scan_free) struct scan_report report = {0};
    static const char text[] = "-module(a).\n-compile([export_all, {parse_transform, my_transform}]).\n";
    begin(&report, STRICT);
    assert_int_equal(scan_source(&report, "a.erl", text, strlen(text), SCAN_ERLANG, NULL), 0);
    json_t *note = json_array_get(report.notes, 0);
    assert_string_equal(member(note, "kind"), "parse_transform");
    assert_string_equal(member(note, "module"), "my_transform");
    assert_int_equal(json_integer_value(json_object_get(note, "line")), 2);
}

/* What a BEAM file already told is not told again; lines may be one off. */
static void test_known(void **state) {
    (void)state;
    CLEANUP(scan_free) struct scan_report report = {0};
    struct scan_place place = {.module = {"m", 1}, .function = {"f", 1}, .file = {"/src/project/a.erl", 18}, .line = 3};
    struct scan_target target = {.module = {"os", 2}, .function = {"cmd", 3}, .arity = 1};
    static const char text[] = "\nf() ->\n\n os:cmd(1),\n\n\n os:cmd(2).";
    begin(&report, STRICT);
    assert_int_equal(scan_call(&report, SCAN_CALL, &place, &target, NULL), 0);
    assert_int_equal(scan_source(&report, "src/a.erl", text, strlen(text), SCAN_ERLANG, NULL), 0);
    assert_int_equal(report.finding_count, 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(report.findings, 1), "line")), 7);
}

static void test_many(void **state) {
    (void)state;
    CLEANUP(scan_free) struct scan_report report = {0};
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    for (int i = 0; i < 3 * SCAN_FINDINGS_MAX; i++) buf_append_string(&text, "f() -> os:cmd(1).\n\n");
    begin(&report, STRICT);
    assert_int_equal(scan_source(&report, "a.erl", buf_string(&text), text.size, SCAN_ERLANG, NULL), 0);
    assert_int_equal(json_array_size(report.findings), SCAN_FINDINGS_MAX);
    assert_int_equal(report.finding_count, 3 * SCAN_FINDINGS_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elixir_calls), cmocka_unit_test(test_elixir_look_alikes),
        cmocka_unit_test(test_erlang_calls), cmocka_unit_test(test_erlang_look_alikes),
        cmocka_unit_test(test_transforms),   cmocka_unit_test(test_known),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
