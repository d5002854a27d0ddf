/* What a sandbox holds of its owner's quotas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/core_internal.h"

enum { OWNER = 1000 };

#define MIB (UINT64_C(1) << 20)

static struct quota_rules rules;
static struct engine engine;
static const struct jail_limits small = {.memory_bytes = 64 * MIB, .disk_bytes = 16 * MIB, .cpu_percent = 50};
static const struct jail_limits large = {.memory_bytes = 512 * MIB, .disk_bytes = 32 * MIB, .cpu_percent = 100};

static void set_rule(const char *name, const char *value) {
    struct error error;
    if (quota_rule_set(&rules.items[0], name, value, &error) < 0) fail_msg("%s", error.detail);
}

static int begin(void **state) {
    (void)state;
    quota_rules_init(&rules, 2048 * MIB);
    return quotas_open(&(struct quotas_config){.rules = &rules, .service_uid = 1}, &engine.config.quotas, NULL);
}

static int end(void **state) {
    uid_t uid;
    (void)state;
    assert_int_equal(quotas_principals(engine.config.quotas, &uid, 1), 0); /* all was given back */
    engine.config.quotas = quotas_close(engine.config.quotas);
    return 0;
}

static uint64_t held(enum quota quota) {
    return quotas_held(engine.config.quotas, OWNER, quota);
}

static struct charge create(const struct jail_limits *limits) {
    struct charge charge;
    struct error error;
    if (charge_create(&engine, OWNER, limits, &charge, &error) < 0) fail_msg("%s", error.detail);
    return charge;
}

/* Where buffers of sockets are counted apart, a sandbox of little memory could otherwise have all of the host's. */
static void test_buffers_of_sockets_are_memory(void **state) {
    (void)state;
    struct charge charge, refused;
    struct error error;
    struct jail_limits limits = small, more = small;
    limits.socket_memory_bytes = 16 * MIB;
    more.socket_memory_bytes = 1024 * 1024 * MIB;
    assert_true(charge_create(&engine, OWNER, &more, &refused, &error) < 0);
    assert_int_equal(error.code, E_LIMIT);
    charge = create(&limits);
    assert_int_equal(held(QUOTA_MEMORY), 80 * MIB);
    assert_true(charge_raise(&engine, &charge, &more, false, &error) < 0);
    assert_int_equal(error.code, E_LIMIT);
    assert_int_equal(held(QUOTA_MEMORY), 80 * MIB);
    charge_lower(&engine, &charge, &small);
    assert_int_equal(held(QUOTA_MEMORY), 64 * MIB);
    charge_give_all(&engine, &charge);
}

static void test_create_and_destroy(void **state) {
    (void)state;
    struct charge charge = create(&small);
    assert_int_equal(held(QUOTA_SANDBOXES), 1);
    assert_int_equal(held(QUOTA_PROJECTS), 1);
    assert_int_equal(held(QUOTA_MEMORY), 64 * MIB);
    assert_int_equal(held(QUOTA_DISK), 16 * MIB);
    assert_int_equal(held(QUOTA_CPU), 50);
    charge_give(&engine, &charge, QUOTA_PROJECTS); /* it is compiled */
    assert_int_equal(held(QUOTA_PROJECTS), 0);
    charge_give_all(&engine, &charge);
    charge_give_all(&engine, &charge); /* twice is once */
}

/* One that is refused has taken nothing. */
static void test_refused(void **state) {
    (void)state;
    struct charge charge = {.uid = 7};
    struct error error;
    set_rule("cpu", "80%");
    struct charge first = create(&small);
    assert_int_equal(charge_create(&engine, OWNER, &small, &charge, &error), -E_LIMIT);
    assert_non_null(strstr(error.detail, "quota \"cpu\" is used up: 50% of 80%"));
    assert_int_equal(charge.uid, 7);
    assert_int_equal(held(QUOTA_SANDBOXES), 1);
    assert_int_equal(held(QUOTA_MEMORY), 64 * MIB);
    charge_give_all(&engine, &first);
}

static void test_without_a_limit_of_cpu(void **state) {
    (void)state;
    struct jail_limits limits = small;
    limits.cpu_percent = 0;
    struct charge charge = create(&limits);
    assert_int_equal(held(QUOTA_CPU), 100 * sysconf(_SC_NPROCESSORS_ONLN));
    charge_give_all(&engine, &charge);
}

/* Tasks take little memory, and the host has a number of them. */
static void test_tasks_of_all_are_bounded(void **state) {
    (void)state;
    struct charge refused;
    struct error error;
    struct jail_limits limits = small, more = small;
    limits.os_tasks = 64;
    more.os_tasks = 128;
    set_rule("tasks", "100");
    struct charge charge = create(&limits);
    assert_int_equal(held(QUOTA_TASKS), 64);
    assert_int_equal(charge_create(&engine, OWNER, &limits, &refused, &error), -E_LIMIT);
    assert_non_null(strstr(error.detail, "quota \"tasks\" is used up: 64 of 100"));
    assert_int_equal(charge_raise(&engine, &charge, &more, false, &error), -E_LIMIT);
    assert_int_equal(held(QUOTA_TASKS), 64);
    charge_give_all(&engine, &charge);
    assert_int_equal(held(QUOTA_TASKS), 0);
}

static void test_changed_limits(void **state) {
    (void)state;
    struct error error;
    set_rule("memory", "600M");
    set_rule("cpu", "60%");
    struct charge charge = create(&small);
    assert_int_equal(charge_raise(&engine, &charge, &large, false, &error), -E_LIMIT); /* memory fits, CPU does not */
    assert_int_equal(held(QUOTA_MEMORY), 64 * MIB);
    assert_int_equal(held(QUOTA_DISK), 16 * MIB);
    assert_int_equal(charge_raise(&engine, &charge, &large, true, &error), 0); /* an admin's wish */
    assert_int_equal(held(QUOTA_MEMORY), 512 * MIB);
    assert_int_equal(held(QUOTA_CPU), 100);
    charge_lower(&engine, &charge, &small);
    assert_int_equal(held(QUOTA_MEMORY), 64 * MIB);
    assert_int_equal(held(QUOTA_CPU), 50);
    charge_lower(&engine, &charge, &large); /* lowers nothing */
    assert_int_equal(held(QUOTA_CPU), 50);
    charge_give_all(&engine, &charge);
}

static void test_restored_over_the_quota(void **state) {
    (void)state;
    struct charge charges[3], refused;
    struct error error;
    set_rule("sandboxes", "1");
    set_rule("memory", "1M");
    for (unsigned i = 0; i < 3; i++) charge_restored(&engine, OWNER, &large, &charges[i]);
    assert_int_equal(held(QUOTA_SANDBOXES), 3);
    assert_int_equal(held(QUOTA_MEMORY), 3 * 512 * MIB);
    assert_int_equal(held(QUOTA_PROJECTS), 0);
    assert_int_equal(charge_create(&engine, OWNER, &small, &refused, &error), -E_LIMIT);
    for (unsigned i = 0; i < 3; i++) charge_give_all(&engine, &charges[i]);
}

static void test_requests(void **state) {
    (void)state;
    struct request first = {.caller.uid = OWNER}, second = {.caller.uid = OWNER};
    struct error error;
    set_rule("requests", "1");
    assert_int_equal(request_admit(&engine, &first, &error), 0);
    assert_int_equal(request_admit(&engine, &second, &error), -E_LIMIT);
    request_over(&engine, &second);
    assert_int_equal(held(QUOTA_REQUESTS), 1);
    request_over(&engine, &first);
    request_over(&engine, &first);
    assert_int_equal(request_admit(&engine, &second, &error), 0);
    request_over(&engine, &second);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(test_create_and_destroy),
        TEST(test_buffers_of_sockets_are_memory),
        TEST(test_refused),
        TEST(test_without_a_limit_of_cpu),
        TEST(test_tasks_of_all_are_bounded),
        TEST(test_changed_limits),
        TEST(test_restored_over_the_quota),
        TEST(test_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
