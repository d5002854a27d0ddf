/* How much longer than a plain build one with sanitizers may take. */
#ifndef TEST_SLOWNESS_H
#define TEST_SLOWNESS_H

enum {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    TEST_SLOWNESS = 4,
#else
    TEST_SLOWNESS = 1,
#endif
};

#endif
