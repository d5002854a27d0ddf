/* A test that mounts something: in a process and with mounts of its own, which end with it. */
#ifndef TEST_OWN_MOUNTS_H
#define TEST_OWN_MOUNTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

static inline int test_run_alone(const struct CMUnitTest *test) {
    const struct CMUnitTest tests[] = {*test};
    if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return 1;
    return cmocka_run_group_tests_name("with mounts of its own", tests, NULL, NULL);
}

/* Fails when the test does. */
static inline void test_in_own_mounts(struct CMUnitTest test) {
    int status = -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) exit(test_run_alone(&test));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

#endif
