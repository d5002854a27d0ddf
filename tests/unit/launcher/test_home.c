/* What a home may hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "launcher/home.h"

static void everything_of_the_service_is_known(void **state) {
    (void)state;
    static const char *const names[] = {
        ".",
        "..",
        "start.lock",
        "launcher.lock",
        "daemon.lock",
        "launcher.sock",
        "api.sock",
        "daemon.log",
        "daemon.log.1",
        "daemon.log.next",
        "sandbox.conf",
        "registry.db",
        "reload.key",
        "registry.db-wal",
        "audit",
        "store",
        "registry.db-shm",
        "nodes",
        "toolchain",
        "launcher",
    };
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (!home_may_hold(names[i])) fail_msg("%s", names[i]);
}

/* A mistyped --home must not give another directory to the daemon's uid. */
static void nothing_else_is(void **state) {
    (void)state;
    static const char *const names[] = {"",       "...",    ".ssh",   ".bashrc",  "etc",    "home",
                                        "nodes2", "audit.", "stores", "registry", "daemon", "launcher.sock.old"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (home_may_hold(names[i])) fail_msg("%s", names[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_of_the_service_is_known),
        cmocka_unit_test(nothing_else_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
