/* Tests the jail profiles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "jail/jail.h"

#define MIB (1ULL << 20)

static void profiles_are_as_promised(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t memory_mib;
        uint32_t cpu_percent, processes, os_tasks;
        enum jail_network network;
        bool may_exec, is_public;
    } promised[] = {
        {"high", 64, 50, 50, 64, JAIL_NETWORK_NONE, false, true},
        {"medium", 128, 100, 1000, 128, JAIL_NETWORK_OUTGOING, false, true},
        {"low", 256, 0, 4000, 256, JAIL_NETWORK_OUTGOING, true, true},
        {"compiler", 768, 200, 0, 256, JAIL_NETWORK_NONE, false, false},
    };
    size_t count;
    assert_non_null(jail_profiles(&count));
    assert_int_equal(count, ARRAY_SIZE(promised));
    for (size_t i = 0; i < count; i++) {
        const struct jail_profile *profile = jail_profile_find(promised[i].name);
        assert_non_null(profile);
        assert_int_equal(profile->limits.memory_bytes, promised[i].memory_mib * MIB);
        assert_int_equal(profile->limits.cpu_percent, promised[i].cpu_percent);
        assert_int_equal(profile->limits.processes, promised[i].processes);
        assert_int_equal(profile->limits.os_tasks, promised[i].os_tasks);
        assert_int_equal(profile->network, promised[i].network);
        assert_int_equal(profile->may_exec, promised[i].may_exec);
        assert_int_equal(profile->is_public, promised[i].is_public);
    }
    assert_null(jail_profile_find("none"));
    assert_null(jail_profile_find(""));
}

static void public_defaults_are_within_bounds(void **state) {
    (void)state;
    size_t count;
    const struct jail_profile *profiles = jail_profiles(&count);
    struct error error = {0};
    for (size_t i = 0; i < count; i++)
        if (profiles[i].is_public && jail_limits_check(&profiles[i].limits, &error) < 0) fail_msg("%s", error.detail);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiles_are_as_promised),
        cmocka_unit_test(public_defaults_are_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
