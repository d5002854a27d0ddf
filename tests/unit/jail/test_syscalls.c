/* Tests the tables of system calls, of nodes and of the daemon: every name is known and decided once, and no dangerous
   call is allowed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <seccomp.h>

#include "base/base.h"
#include "confine/confine_internal.h"

static bool is_known(const char *name) {
    return seccomp_syscall_resolve_name(name) != __NR_SCMP_ERROR;
}

/* Of nodes, and of the daemon. */
static size_t tables(struct syscall_table ret[2]) {
    ret[0].groups = syscall_groups(&ret[0].group_count);
    ret[0].rules = syscall_rules(&ret[0].rule_count);
    ret[1] = *confine_syscalls();
    return 2;
}

static void assert_known(const struct syscall_table *table) {
    char name[SYSCALL_NAME_BYTES];
    for (size_t i = 0; i < table->group_count; i++)
        for (const char *at = table->groups[i].names; (at = syscall_next_name(at, name));)
            if (!is_known(name)) fail_msg("%s", name);
    for (size_t i = 0; i < table->rule_count; i++)
        if (!is_known(table->rules[i].name)) fail_msg("%s", table->rules[i].name);
}

/* A name with a typing error would only make its call fail, quietly. */
static void every_name_is_a_system_call(void **state) {
    (void)state;
    struct syscall_table each[2];
    for (size_t i = 0; i < tables(each); i++) assert_known(&each[i]);
}

static void assert_decided_once(const struct syscall_table *table) {
    CLEANUP(map_free) struct map seen = MAP_INIT;
    char name[SYSCALL_NAME_BYTES];
    for (size_t i = 0; i < table->group_count; i++)
        for (const char *at = table->groups[i].names; (at = syscall_next_name(at, name));) {
            if (map_get(&seen, name)) fail_msg("%s", name);
            assert_true(map_set(&seen, name, &seen));
        }
    for (size_t i = 0; i < table->rule_count; i++)
        if (map_get(&seen, table->rules[i].name)) fail_msg("%s", table->rules[i].name);
}

static void no_call_is_decided_twice(void **state) {
    (void)state;
    struct syscall_table each[2];
    for (size_t i = 0; i < tables(each); i++) assert_decided_once(&each[i]);
}

static void assert_harmless(const struct syscall_table *table) {
    static const char *const dangerous[] = {"ptrace", "mount",  "bpf",    "setns",   "init_module",   "keyctl",
                                            "clone3", "setuid", "reboot", "seccomp", "io_uring_setup"};
    char name[SYSCALL_NAME_BYTES];
    for (size_t i = 0; i < table->group_count; i++)
        for (const char *at = table->groups[i].names; (at = syscall_next_name(at, name));)
            for (size_t j = 0; j < ARRAY_SIZE(dangerous); j++)
                if (table->groups[i].action == SYSCALL_ALLOW && strcmp(name, dangerous[j]) == 0) fail_msg("%s", name);
}

static void what_is_dangerous_is_allowed_nowhere(void **state) {
    (void)state;
    struct syscall_table each[2];
    for (size_t i = 0; i < tables(each); i++) assert_harmless(&each[i]);
}

static void names_are_taken_apart(void **state) {
    (void)state;
    char name[SYSCALL_NAME_BYTES];
    const char *at = syscall_next_name(" read  write", name);
    assert_string_equal(name, "read");
    at = syscall_next_name(at, name);
    assert_string_equal(name, "write");
    assert_null(syscall_next_name(at, name));
    assert_null(syscall_next_name("", name));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_is_a_system_call),
        cmocka_unit_test(no_call_is_decided_twice),
        cmocka_unit_test(what_is_dangerous_is_allowed_nowhere),
        cmocka_unit_test(names_are_taken_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
