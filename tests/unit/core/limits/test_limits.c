/* Tests limits and their policies as callers write them, as the registry keeps them, and as they are listed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/core_internal.h"

struct read {
    struct jail_limits limits;
    struct limit_policies policies;
    struct error error;
    int result;
};

static struct read read_pair(const char *name, const char *text) {
    struct read read = {.limits = jail_profile_find("medium")->limits};
    limit_policies_default(&read.policies);
    json_t *pairs = json_pack("{s:s}", name, text);
    read.result = limits_read(pairs, &read.limits, &read.policies, &read.error);
    json_decref(pairs);
    return read;
}

static void values_are_read_in_their_units(void **state) {
    (void)state;
    static const struct {
        const char *name, *text;
        enum jail_limit limit;
        uint64_t value;
    } cases[] = {
        {"memory", "64M", JAIL_LIMIT_MEMORY, 64 << 20},
        {"memory_bytes", "33554432", JAIL_LIMIT_MEMORY, 32 << 20},
        {"cpu", "50%", JAIL_LIMIT_CPU, 50},
        {"cpu", "150", JAIL_LIMIT_CPU, 150},
        {"cpu", "none", JAIL_LIMIT_CPU, 0},
        {"processes", "7", JAIL_LIMIT_PROCESSES, 7},
        {"max_run", "5s", JAIL_LIMIT_MAX_RUN, 5000},
        {"ttl", "none", JAIL_LIMIT_TTL, 0},
        {"heap", "8M", JAIL_LIMIT_HEAP, 8 << 20},
        {"heap", "none", JAIL_LIMIT_HEAP, 32 << 20},
        {"ets_memory", "2M", JAIL_LIMIT_ETS_MEMORY, 2 << 20},
        {"descriptors", "200", JAIL_LIMIT_DESCRIPTORS, 200},
        {"socket_memory", "4M", JAIL_LIMIT_SOCKET_MEMORY, 4 << 20},
        {"file_size", "64M", JAIL_LIMIT_FILE_SIZE, 64 << 20},
        {"file_size", "none", JAIL_LIMIT_FILE_SIZE, 0},
        {"sockets", "5", JAIL_LIMIT_SOCKETS, 5},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct read read = read_pair(cases[i].name, cases[i].text);
        if (read.result < 0) fail_msg("%s=%s: %s", cases[i].name, cases[i].text, read.error.detail);
        assert_int_equal(jail_limit_value(&read.limits, cases[i].limit), cases[i].value);
    }
}

static void policies_are_read_with_or_without_a_value(void **state) {
    (void)state;
    struct read read = read_pair("atoms", ":freeze");
    assert_int_equal(read.result, 0);
    assert_int_equal(read.policies.of[JAIL_LIMIT_ATOMS], JAIL_POLICY_FREEZE);
    assert_int_equal(read.limits.atoms, jail_profile_find("medium")->limits.atoms);
    read = read_pair("atoms", "30000:restart");
    assert_int_equal(read.result, 0);
    assert_int_equal(read.policies.of[JAIL_LIMIT_ATOMS], JAIL_POLICY_RESTART);
    assert_int_equal(read.limits.atoms, 30000);
    assert_int_equal(read_pair("file_size", "64M:destroy").policies.of[JAIL_LIMIT_FILE_SIZE], JAIL_POLICY_DESTROY);
    static const enum jail_limit network[] = {JAIL_LIMIT_NETWORK_RATE, JAIL_LIMIT_NETWORK_TOTAL,
                                              JAIL_LIMIT_CONNECTIONS};
    for (size_t i = 0; i < ARRAY_SIZE(network); i++)
        for (enum jail_policy policy = 0; policy < JAIL_POLICY_COUNT; policy++) {
            char text[32];
            snprintf(text, sizeof text, ":%s", jail_policy_name(policy));
            read = read_pair(jail_limit_kind(network[i])->name, text);
            assert_int_equal(read.result, 0);
            assert_int_equal(read.policies.of[network[i]], policy);
        }
    assert_int_equal(read_pair("max_run", ":freeze").policies.of[JAIL_LIMIT_MAX_RUN], JAIL_POLICY_FREEZE);
}

static void what_makes_no_sense_is_refused_and_changes_nothing(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *told;
    } cases[] = {
        {"colour", "5", "there is no limit 'colour'"},
        {"memory", "much", "not a value such as 64M"},
        {"memory", "1M", "out of bounds"},
        {"memory", "none", "no sandbox without this limit"},
        {"memory", "", "VALUE, :POLICY or VALUE:POLICY"},
        {"memory", "64M:explode", "'explode' is no policy"},
        {"memory", "64M:", "'' is no policy"},
        {"memory", ":kill_process", "no policy for it"},
        {"ttl", "5s:freeze", "there is: destroy"},
        {"os_tasks", ":kill_process", "there are: warn, throttle, restart, freeze, destroy"},
        {"vm_ports", "1.5", "not a value such as 100"},
        {"cpu", "1000000000000000000000000%", "not a value"},
        {"atoms", "0000000000000000000000000000000000000000000000000000000000000000000", "VALUE"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct read read = read_pair(cases[i].name, cases[i].text);
        assert_int_equal(read.error.code, E_INVALID);
        if (!strstr(read.error.detail, cases[i].told)) fail_msg("%s: %s", cases[i].text, read.error.detail);
        assert_memory_equal(&read.limits, &jail_profile_find("medium")->limits, sizeof read.limits);
    }
}

static void policies_survive_the_registry(void **state) {
    (void)state;
    struct limit_policies policies, again;
    limit_policies_default(&policies);
    json_t *nothing = limit_policies_to_json(&policies);
    assert_int_equal(json_object_size(nothing), 0);
    policies.of[JAIL_LIMIT_MEMORY] = JAIL_POLICY_DESTROY;
    json_t *json = limit_policies_to_json(&policies);
    limit_policies_from_json(json, &again);
    assert_memory_equal(&policies, &again, sizeof policies);
    json_object_set_new(json, "ttl", json_string("freeze")); /* which it can't have */
    json_object_set_new(json, "atoms", json_integer(7));
    limit_policies_from_json(json, &again);
    assert_memory_equal(&policies, &again, sizeof policies);
    json_decref(nothing);
    json_decref(json);
}

/* A heap may have a share of the memory, so the agent must hear of more memory too. */
static void who_holds_what_changed_is_known(void **state) {
    (void)state;
    struct jail_limits before = jail_profile_find("medium")->limits, after = before;
    assert_false(limits_differ(&before, &after, JAIL_HELD_BY_KERNEL));
    after.ttl_ms = 5;
    assert_false(limits_differ(&before, &after, JAIL_HELD_BY_KERNEL));
    assert_false(limits_differ(&before, &after, JAIL_HELD_BY_AGENT));
    assert_true(limits_differ(&before, &after, JAIL_HELD_BY_SERVICE));
    after.memory_bytes *= 2;
    assert_true(limits_differ(&before, &after, JAIL_HELD_BY_KERNEL));
    assert_true(limits_differ(&before, &after, JAIL_HELD_BY_AGENT));
}

static void every_limit_is_listed_with_its_policy(void **state) {
    (void)state;
    struct limit_policies policies;
    limit_policies_default(&policies);
    json_t *list = limits_to_json(&jail_profile_find("low")->limits, &policies);
    assert_int_equal(json_array_size(list), JAIL_LIMIT_COUNT);
    json_t *cpu = json_array_get(list, JAIL_LIMIT_CPU);
    assert_string_equal(json_string_value(json_object_get(cpu, "limit")), "cpu");
    assert_true(json_is_null(json_object_get(cpu, "value")));
    assert_string_equal(json_string_value(json_object_get(cpu, "held_by")), "kernel");
    json_decref(list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read_in_their_units),
        cmocka_unit_test(policies_are_read_with_or_without_a_value),
        cmocka_unit_test(what_makes_no_sense_is_refused_and_changes_nothing),
        cmocka_unit_test(policies_survive_the_registry),
        cmocka_unit_test(who_holds_what_changed_is_known),
        cmocka_unit_test(every_limit_is_listed_with_its_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
