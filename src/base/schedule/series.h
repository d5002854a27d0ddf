/* Whether one and the same is asked again and again, and nobody else. */
#ifndef BASE_SCHEDULE_SERIES_H
#define BASE_SCHEDULE_SERIES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SERIES_LEAST = 32,   /* questions before it is one: callers that share a busy machine have a few in a row each */
    SERIES_PAUSE_MS = 5, /* that it survives */
};

/* All zeros to begin with. */
struct series {
    const void *whom;
    uint64_t asked_ms;
    unsigned length;
};

/* For each question: whether it is part of a series. */
bool series_goes_on(struct series *series, const void *whom, uint64_t now_ms);

#endif
