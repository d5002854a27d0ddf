/* Tests the launcher's check of plans: bad operands, missing lines, and how often each verb may come. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "jail/plan.h"

static void knows_clean_paths(void **state) {
    (void)state;
    static const char *const clean[] = {"/a", "/a/b.c", "/...", "/a/..b", "/usr/lib/x86_64-linux-gnu"};
    static const char *const unclean[] = {"",      "/",  "a",   "./a",   "//a",     "/a/",
                                          "/a//b", "/.", "/..", "/a/..", "/a/../b", "/a/./b"};
    for (size_t i = 0; i < ARRAY_SIZE(clean); i++)
        if (!path_is_clean(clean[i])) fail_msg("%s is clean", clean[i]);
    for (size_t i = 0; i < ARRAY_SIZE(unclean); i++)
        if (path_is_clean(unclean[i])) fail_msg("%s is not clean", unclean[i]);
    char too_long[PATH_MAX + 2];
    memset(too_long, 'a', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = '\0';
    for (size_t i = 0; i < sizeof too_long - 1; i += 100) too_long[i] = '/';
    assert_false(path_is_clean(too_long));
}

static struct jail_plan_op whole[] = {
    {.verb = JAIL_PLAN_NODE, .words = {(char *)"n1"}},
    {.verb = JAIL_PLAN_SECCOMP, .words = {(char *)"strict"}},
    {.verb = JAIL_PLAN_PROGRAM, .words = {(char *)"/bin/true"}},
    {.verb = JAIL_PLAN_ARGUMENT, .words = {(char *)""}},
};

static void needs_a_whole_plan(void **state) {
    (void)state;
    struct error error;
    struct jail_plan plan = {whole, ARRAY_SIZE(whole)};
    assert_int_equal(plan_check(&plan, &error), 0);
    for (plan.count = 0; plan.count < ARRAY_SIZE(whole); plan.count++) {
        assert_true(plan_check(&plan, &error) < 0);
        assert_int_equal(error.code, E_INVALID);
    }
}

static void assert_refused(struct jail_plan_op op, const char *detail) {
    struct error error = {0};
    struct jail_plan_op ops[ARRAY_SIZE(whole) + 1];
    memcpy(ops, whole, sizeof whole);
    ops[ARRAY_SIZE(whole)] = op;
    assert_true(plan_check(&(struct jail_plan){ops, ARRAY_SIZE(ops)}, &error) < 0);
    assert_int_equal(error.code, E_INVALID);
    assert_string_equal(error.detail, detail);
}

static void refuses_bad_operands(void **state) {
    (void)state;
    assert_refused((struct jail_plan_op){.verb = JAIL_PLAN_VERB_COUNT}, "the plan has an unknown verb");
    assert_refused(whole[0], "the plan has more than 1 node");
    assert_refused((struct jail_plan_op){.verb = JAIL_PLAN_BIND, .words = {(char *)"/a", NULL}},
                   "the plan's bind has a bad operand ''");
    assert_refused((struct jail_plan_op){.verb = JAIL_PLAN_BIND, .words = {(char *)"/a/../b", (char *)"/c"}},
                   "the plan's bind has a bad operand '/a/../b'");
    assert_refused((struct jail_plan_op){.verb = JAIL_PLAN_DEVICE, .words = {(char *)"mem"}},
                   "the plan's device has a bad operand 'mem'");
    assert_refused((struct jail_plan_op){.verb = JAIL_PLAN_TMPFS, .words = {(char *)"/app"}, .number = 1},
                   "the plan's tmpfs has a bad operand '/app'");
    assert_refused((struct jail_plan_op){.verb = JAIL_PLAN_ENV, .words = {(char *)"=x"}},
                   "the plan's env has a bad operand '=x'");
    assert_refused((struct jail_plan_op){.verb = JAIL_PLAN_HOSTNAME, .words = {(char *)"a b"}},
                   "the plan's hostname has a bad operand 'a b'");
    assert_refused((struct jail_plan_op){.verb = JAIL_PLAN_WEIGHT, .number = 0},
                   "the plan's weight of 0 is out of bounds");
}

static void equipment_is_no_more_than_that(void **state) {
    (void)state;
    struct error error = {0};
    struct jail_plan_op ops[] = {whole[0], {.verb = JAIL_PLAN_BIND, .words = {(char *)"/a", (char *)"/app/a"}}};
    struct jail_plan plan = {ops, ARRAY_SIZE(ops)};
    assert_int_equal(plan_check_equipment(&plan, &error), 0);
    ops[1].words[1] = (char *)"/app/../a";
    assert_true(plan_check_equipment(&plan, &error) < 0);
    assert_string_equal(error.detail, "the plan's bind has a bad operand '/app/../a'");
    ops[1] = (struct jail_plan_op){.verb = JAIL_PLAN_REACH, .words = {(char *)"public"}};
    assert_int_equal(plan_check_equipment(&plan, &error), 0);
    ops[1] = (struct jail_plan_op){.verb = JAIL_PLAN_HOST, .words = {(char *)"example.com"}};
    assert_true(plan_check_equipment(&plan, &error) < 0);
    assert_string_equal(error.detail, "the plan's host has a bad operand 'example.com'");
    ops[1] = (struct jail_plan_op){.verb = JAIL_PLAN_TMPFS, .words = {(char *)"/data"}, .number = 75};
    assert_true(plan_check_equipment(&plan, &error) < 0);
    assert_string_equal(error.detail, "a running node can't be given tmpfs");
}

static struct jail_plan_op limit_line(const char *name, uint64_t value) {
    return (struct jail_plan_op){.verb = JAIL_PLAN_LIMIT, .words = {(char *)name}, .number = value};
}

/* What may be asked of a running node is checked as what a node is started with. */
static int check_limits(struct jail_plan_op first, struct jail_plan_op second, bool is_equipment,
                        struct error *reterr) {
    struct jail_plan_op ops[ARRAY_SIZE(whole) + 2];
    size_t used = is_equipment ? 1 : ARRAY_SIZE(whole);
    memcpy(ops, whole, used * sizeof *ops);
    ops[used++] = first;
    ops[used++] = second;
    struct jail_plan plan = {ops, used};
    return is_equipment ? plan_check_equipment(&plan, reterr) : plan_check(&plan, reterr);
}

static void limits_are_known_once_and_within_bounds(void **state) {
    (void)state;
    const struct {
        struct jail_plan_op first, second;
        const char *detail;
    } bad[] = {
        {limit_line("cpu", 1), limit_line("colour", 5), "the kernel holds no limit 'colour'"},
        {limit_line("cpu", 1), limit_line("memory_bytes", 1 << 30), "the kernel holds no limit 'memory_bytes'"},
        {limit_line("cpu", 1), limit_line("atoms", 30000), "the kernel holds no limit 'atoms'"},
        {limit_line("cpu", 1), limit_line("ttl", 1), "the kernel holds no limit 'ttl'"},
        {limit_line("cpu", 1), limit_line("cpu", 1), "the plan has the limit cpu twice"},
        {limit_line("cpu", 1), limit_line("cpu", 2), "the plan has the limit cpu twice"},
        {limit_line("cpu", 1), limit_line("disk", 0), "the plan's limit of 0 is out of bounds"},
        {limit_line("cpu", 1), limit_line("disk", 1), "the plan's limit disk of 1 is out of bounds"},
        {limit_line("cpu", 1), limit_line("memory", UINT64_MAX),
         "the plan's limit memory of 18446744073709551615 is out of bounds"},
        {limit_line("cpu", 102401), limit_line("disk", 1 << 20), "the plan's limit cpu of 102401 is out of bounds"},
    };
    for (int is_equipment = 0; is_equipment < 2; is_equipment++) {
        struct error error = {0};
        assert_int_equal(check_limits(limit_line("cpu", 1), limit_line("disk", 1 << 20), is_equipment, &error), 0);
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
            assert_true(check_limits(bad[i].first, bad[i].second, is_equipment, &error) < 0);
            assert_int_equal(error.code, E_INVALID);
            assert_string_equal(error.detail, bad[i].detail);
        }
    }
}

/* Each limit of the kernel's at both of its bounds and beyond. */
static void bounds_are_those_of_the_table(void **state) {
    (void)state;
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) {
        const struct jail_limit_kind *kind = jail_limit_kind(i);
        if (kind->holder != JAIL_HELD_BY_KERNEL) continue;
        const struct {
            uint64_t value;
            bool is_good;
        } values[] = {{kind->least, true}, {kind->most, true}, {kind->least - 1, false}, {kind->most + 1, false}};
        for (size_t k = 0; k < ARRAY_SIZE(values); k++) {
            struct jail_plan_op ops[] = {whole[0], limit_line(kind->name, values[k].value)};
            struct jail_plan plan = {ops, ARRAY_SIZE(ops)};
            struct jail_limits limits = {.memory_bytes = 7};
            bool is_good = plan_limits(&plan, &limits, NULL) == 0;
            if (is_good != values[k].is_good) fail_msg("%s: %llu", kind->name, (unsigned long long)values[k].value);
            assert_int_equal(is_good ? jail_limit_get(&limits, i) : limits.memory_bytes, is_good ? values[k].value : 7);
        }
    }
}

/* A plan of the whole and so many lines more, half of which are the second. */
static int check_many(struct jail_plan_op first, struct jail_plan_op second, size_t count, bool is_equipment,
                      struct error *reterr) {
    struct jail_plan_op ops[PLAN_OPS_MAX];
    size_t used = is_equipment ? 1 : ARRAY_SIZE(whole);
    assert_in_range(used + count, 1, PLAN_OPS_MAX);
    memcpy(ops, whole, used * sizeof *ops);
    for (size_t i = 0; i < count; i++) ops[used++] = i % 2 ? second : first;
    struct jail_plan plan = {ops, used};
    return is_equipment ? plan_check_equipment(&plan, reterr) : plan_check(&plan, reterr);
}

#define PATHS .words = {(char *)"/a", (char *)"/b"}

/* Every verb that may come more than once. What plans are made into has room for so many. */
static void every_verb_is_bounded(void **state) {
    (void)state;
    static const struct {
        struct jail_plan_op op;
        size_t most;
    } verbs[] = {
        {{.verb = JAIL_PLAN_BIND, PATHS}, 256},
        {{.verb = JAIL_PLAN_BIND_EXEC, PATHS}, 256},
        {{.verb = JAIL_PLAN_DIRECTORY, PATHS}, 256},
        {{.verb = JAIL_PLAN_READ, PATHS}, 256},
        {{.verb = JAIL_PLAN_WRITE, PATHS}, 256},
        {{.verb = JAIL_PLAN_EXECUTE, PATHS}, 256},
        {{.verb = JAIL_PLAN_DEVICE, .words = {(char *)"null"}}, 8},
        {{.verb = JAIL_PLAN_TMPFS, .words = {(char *)"/tmp"}, .number = 1}, JAIL_DISKS},
        {{.verb = JAIL_PLAN_HOST, .words = {(char *)"10.0.0.1"}}, JAIL_HOSTS_MAX},
        {{.verb = JAIL_PLAN_RESOLVED, .words = {(char *)"10.0.0.1"}}, JAIL_RESOLVED_MAX},
        {{.verb = JAIL_PLAN_PORT, .number = 1}, JAIL_PORTS_MAX},
        {{.verb = JAIL_PLAN_ENV, .words = {(char *)"a=b"}}, 256},
        {{.verb = JAIL_PLAN_ARGUMENT, .words = {(char *)""}}, 1023}, /* and the one that is in the whole */
        {{.verb = JAIL_PLAN_REACH, .words = {(char *)"public"}}, 1},
        {{.verb = JAIL_PLAN_WEIGHT, .number = 1}, 1},
        {{.verb = JAIL_PLAN_LIMIT, .words = {(char *)"cpu"}, .number = 1}, 1},
    };
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        struct error error = {0};
        if (check_many(verbs[i].op, verbs[i].op, verbs[i].most, false, &error) < 0)
            fail_msg("verb %zu, at its bound: %s", i, error.detail);
        if (check_many(verbs[i].op, verbs[i].op, verbs[i].most + 1, false, &error) == 0)
            fail_msg("verb %zu, above its bound", i);
        assert_int_equal(error.code, E_INVALID);
    }
}

static void binds_are_counted_together(void **state) {
    (void)state;
    static const struct jail_plan_op bind = {.verb = JAIL_PLAN_BIND, PATHS},
                                     bind_exec = {.verb = JAIL_PLAN_BIND_EXEC, PATHS};
    for (int is_equipment = 0; is_equipment < 2; is_equipment++) {
        struct error error = {0};
        assert_int_equal(check_many(bind, bind_exec, PLAN_BINDS_MAX, is_equipment, &error), 0);
        assert_true(check_many(bind, bind_exec, PLAN_BINDS_MAX + 1, is_equipment, &error) < 0);
        assert_string_equal(error.detail, "the plan has more than 256 binds");
        assert_true(check_many(bind, bind_exec, 2 * PLAN_BINDS_MAX, is_equipment, &error) < 0);
    }
}

static void equipment_has_known_verbs(void **state) {
    (void)state;
    struct error error = {0};
    struct jail_plan_op ops[] = {whole[0], {.verb = JAIL_PLAN_VERB_COUNT + 1000}};
    assert_true(plan_check_equipment(&(struct jail_plan){ops, ARRAY_SIZE(ops)}, &error) < 0);
    assert_string_equal(error.detail, "the plan has an unknown verb");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_clean_paths),
        cmocka_unit_test(needs_a_whole_plan),
        cmocka_unit_test(refuses_bad_operands),
        cmocka_unit_test(equipment_is_no_more_than_that),
        cmocka_unit_test(limits_are_known_once_and_within_bounds),
        cmocka_unit_test(bounds_are_those_of_the_table),
        cmocka_unit_test(every_verb_is_bounded),
        cmocka_unit_test(binds_are_counted_together),
        cmocka_unit_test(equipment_has_known_verbs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
