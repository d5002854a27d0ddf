/* Tests a sandbox's configuration: defaults of its profile, given limits, refusals, and the registry's form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/core_internal.h"

static struct guard_profiles profiles; /* for the group */

static int setup(void **state) {
    (void)state;
    return guard_profiles_read(NULL, &profiles, NULL);
}

static int teardown(void **state) {
    (void)state;
    guard_profiles_free(&profiles);
    return 0;
}

static int read_config(const char *text, struct sandbox_config *ret, struct error *reterr) {
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    int result = sandbox_config_from_json(&profiles, json, ret, reterr);
    json_decref(json);
    return result;
}

static void assert_refused(const char *text, const char *part_of_detail) {
    struct sandbox_config config = {.source = (char *)"untouched"};
    struct error error = {0};
    if (read_config(text, &config, &error) == 0) fail_msg("%s was accepted", text);
    assert_int_equal(error.code, E_INVALID);
    if (!strstr(error.detail, part_of_detail)) fail_msg("'%s' does not say '%s'", error.detail, part_of_detail);
    assert_string_equal(config.source, "untouched");
}

static void test_a_profile_gives_the_limits(void **state) {
    (void)state;
    CLEANUP(sandbox_config_free) struct sandbox_config config = {0};
    struct error error;
    assert_int_equal(read_config("{\"source\": \"/p\", \"profile\": \"high\"}", &config, &error), 0);
    const struct guard_profile *high = guard_profile_find(&profiles, "high");
    assert_ptr_equal(config.profile, high);
    assert_memory_equal(&config.limits, &high->jail.limits, sizeof config.limits);
    assert_string_equal(config.source, "/p");
    assert_null(config.app);
    assert_null(config.supervisor);
    assert_null(config.restart);
    assert_null(config.env);
    assert_false(config.ephemeral);
}

static void test_any_limit_and_its_policy_can_be_given(void **state) {
    (void)state;
    CLEANUP(sandbox_config_free) struct sandbox_config config = {0};
    struct error error;
    assert_int_equal(
        read_config("{\"source\": \"/p\", \"profile\": \"medium\", \"limit\": {\"atoms\": \"30000:destroy\","
                    " \"descriptors\": \"80\", \"disk\": \":freeze\"}}",
                    &config, &error),
        0);
    assert_int_equal(config.limits.atoms, 30000);
    assert_int_equal(config.limits.descriptors, 80);
    assert_int_equal(config.policies.of[JAIL_LIMIT_ATOMS], JAIL_POLICY_DESTROY);
    assert_int_equal(config.policies.of[JAIL_LIMIT_DISK], JAIL_POLICY_FREEZE);
    json_t *json = sandbox_config_to_json(&config);
    CLEANUP(sandbox_config_free) struct sandbox_config again = {0};
    assert_int_equal(sandbox_config_from_json(&profiles, json, &again, &error), 0);
    json_decref(json);
    assert_memory_equal(&again.limits, &config.limits, sizeof again.limits);
    assert_memory_equal(&again.policies, &config.policies, sizeof again.policies);
    assert_refused("{\"source\": \"/p\", \"profile\": \"medium\", \"limit\": {\"colour\": \"5\"}}",
                   "no limit 'colour'");
    assert_refused("{\"source\": \"/p\", \"profile\": \"medium\", \"limit\": {\"file_size\": \"1M\"}}",
                   "out of bounds");
}

static void test_round_trip(void **state) {
    (void)state;
    CLEANUP(sandbox_config_free) struct sandbox_config config = {0}, again = {0};
    struct error error;
    assert_int_equal(
        read_config("{\"source\": \"/p\", \"profile\": \"low\", \"supervisor\": \"Counter.Supervisor\","
                    " \"restart\": \"on-failure:3\", \"env\": {\"A\": \"b c\"}, \"memory_bytes\": 100000000,"
                    " \"cpu_percent\": 50, \"processes\": 77, \"max_run_ms\": 1234, \"ttl_ms\": 5678,"
                    " \"disk_bytes\": 20000000, \"ephemeral\": true}",
                    &config, &error),
        0);
    json_t *json = sandbox_config_to_json(&config);
    assert_int_equal(sandbox_config_from_json(&profiles, json, &again, &error), 0);
    json_t *twice = sandbox_config_to_json(&again);
    assert_true(json_equal(json, twice));
    json_decref(json);
    json_decref(twice);
    assert_memory_equal(&config.limits, &again.limits, sizeof again.limits);
    assert_int_equal(again.limits.memory_bytes, 100000000);
    assert_int_equal(again.limits.cpu_percent, 50);
    assert_int_equal(again.limits.ttl_ms, 5678);
    assert_string_equal(again.supervisor, "Counter.Supervisor");
    assert_string_equal(again.restart, "on-failure:3");
    assert_string_equal(json_string_value(json_object_get(again.env, "A")), "b c");
    assert_true(again.ephemeral);
}

/* Three limits had other names, and those that have been added since are the profile's. */
static void test_an_earlier_registry_is_read(void **state) {
    (void)state;
    CLEANUP(sandbox_config_free) struct sandbox_config config = {0};
    struct error error;
    assert_int_equal(read_config("{\"source\": \"/p\", \"profile\": \"medium\", \"memory_bytes\": 100000000,"
                                 " \"file_bytes\": 70000000, \"ets_bytes\": 3000000, \"ports\": 77,"
                                 " \"policies\": {\"ports\": \"freeze\", \"ets_memory\": \"warn\"}}",
                                 &config, &error),
                     0);
    assert_int_equal(config.limits.memory_bytes, 100000000);
    assert_int_equal(config.limits.file_size_bytes, 70000000);
    assert_int_equal(config.limits.ets_memory_bytes, 3000000);
    assert_int_equal(config.limits.vm_ports, 77);
    assert_int_equal(config.policies.of[JAIL_LIMIT_VM_PORTS], JAIL_POLICY_FREEZE);
    assert_int_equal(config.policies.of[JAIL_LIMIT_ETS_MEMORY], JAIL_POLICY_WARN);
    assert_int_equal(config.limits.descriptors, jail_profile_find("medium")->limits.descriptors);
    assert_refused("{\"source\": \"/p\", \"profile\": \"medium\", \"memory_bytes\": -1}", "memory: ");
    assert_refused("{\"source\": \"/p\", \"profile\": \"medium\", \"limit\": {\"ports\": \"5\"}}", "no limit 'ports'");
}

static void test_refusals(void **state) {
    (void)state;
    assert_refused("{\"source\": \"/p\"}", "no profile ''");
    assert_refused("{\"source\": \"/p\", \"profile\": \"none\"}", "no profile 'none'");
    assert_refused("{\"source\": \"/p\", \"profile\": \"compiler\"}", "no profile 'compiler'");
    assert_refused("{\"profile\": \"high\"}", "'source'");
    assert_refused("{\"source\": \"p\", \"profile\": \"high\"}", "'source'");
    assert_refused("{\"source\": \"/p\", \"profile\": \"high\", \"app\": \"a\", \"supervisor\": \"S\"}", "not both");
    assert_refused("{\"source\": \"/p\", \"profile\": \"high\", \"env\": {\"\": \"x\"}}", "environment variable");
    assert_refused("{\"source\": \"/p\", \"profile\": \"high\", \"env\": {\"A=B\": \"x\"}}", "'A=B'");
    assert_refused("{\"source\": \"/p\", \"profile\": \"high\", \"env\": {\"SANDBOX_SECRET\": \"x\"}}", "reserved");
    assert_refused("{\"source\": \"/p\", \"profile\": \"high\", \"memory_bytes\": 1}", "memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_profile_gives_the_limits),
        cmocka_unit_test(test_any_limit_and_its_policy_can_be_given),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_an_earlier_registry_is_read),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
