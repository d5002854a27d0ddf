/* Tests the probe of this host's features, as root and without privileges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/cgroup/cgroup.h"
#include "launcher/features.h"

#define BIT(guarantee) (1u << JAIL_GUARANTEE_##guarantee)

static size_t count_entries(const char *path) {
    DIR *directory = opendir(path);
    size_t count = 0;
    assert_non_null(directory);
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

static void root_can_enforce_everything_here(void **state) {
    (void)state;
    struct jail_features features;
    features_probe(&features);
    assert_true(features.root);
    assert_true(features.landlock_abi >= 1);
    assert_in_range(features.cgroup_version, 1, 2);
    for (unsigned i = 0; i < JAIL_GUARANTEE_COUNT; i++)
        if (!(features.guarantees & (1u << i))) fail_msg("%s is missing", jail_guarantee_name(i));
}

static void nothing_stays_behind(void **state) {
    (void)state;
    struct jail_features features;
    size_t descriptors = count_entries("/proc/self/fd");
    features_probe(&features);
    assert_int_equal(count_entries("/proc/self/fd"), descriptors);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child */
}

static void it_is_quick(void **state) {
    (void)state;
    struct jail_features features;
    uint64_t best_us = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t start_us = clock_monotonic_us();
        features_probe(&features);
        uint64_t took_us = clock_monotonic_us() - start_us;
        if (took_us < best_us) best_us = took_us;
    }
    assert_true(best_us < 20000);
}

/* A caller without privileges learns what is lost. */
static void others_lose_what_needs_privileges(void **state) {
    (void)state;
    int pipes[2];
    struct jail_features features = {0};
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0) _exit(1);
        features_probe(&features);
        _exit(write(pipes[1], &features, sizeof features) == sizeof features ? 0 : 1);
    }
    close(pipes[1]);
    assert_int_equal(read(pipes[0], &features, sizeof features), sizeof features);
    close(pipes[0]);
    waitpid(pid, NULL, 0);
    assert_false(features.root);
    assert_int_equal(features.guarantees & (BIT(UID) | BIT(GROUPS) | BIT(TAKEOVER) | BIT(IDMAP)), 0);
    assert_int_equal(
        features.guarantees & (BIT(CGROUPS) | BIT(MEMORY) | BIT(SOCKETS) | BIT(CPU) | BIT(TASKS) | BIT(FREEZER)), 0);
    uint32_t kept = BIT(NAMESPACES) | BIT(NETWORK) | BIT(SECCOMP) | BIT(NOTIFY) | BIT(LANDLOCK);
    assert_int_equal(features.guarantees & kept, kept);
}

/* A controller that is mounted may still be refused when the group is made: then it is not promised. */
static void only_cgroups_that_were_had_count(void **state) {
    (void)state;
    uint32_t others = BIT(NAMESPACES) | BIT(LANDLOCK);
    uint32_t cgroups = BIT(CGROUPS) | BIT(MEMORY) | BIT(SOCKETS) | BIT(CPU) | BIT(TASKS) | BIT(FREEZER);
    struct jail_features features = {.guarantees = others | cgroups, .cgroup_version = 2};
    struct cgroup_host host = {.version = 2, .has_tasks = true, .has_freezer = true};
    features_note_cgroups(&features, &host);
    assert_int_equal(features.guarantees, others | BIT(CGROUPS) | BIT(TASKS) | BIT(FREEZER));
    features_note_cgroups(&features, &(struct cgroup_host){0});
    assert_int_equal(features.guarantees, others);
    assert_int_equal(features.cgroup_version, 0);
    host.has_memory = host.counts_sockets = host.has_cpu = true;
    features_note_cgroups(&features, &host);
    assert_int_equal(features.guarantees, others | cgroups);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(root_can_enforce_everything_here),
        cmocka_unit_test(nothing_stays_behind),
        cmocka_unit_test(it_is_quick),
        cmocka_unit_test(others_lose_what_needs_privileges),
        cmocka_unit_test(only_cgroups_that_were_had_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
