#include "base/clock.h"

#include <stdio.h>
#include <time.h>

uint64_t clock_monotonic_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t clock_monotonic_ms(void) {
    return clock_monotonic_us() / 1000;
}

int64_t clock_wall_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void clock_rfc3339(int64_t wall_ms, char ret[RFC3339_BYTES]) {
    int64_t millis = (wall_ms % 1000 + 1000) % 1000; /* also before 1970 */
    time_t seconds = (time_t)((wall_ms - millis) / 1000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    size_t used = strftime(ret, RFC3339_BYTES, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(ret + used, RFC3339_BYTES - used, ".%03uZ", (unsigned)millis % 1000);
}
