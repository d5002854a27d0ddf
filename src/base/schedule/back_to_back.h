/* Recognizes back-to-back requests: one party is asked again and again, with short pauses, and no other in between. */
#ifndef BASE_SCHEDULE_BACK_TO_BACK_H
#define BASE_SCHEDULE_BACK_TO_BACK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BACK_TO_BACK_LEAST = 32,   /* requests in a row; callers that share a busy machine have a few in a row each */
    BACK_TO_BACK_PAUSE_MS = 5, /* a longer pause ends the row */
};

/* Zero-initialized. */
struct back_to_back {
    const void *party;
    uint64_t asked_ms;
    unsigned length;
};

/* Counts one request to the party. True: the request is one of a row of back-to-back requests. */
bool back_to_back_note(struct back_to_back *row, const void *party, uint64_t now_ms);

#endif
