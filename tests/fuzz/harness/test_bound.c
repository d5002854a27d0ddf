/* The time bound of fuzz targets: a slow input is found, a quick one and one that is slow only once are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fuzz/harness/fuzz.h"

static int runs;

static void burn(int ms) {
    struct timespec start, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < ms);
}

void fuzz_one(const uint8_t *data, size_t size) {
    runs++;
    if (size == 4 && memcmp(data, "slow", size) == 0) burn(FUZZ_CPU_MAX_MS + 2);
    if (size == 4 && memcmp(data, "once", size) == 0 && runs == 1) burn(FUZZ_CPU_MAX_MS + 2);
}

/* The signal that ends a process which gives the input to the target; 0: none. */
static int signal_of(const char *input) {
    pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        LLVMFuzzerTestOneInput((const uint8_t *)input, strlen(input));
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_slow_is_found(void **state) {
    (void)state;
    assert_int_equal(signal_of("slow"), SIGABRT);
}

static void test_quick_passes(void **state) {
    (void)state;
    assert_int_equal(signal_of("quick"), 0);
}

static void test_slow_once_passes(void **state) {
    (void)state;
    assert_int_equal(signal_of("once"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_is_found),
        cmocka_unit_test(test_quick_passes),
        cmocka_unit_test(test_slow_once_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
