/* breaker: failures of one kind that repeat are a pattern; what fails so is left alone for a while before it is tried
   again. Pure: the clock is the caller's. */
#ifndef BASE_SCHEDULE_BREAKER_H
#define BASE_SCHEDULE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

struct breaker_policy {
    uint32_t trips;     /* so many failures open it; 0: never */
    uint64_t within_ms; /* counted from the first of them */
    uint64_t rest_ms;   /* how long it is left alone */
};

/* All zero at first. */
struct breaker {
    bool is_open;
    uint32_t count; /* of failures since began_ms; while it is open, all of them */
    uint64_t began_ms, last_ms, opened_ms;
};

/* One more failure. True: that is news, because it is a pattern now, or still one after it was left alone. */
bool breaker_failed(struct breaker *breaker, const struct breaker_policy *policy, uint64_t now_ms);
/* It worked. True: that is news. */
bool breaker_worked(struct breaker *breaker);
/* Whether it is open, and has failed not too long ago. */
bool breaker_is_open(const struct breaker *breaker, const struct breaker_policy *policy, uint64_t now_ms);
/* How long it is still to be left alone; 0: not any longer. A person's request is tried all the same. */
uint64_t breaker_rest_ms(const struct breaker *breaker, const struct breaker_policy *policy, uint64_t now_ms);

#endif
