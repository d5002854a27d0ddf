/* Builds count in their owner's quota, once, until they are swept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <uv.h>

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
    assert_int_equal(ledger_admit(&ledger, OTHER, 10 * MIB, &error), 0); /* another user's room is its own */
    ledger_give_back(&ledger, OTHER, 10 * MIB);
    ledger_swept(&ledger, (const char *const[]){"a", NULL});
    assert_int_equal(held(OWNER), 4 * MIB);
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

static size_t spare_count(uid_t busy_uid) {
    CLEANUP(map_free) struct map busy = MAP_INIT, spare = MAP_INIT;
    assert_true(ledger_name_user(&busy, busy_uid));
    ledger_take_spare(&ledger, &busy, &spare);
    return spare.count;
}

static void test_builds_of_a_refused_user_are_spare_once_it_rests(void **state) {
    (void)state;
    struct error error;
    put("a", 4 * MIB);
    put("b", 6 * MIB);
    put("both", 0);
    ledger_add(&ledger, OTHER, "both", 0, false);
    ledger_add(&ledger, OTHER, "theirs", MIB, false);
    assert_int_equal(spare_count(OTHER), 0); /* none was refused */
    assert_int_equal(ledger_admit(&ledger, OWNER, 1, &error), -E_LIMIT);
    assert_int_equal(spare_count(OWNER), 0);
    assert_int_equal(spare_count(OTHER), 2);
    assert_int_equal(spare_count(OTHER), 0); /* once */
    assert_int_equal(held(OWNER), 10 * MIB);
}

static uint64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A search from the beginning for each would take hundreds of times as long as adding them did. */
static void test_many_builds_are_forgotten_in_one_pass(void **state) {
    enum { MANY = 100000, TIMES_MAX = 20 };
    char digest[32];
    (void)state;
    uint64_t begun_ns = cpu_ns();
    for (int i = 0; i < MANY; i++) {
        snprintf(digest, sizeof digest, "%d", i);
        ledger_add(&ledger, OWNER, digest, 1, false);
    }
    uint64_t added_ns = cpu_ns();
    ledger_swept(&ledger, (const char *const[]){"7", NULL});
    assert_in_range(cpu_ns() - added_ns, 0, TIMES_MAX * (added_ns - begun_ns));
    assert_int_equal(held(OWNER), 1);
}

static void test_bytes_of_versions_count_until_they_are_removed(void **state) {
    (void)state;
    struct error error;
    ledger_beams_written(&ledger, OWNER, 4 * MIB);
    ledger_beams_written(&ledger, OWNER, 8 * MIB); /* they are there already, whatever the quota says */
    assert_int_equal(held(OWNER), 12 * MIB);
    assert_int_equal(ledger_admit(&ledger, OWNER, 1, &error), -E_LIMIT);
    ledger_beams_removed(&ledger, OWNER, 4 * MIB);
    assert_int_equal(held(OWNER), 8 * MIB);
    ledger_beams_removed(&ledger, OWNER, 100 * MIB); /* more than was counted gives nothing */
    assert_int_equal(held(OWNER), 0);
    ledger_beams_removed(&ledger, OTHER, MIB);
    assert_int_equal(held(OTHER), 0);
    ledger_beams_written(&ledger, OTHER, MIB); /* given back at the end */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_quota_is_used_up_at_its_edge, begin, end),
        cmocka_unit_test_setup_teardown(test_a_build_counts_once, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_there_counts_beyond_the_quota, begin, end),
        cmocka_unit_test_setup_teardown(test_builds_of_a_refused_user_are_spare_once_it_rests, begin, end),
        cmocka_unit_test_setup_teardown(test_many_builds_are_forgotten_in_one_pass, begin, end),
        cmocka_unit_test_setup_teardown(test_bytes_of_versions_count_until_they_are_removed, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
