/* Tests plans as text: parsing and printing are inverse, and bad text is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "jail/plan.h"

static const char whole[] = "node n1\n"
                            "hostname sandbox\n"
                            "network none\n"
                            "limit memory 18446744073709551615\n"
                            "limit cpu 50\n"
                            "weight 2\n"
                            "bind /a%20b /b\n"
                            "bind-exec /c /d\n"
                            "toolchain p1 /toolchain/otp\n"
                            "device null\n"
                            "tmpfs /data 75\n"
                            "volume _v /data\n"
                            "directory /app\n"
                            "proc\n"
                            "read /b\n"
                            "write /data\n"
                            "execute /d\n"
                            "seccomp strict\n"
                            "execs 2\n"
                            "reach public\n"
                            "host 10.0.0.0/8:5432\n"
                            "resolved 1.2.3.4:443\n"
                            "port 443\n"
                            "chdir /data\n"
                            "env A=%25%C3%A9\n"
                            "program /d/e\n"
                            "argument e\n"
                            "argument %\n";

static void what_is_parsed_prints_the_same(void **state) {
    (void)state;
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct error error = {0};
    if (jail_plan_parse(whole, strlen(whole), &plan, &error) < 0) fail_msg("%s", error.detail);
    jail_plan_print(&plan, &text);
    assert_string_equal(buf_string(&text), whole);
    uint64_t number = 0;
    assert_true(jail_plan_number(&plan, JAIL_PLAN_LIMIT, &number));
    assert_true(number == UINT64_MAX);
    assert_string_equal(jail_plan_word(&plan, JAIL_PLAN_BIND, 0), "/a b");
    assert_string_equal(jail_plan_word(&plan, JAIL_PLAN_ENV, 0), "A=%\xc3\xa9");
    assert_string_equal(jail_plan_word(&plan, JAIL_PLAN_ARGUMENT, 1), "");
}

static void every_verb_is_in_the_example(void **state) {
    (void)state;
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    struct error error;
    bool seen[JAIL_PLAN_VERB_COUNT] = {0};
    assert_int_equal(jail_plan_parse(whole, strlen(whole), &plan, &error), 0);
    for (size_t i = 0; i < plan.count; i++) seen[plan.ops[i].verb] = true;
    for (unsigned i = 0; i < JAIL_PLAN_VERB_COUNT; i++) assert_true(seen[i]);
}

static void absent_things_are_absent(void **state) {
    (void)state;
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    struct error error;
    assert_int_equal(jail_plan_parse("node n1", 7, &plan, &error), 0);
    uint64_t number = 5;
    assert_false(jail_plan_number(&plan, JAIL_PLAN_WEIGHT, &number));
    assert_int_equal(number, 5);
    assert_null(jail_plan_word(&plan, JAIL_PLAN_PROGRAM, 0));
}

static void assert_refused(const char *text, size_t size, enum error_code code, const char *detail) {
    struct jail_plan plan = {.count = 77};
    struct error error = {0};
    if (jail_plan_parse(text, size, &plan, &error) == 0) fail_msg("accepted: %.60s", text);
    assert_int_equal(error.code, code);
    assert_int_equal(plan.count, 77);
    if (!strstr(error.detail, detail)) fail_msg("'%s' lacks '%s'", error.detail, detail);
}

static void bad_text_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *detail;
    } bad[] = {
        {"", "empty"},
        {"\n", "no such verb"},
        {"weight 1\n", "starts with"},
        {"hostname x\nnode n1\n", "line 1"},
        {"node n1\nnode n2\n", "line 2: a plan starts with"},
        {"node .n\n", "not a name"},
        {"node a/b\n", "not a name"},
        {"node %\n", "not a name"},
        {"node\n", "lacks an operand"},
        {"node n1 n2\n", "too many"},
        {"node n1\n\nproc\n", "line 2: there is no such verb"},
        {"node n1\nfly me\n", "line 2: there is no such verb"},
        {"node n1\nweight\n", "weight lacks"},
        {"node n1\nweight -1\n", "wants a number"},
        {"node n1\nweight +1\n", "wants a number"},
        {"node n1\nweight 1k\n", "wants a number"},
        {"node n1\nweight 0x10\n", "wants a number"},
        {"node n1\nweight 18446744073709551616\n", "wants a number"},
        {"node n1\nweight 1 2\n", "too many"},
        {"node n1\nweight  1\n", "badly encoded"},
        {"node n1\nweight 1\nproc\nweight 1\n", "line 4: weight is given twice"},
        {"node n1\nlimit memory\n", "limit lacks"},
        {"node n1\nmemory 1\n", "line 2: there is no such verb"},
        {"node n1\nproc\nproc\n", "proc is given twice"},
        {"node n1\nproc x\n", "too many"},
        {"node n1\nbind /a\n", "bind lacks"},
        {"node n1\nbind /a%2 /b\n", "badly encoded"},
        {"node n1\nenv A=%00\n", "badly encoded"},
        {"node n1\nenv A=\x80\n", "badly encoded"},
        {"node n1\ntmpfs 4096 /data\n", "wants a number"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_refused(bad[i].text, strlen(bad[i].text), E_FORMAT, bad[i].detail);
    assert_refused("node n1\0proc", 12, E_FORMAT, "zero byte");
}

static void length_is_bounded(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_append_string(&text, "node n1\n");
    for (int i = 0; i < PLAN_OPS_MAX - 1; i++) buf_append_string(&text, "argument x\n");
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    struct error error;
    assert_int_equal(jail_plan_parse((const char *)text.data, text.size, &plan, &error), 0);
    assert_int_equal(plan.count, PLAN_OPS_MAX);
    buf_append_string(&text, "argument x\n");
    assert_refused(buf_string(&text), text.size, E_TOO_LARGE, "at most");
    buf_clear(&text);
    while (text.size <= JAIL_MESSAGE_BYTES) buf_append_string(&text, "node n1\n");
    assert_refused(buf_string(&text), text.size, E_TOO_LARGE, "longer");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_parsed_prints_the_same),
        cmocka_unit_test(every_verb_is_in_the_example),
        cmocka_unit_test(absent_things_are_absent),
        cmocka_unit_test(bad_text_is_refused),
        cmocka_unit_test(length_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
