/* The time bound as a second oracle: well-formed inputs that take long are findings like those that crash. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "fuzz/harness/fuzz.h"

/* The first input faults pages in and fills caches: only the quickest of a few runs counts. */
enum { ATTEMPTS = 3 };

__attribute__((weak)) void fuzz_prepare(void) {
}

static double cpu_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static double run_once(const uint8_t *data, size_t size) {
    double start_ms = cpu_ms();
    fuzz_one(data, size);
    return cpu_ms() - start_ms;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool is_prepared;
    double took_ms = 0;
    if (!is_prepared) fuzz_prepare();
    is_prepared = true;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        took_ms = run_once(data, size);
        if (took_ms <= FUZZ_CPU_MAX_MS) return 0;
    }
    fprintf(stderr, "an input of %zu bytes takes %.0f ms of CPU time, more than %d\n", size, took_ms, FUZZ_CPU_MAX_MS);
    abort();
}
