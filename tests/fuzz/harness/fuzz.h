/* What every fuzz target is: a function that takes any bytes and aborts when something is wrong. An input that takes
   too long is wrong too: bound.c measures each. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Sanitizers make code several times slower, and the same inputs must pass in every build. */
#if defined(__SANITIZE_ADDRESS__)
#define FUZZ_TIME_SCALE 5
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FUZZ_TIME_SCALE 5
#endif
#endif
#ifndef FUZZ_TIME_SCALE
#define FUZZ_TIME_SCALE 1
#endif

enum { FUZZ_CPU_MAX_MS = 50 * FUZZ_TIME_SCALE }; /* for one input */

/* The target's: deterministic, since an input that seemed slow runs again. */
void fuzz_one(const uint8_t *data, size_t size);
/* The target's too, where it needs something made once: not measured. */
void fuzz_prepare(void);

/* What libFuzzer and replay.c call. Aborts when an input takes more than FUZZ_CPU_MAX_MS of CPU time. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
