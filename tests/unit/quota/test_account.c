/* Tests the accounts of users: taking and giving, pools, rates, and accounts that are forgotten. */
#include <stdio.h>

#include "quota_test.h"

enum { SERVICE = 500, USER = 1000, OTHER = 1001, MINUTE_MS = 60000 };

static struct quota_rules rules;
static struct principals principals;
static struct quotas *quotas;
static uint64_t now_ms;
static uint64_t told_left_out;

static uint64_t get_now_ms(void) {
    return now_ms;
}

static void on_left_out(void *data, uid_t uid, uint64_t count) {
    (void)data;
    assert_int_equal(uid, USER);
    told_left_out += count;
}

static int begin(void **state) {
    (void)state;
    struct error error;
    now_ms = 1000;
    told_left_out = 0;
    quota_rules_init(&rules, 8 * GIB);
    struct quotas_config config = {.rules = &rules,
                                   .service_uid = SERVICE,
                                   .principals = &principals,
                                   .now_ms = get_now_ms,
                                   .left_out = on_left_out};
    return quotas_open(&config, &quotas, &error);
}

static int end(void **state) {
    (void)state;
    principals = (struct principals){0};
    quotas = quotas_close(quotas);
    return 0;
}

static void take(uid_t uid, enum quota quota, uint64_t amount) {
    struct error error;
    if (quotas_take(quotas, uid, quota, amount, &error) < 0) fail_msg("%s", error.detail);
}

static void refuse(uid_t uid, enum quota quota, uint64_t amount, const char *detail) {
    struct error error = {0};
    if (quotas_take(quotas, uid, quota, amount, &error) == 0) fail_msg("it was given");
    assert_int_equal(error.code, E_LIMIT);
    if (detail) assert_string_equal(error.detail, detail);
}

struct seen {
    uint64_t used[QUOTAS], limit[QUOTAS];
};

static void see(void *data, const struct quota_state *state) {
    struct seen *seen = data;
    seen->used[state->quota] = state->used;
    seen->limit[state->quota] = state->limit;
}

static struct seen show(uid_t uid) {
    struct seen seen = {0};
    quotas_show(quotas, uid, see, &seen);
    return seen;
}

static size_t count_accounts(void) {
    uid_t uids[64];
    return quotas_principals(quotas, uids, ARRAY_SIZE(uids));
}

static void test_taking_and_giving(void **state) {
    (void)state;
    add_rule(&rules, "quota", "connections=2");
    take(USER, QUOTA_CONNECTIONS, 1);
    take(USER, QUOTA_CONNECTIONS, 1);
    refuse(USER, QUOTA_CONNECTIONS, 1, "quota \"connections\" is used up: 2 of 2 (uid 1000)");
    take(OTHER, QUOTA_CONNECTIONS, 1); /* which is another's */
    quotas_give(quotas, USER, QUOTA_CONNECTIONS, 1);
    take(USER, QUOTA_CONNECTIONS, 1);
    assert_int_equal(show(USER).used[QUOTA_CONNECTIONS], 2);
    assert_int_equal(show(OTHER).used[QUOTA_CONNECTIONS], 1);
}

static void test_a_sum(void **state) {
    (void)state;
    add_rule(&rules, "quota user 1000", "memory=4G");
    take(USER, QUOTA_MEMORY, 3 * GIB);
    refuse(USER, QUOTA_MEMORY, 2 * GIB, "quota \"memory\" is used up: 3G of 4G (user 1000), and 2G more are asked for");
    refuse(USER, QUOTA_MEMORY, UINT64_MAX, NULL); /* a sum that wraps would be small */
    take(USER, QUOTA_MEMORY, GIB);
    refuse(OTHER, QUOTA_MEMORY, 1000 * GIB,
           "quota \"memory\" is used up: 0 of 4G (uid 1001), and 1000G more are asked for");
}

static void test_root_and_the_service_are_counted_and_not_bound(void **state) {
    (void)state;
    static const uid_t unbound[] = {0, SERVICE};
    add_rule(&rules, "quota", "sandboxes=0 log=0");
    refuse(USER, QUOTA_SANDBOXES, 1, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(unbound); i++) {
        struct error error;
        take(unbound[i], QUOTA_SANDBOXES, 5000);
        assert_int_equal(show(unbound[i]).used[QUOTA_SANDBOXES], 5000);
        assert_true(show(unbound[i]).limit[QUOTA_SANDBOXES] == QUOTA_UNLIMITED);
        assert_int_equal(quotas_spend(quotas, unbound[i], QUOTA_LOG, 1 << 30, false, &error), 0);
    }
}

static void test_places_are_kept_free(void **state) {
    (void)state;
    assert_int_equal(quotas_share(quotas, USER, 1024, 32), 992);
    assert_int_equal(quotas_share(quotas, 0, 1024, 32), 1024);
    assert_int_equal(quotas_share(quotas, SERVICE, 1024, 32), 1024);
    assert_int_equal(quotas_share(quotas, USER, 2, 32), 1); /* of a few, half */
    assert_int_equal(quotas_share(NULL, USER, 1024, 32), 1024);
}

static void test_pools_are_shared(void **state) {
    (void)state;
    assert_true(quotas_is_fair(quotas, USER, &(struct share){.all = 24, .used = 6, .own = 6}));
    assert_false(quotas_is_fair(quotas, USER, &(struct share){.all = 24, .used = 7, .own = 7}));
    assert_true(quotas_is_fair(quotas, 0, &(struct share){.all = 24, .used = 24, .own = 24}));
    assert_true(quotas_is_fair(quotas, SERVICE, &(struct share){.all = 24, .used = 24, .own = 1}));
    assert_false(quotas_is_fair(quotas, 0, &(struct share){.all = 24, .used = 25, .own = 1}));
    assert_true(quotas_is_fair(NULL, USER, &(struct share){.all = 24, .used = 24, .own = 24}));
}

/* A quota that is lower than what is held takes nothing away. */
static void test_lowered(void **state) {
    (void)state;
    add_rule(&rules, "quota", "sandboxes=2");
    quotas_count(quotas, USER, QUOTA_SANDBOXES, 1);
    quotas_count(quotas, USER, QUOTA_SANDBOXES, 3);
    assert_int_equal(show(USER).used[QUOTA_SANDBOXES], 4);
    refuse(USER, QUOTA_SANDBOXES, 1, "quota \"sandboxes\" is used up: 4 of 2 (uid 1000)");
    take(USER, QUOTA_SANDBOXES, 0); /* what asks for no more of it is not refused */
    quotas_give(quotas, USER, QUOTA_SANDBOXES, 2);
    refuse(USER, QUOTA_SANDBOXES, 1, "quota \"sandboxes\" is used up: 2 of 2 (uid 1000)");
    quotas_give(quotas, USER, QUOTA_SANDBOXES, 1);
    take(USER, QUOTA_SANDBOXES, 1);
}

/* The groups of a principal are known from its last connection. */
static void test_groups(void **state) {
    (void)state;
    static const gid_t groups[] = {50, 60};
    add_rule(&rules, "quota", "streams=1");
    add_rule(&rules, "quota group 60", "streams=2");
    take(USER, QUOTA_STREAMS, 1);
    refuse(USER, QUOTA_STREAMS, 1, NULL);
    quotas_introduce(quotas, &(struct quota_identity){USER, groups, 2});
    assert_true(quotas_in_group(quotas, USER, 60));
    assert_false(quotas_in_group(quotas, OTHER, 60));
    take(USER, QUOTA_STREAMS, 1);
    quotas_introduce(quotas, &(struct quota_identity){USER, groups, 1});
    assert_false(quotas_in_group(quotas, USER, 60));
    refuse(USER, QUOTA_STREAMS, 1, "quota \"streams\" is used up: 2 of 1 (uid 1000)");
}

static int spend(uint64_t amount, bool may_overdraw) {
    struct error error;
    return quotas_spend(quotas, USER, QUOTA_LOG, amount, may_overdraw, &error);
}

static void test_a_rate_refills(void **state) {
    (void)state;
    add_rule(&rules, "quota", "log=60000");
    assert_int_equal(spend(60000, false), 0); /* a minute's worth at once */
    assert_int_equal(spend(1, false), -E_LIMIT);
    now_ms += 10;
    assert_int_equal(spend(11, false), -E_LIMIT);
    assert_int_equal(spend(10, false), 0);
    now_ms += 10 * MINUTE_MS;
    assert_int_equal(spend(60001, false), -E_LIMIT); /* and no more than that, however long it was quiet */
    assert_int_equal(spend(60000, false), 0);
}

static void test_small_steps_add_up(void **state) {
    (void)state;
    add_rule(&rules, "quota", "log=600"); /* one byte in 100 ms */
    assert_int_equal(spend(600, false), 0);
    for (unsigned i = 0; i < 99; i++) {
        now_ms++;
        assert_int_equal(spend(1, false), -E_LIMIT);
    }
    now_ms++;
    assert_int_equal(spend(1, false), 0);
    assert_int_equal(spend(1, false), -E_LIMIT);
}

static void test_what_ends_something_overdraws(void **state) {
    (void)state;
    add_rule(&rules, "quota", "log=60000");
    assert_int_equal(spend(60000, false), 0);
    assert_int_equal(spend(60000, true), 0);
    assert_int_equal(spend(1, true), -E_LIMIT);
    now_ms += MINUTE_MS;
    assert_int_equal(spend(1, false), -E_LIMIT);
    assert_int_equal(spend(1, true), 0);
    quotas_charge(quotas, USER, QUOTA_LOG, 1 << 20);
    assert_int_equal(spend(1, true), -E_LIMIT);
}

static void test_what_was_left_out_is_told_once(void **state) {
    (void)state;
    add_rule(&rules, "quota", "log=60000");
    assert_int_equal(spend(60000, false), 0);
    for (unsigned i = 0; i < 3; i++) quotas_leave_out(quotas, USER);
    assert_int_equal(quotas_take_left_out(quotas, USER), 3);
    assert_int_equal(quotas_take_left_out(quotas, USER), 0);
    quotas_leave_out(quotas, USER);
    now_ms += 2 * MINUTE_MS;
    take(OTHER, QUOTA_CONNECTIONS, 1); /* meanwhile the account is forgotten */
    assert_int_equal(told_left_out, 1);
}

/* Principals that come and go leave nothing. */
static void test_accounts_are_forgotten(void **state) {
    (void)state;
    for (uid_t uid = 2000; uid < 12000; uid++) {
        take(uid, QUOTA_CONNECTIONS, 1);
        take(uid, QUOTA_MEMORY, GIB);
        quotas_give(quotas, uid, QUOTA_CONNECTIONS, 1);
        quotas_give(quotas, uid, QUOTA_MEMORY, GIB);
    }
    assert_int_equal(count_accounts(), 0);
    assert_int_equal(spend(1000, false), 0);
    refuse(OTHER, QUOTA_MEMORY, 1000 * GIB, NULL);
    assert_int_equal(count_accounts(), 1); /* its rate is not full yet */
    now_ms += MINUTE_MS;
    take(OTHER, QUOTA_CONNECTIONS, 1);
    assert_int_equal(count_accounts(), 1);
    quotas_give(quotas, USER, QUOTA_CONNECTIONS, 1); /* of none */
}

/* They may be in groups that their user is not in, and the other way round. */
static void test_subordinate_uids_share_their_users_account(void **state) {
    (void)state;
    struct principals_range range = {100000, 165535, USER};
    principals = (struct principals){&range, 1};
    add_rule(&rules, "quota", "connections=2");
    gid_t groups[] = {50};
    quotas_introduce(quotas, &(struct quota_identity){.uid = USER, .groups = groups, .group_count = 1});
    quotas_introduce(quotas, &(struct quota_identity){.uid = 100000});
    take(USER, QUOTA_CONNECTIONS, 1);
    take(100000, QUOTA_CONNECTIONS, 1);
    refuse(100001, QUOTA_CONNECTIONS, 1, "quota \"connections\" is used up: 2 of 2 (uid 1000)");
    refuse(USER, QUOTA_CONNECTIONS, 1, NULL);
    assert_int_equal(quotas_held(quotas, 165535, QUOTA_CONNECTIONS), 2);
    assert_int_equal(show(100009).used[QUOTA_CONNECTIONS], 2);
    assert_int_equal(count_accounts(), 1);
    assert_true(quotas_in_group(quotas, USER, 50));
    assert_false(quotas_in_group(quotas, 100000, 50));
    quotas_give(quotas, 100000, QUOTA_CONNECTIONS, 1);
    take(100001, QUOTA_CONNECTIONS, 1);
}

static void test_without_quotas(void **state) {
    (void)state;
    struct error error;
    assert_int_equal(quotas_take(NULL, USER, QUOTA_MEMORY, UINT64_MAX, &error), 0);
    assert_int_equal(quotas_spend(NULL, USER, QUOTA_LOG, UINT64_MAX, false, &error), 0);
    quotas_give(NULL, USER, QUOTA_MEMORY, 1);
    quotas_count(NULL, USER, QUOTA_MEMORY, 1);
    quotas_leave_out(NULL, USER);
    assert_int_equal(quotas_take_left_out(NULL, USER), 0);
    assert_false(quotas_is_bound(NULL, USER));
    assert_null(quotas_close(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(test_taking_and_giving),
        TEST(test_a_sum),
        TEST(test_root_and_the_service_are_counted_and_not_bound),
        TEST(test_places_are_kept_free),
        TEST(test_pools_are_shared),
        TEST(test_lowered),
        TEST(test_groups),
        TEST(test_a_rate_refills),
        TEST(test_small_steps_add_up),
        TEST(test_what_ends_something_overdraws),
        TEST(test_what_was_left_out_is_told_once),
        TEST(test_accounts_are_forgotten),
        TEST(test_subordinate_uids_share_their_users_account),
        TEST(test_without_quotas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
