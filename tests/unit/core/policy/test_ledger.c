/* Builds count in their owner's quota, once, until they are swept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/policy/ledger.h"

enum { OWNER = 1000, OTHER = 1001 };

#define MIB (UINT64_C(1) << 20)

static struct quota_rules rules;
static struct ledger ledger;

static int begin(void **state) {
    (void)state;
    quota_rules_init(&rules, 2048 * MIB);
    assert_int_equal(quota_rule_set(&rules.items[0], "disk", "10M", NULL), 0);
    return quotas_open(&(struct quotas_config){.rules = &rules, .service_uid = 1}, &ledger.quotas, NULL);
}

static int end(void **state) {
    uid_t uid;
    (void)state;
    ledger_free(&ledger);
    assert_int_equal(quotas_principals(ledger.quotas, &uid, 1), 0); /* all was given back */
    ledger.quotas = quotas_close(ledger.quotas);
    return 0;
}

static uint64_t held(uid_t uid) {
    return quotas_held(ledger.quotas, uid, QUOTA_DISK);
}

static void put(const char *digest, uint64_t bytes) {
    assert_int_equal(ledger_admit(&ledger, OWNER, bytes, NULL), 0);
    ledger_add(&ledger, OWNER, digest, bytes, true);
}

static void test_a_quota_is_used_up_at_its_edge(void **state) {
    (void)state;
    struct error error;
    put("a", 4 * MIB);
    put("b", 6 * MIB);
    assert_int_equal(held(OWNER), 10 * MIB);
    assert_int_equal(ledger_admit(&ledger, OWNER, 1, &error), -E_LIMIT);
    assert_non_null(strstr(error.detail, "quota \"disk\" is used up"));
    assert_true(ledger_is_short(&ledger, OWNER));
    assert_false(ledger_is_short(&ledger, OTHER));
    assert_int_equal(ledger_admit(&ledger, OTHER, 10 * MIB, &error), 0); /* another user's room is its own */
    ledger_give_back(&ledger, OTHER, 10 * MIB);
    ledger_swept(&ledger, (const char *const[]){"a", NULL});
    assert_int_equal(held(OWNER), 4 * MIB);
    assert_false(ledger_is_short(&ledger, OWNER));
    put("c", 6 * MIB);
}

static void test_a_build_counts_once(void **state) {
    (void)state;
    put("a", 4 * MIB);
    put("a", 4 * MIB); /* the same content again */
    ledger_add(&ledger, OTHER, "a", 4 * MIB, false);
    assert_int_equal(held(OWNER), 4 * MIB);
    assert_int_equal(held(OTHER), 0);
}

/* What an earlier daemon left, and what a reload made, is there: it counts, and leaves no room. */
static void test_what_is_there_counts_beyond_the_quota(void **state) {
    (void)state;
    struct error error;
    ledger_add(&ledger, OWNER, "a", 12 * MIB, false);
    assert_int_equal(held(OWNER), 12 * MIB);
    assert_int_equal(ledger_admit(&ledger, OWNER, 1, &error), -E_LIMIT);
    ledger_swept(&ledger, (const char *const[]){NULL});
    assert_int_equal(held(OWNER), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_quota_is_used_up_at_its_edge, begin, end),
        cmocka_unit_test_setup_teardown(test_a_build_counts_once, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_there_counts_beyond_the_quota, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
