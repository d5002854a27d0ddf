/* Tests quota rules: which of user, group and default counts, and which sections are refused. */
#include <stdio.h>
#include <string.h>

#include "quota_test.h"

static struct quota_rules rules;

static int begin(void **state) {
    (void)state;
    quota_rules_init(&rules, 8 * GIB);
    return 0;
}

static uint64_t resolve(uid_t uid, enum quota quota, const gid_t *groups, size_t group_count) {
    struct quota_identity identity = {.uid = uid, .groups = groups, .group_count = group_count};
    return quota_rules_resolve(&rules, &identity, quota, NULL);
}

static void test_defaults(void **state) {
    (void)state;
    assert_int_equal(resolve(1000, QUOTA_CONNECTIONS, NULL, 0), 64);
    assert_int_equal(resolve(1000, QUOTA_MEMORY, NULL, 0), 4 * GIB);
    assert_true(resolve(1000, QUOTA_CPU, NULL, 0) == QUOTA_UNLIMITED);
}

static void test_equal(void **state) {
    static struct quota_rules other;
    struct quota_rule *rule;
    (void)state;
    memset(&other, 0x5a, sizeof other); /* whatever lies between the members */
    quota_rules_init(&other, 8 * GIB);
    assert_true(quota_rules_equal(&rules, &other));
    assert_int_equal(quota_rules_begin(&other, "quota", &rule, NULL), 0);
    assert_int_equal(quota_rule_set(rule, "connections", "9", NULL), 0);
    assert_false(quota_rules_equal(&rules, &other));
    assert_int_equal(quota_rules_begin(&rules, "quota", &rule, NULL), 0);
    assert_int_equal(quota_rule_set(rule, "connections", "9", NULL), 0);
    assert_true(quota_rules_equal(&rules, &other));
    assert_int_equal(quota_rules_begin(&other, "quota user 1000", &rule, NULL), 0);
    assert_false(quota_rules_equal(&rules, &other));
}

static void test_user_over_groups_over_all(void **state) {
    (void)state;
    static const gid_t both[] = {50, 60}, one[] = {50};
    add_rule(&rules, "quota", "sandboxes=5 streams=7");
    add_rule(&rules, "quota group 50", "sandboxes=10 memory=1G");
    add_rule(&rules, "quota group 60", "sandboxes=20 cpu=400%");
    add_rule(&rules, "quota user 1000", "sandboxes=2 memory=unlimited");
    assert_int_equal(resolve(1000, QUOTA_SANDBOXES, both, 2), 2); /* although groups give more */
    assert_true(resolve(1000, QUOTA_MEMORY, both, 2) == QUOTA_UNLIMITED);
    assert_int_equal(resolve(1000, QUOTA_CPU, both, 2), 400); /* the user's rule does not say */
    assert_int_equal(resolve(1001, QUOTA_SANDBOXES, both, 2), 20);
    assert_int_equal(resolve(1001, QUOTA_SANDBOXES, one, 1), 10);
    assert_int_equal(resolve(1001, QUOTA_SANDBOXES, NULL, 0), 5);
    assert_int_equal(resolve(1001, QUOTA_STREAMS, both, 2), 7);
    assert_string_equal(quota_rules_user(&rules, 1000), "1000");
    assert_null(quota_rules_user(&rules, 50)); /* a group's number is no user's */
}

/* A group may give less than the default. */
static void test_a_group_lowers(void **state) {
    (void)state;
    static const gid_t groups[] = {50};
    add_rule(&rules, "quota group 50", "connections=1 projects=0");
    assert_int_equal(resolve(1, QUOTA_CONNECTIONS, groups, 1), 1);
    assert_int_equal(resolve(1, QUOTA_PROJECTS, groups, 1), 0);
}

static void test_names(void **state) {
    (void)state;
    const struct quota_rule *from = NULL;
    add_rule(&rules, "quota user root", "log=1M");
    add_rule(&rules, "quota group root", "log=2M");
    struct quota_identity identity = {.uid = 0};
    assert_int_equal(quota_rules_resolve(&rules, &identity, QUOTA_LOG, &from), 1 << 20);
    assert_int_equal(from->whom, QUOTA_OF_USER);
    assert_string_equal(from->name, "root");
}

static void refuse_section(const char *header, const char *part) {
    struct quota_rule *rule = NULL;
    struct error error = {0};
    if (quota_rules_begin(&rules, header, &rule, &error) == 0) fail_msg("%s was accepted", header);
    assert_int_equal(error.code, E_INVALID);
    if (!strstr(error.detail, part)) fail_msg("'%s' does not say '%s'", error.detail, part);
    assert_null(rule);
}

static void refuse_line(const char *name, const char *value, const char *part) {
    struct error error = {0};
    if (quota_rule_set(&rules.items[0], name, value, &error) == 0) fail_msg("%s = %s was accepted", name, value);
    if (!strstr(error.detail, part)) fail_msg("'%s' does not say '%s'", error.detail, part);
}

static void test_what_is_refused(void **state) {
    (void)state;
    refuse_section("quota user no-such-user", "there is no user 'no-such-user'");
    refuse_section("quota group no-such-group", "there is no group 'no-such-group'");
    refuse_section("quota user ", "there is no user ''");
    refuse_section("quota role admin", "is no section of quotas");
    refuse_section("quota user 4294967295", "there is no user"); /* which means: unknown */
    add_rule(&rules, "quota user 0", "log=1M");
    refuse_section("quota user root", "two rules");
    refuse_line("bananas", "3", "there is no quota 'bananas'");
    refuse_line("memory", "much", "a size such as 4G");
    refuse_line("connections", "-1", "a number");
    refuse_line("cpu", "4 cores", "a percentage");
    refuse_line("connections", "18446744073709551614", "a number"); /* it would mean something else */
    add_rule(&rules, "quota", "streams=1");
    refuse_line("streams", "2", "twice");
}

static void test_only_so_many(void **state) {
    (void)state;
    char header[64];
    for (unsigned i = 1; i < QUOTA_RULES_MAX; i++) {
        snprintf(header, sizeof header, "quota user %u", i);
        add_rule(&rules, header, "streams=1");
    }
    refuse_section("quota user 5000", "more than");
}

static void test_as_text(void **state) {
    (void)state;
    char text[QUANTITY_BYTES];
    quota_to_text(QUOTA_MEMORY, 4 * GIB, text);
    assert_string_equal(text, "4G");
    quota_to_text(QUOTA_CPU, 400, text);
    assert_string_equal(text, "400%");
    quota_to_text(QUOTA_CPU, QUOTA_UNLIMITED, text);
    assert_string_equal(text, "unlimited");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_defaults, begin),
        cmocka_unit_test_setup(test_equal, begin),
        cmocka_unit_test_setup(test_user_over_groups_over_all, begin),
        cmocka_unit_test_setup(test_a_group_lowers, begin),
        cmocka_unit_test_setup(test_names, begin),
        cmocka_unit_test_setup(test_what_is_refused, begin),
        cmocka_unit_test_setup(test_only_so_many, begin),
        cmocka_unit_test_setup(test_as_text, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
