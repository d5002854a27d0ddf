/* Time, in the units the names say. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

enum { RFC3339_BYTES = 32, BOOT_ID_BYTES = 64 };

uint64_t clock_monotonic_us(void);
uint64_t clock_monotonic_ms(void);
int64_t clock_wall_ms(void); /* since 1970, UTC */

/* Which boot of the machine this is, as the kernel names it; "" when it does not tell. */
void clock_boot_id(char ret[BOOT_ID_BYTES]);

/* How long to wait before the next attempt: twice as long after each failure in a row, up to the most. */
uint64_t backoff_ms(uint64_t first_ms, uint64_t max_ms, unsigned failures);

/* "2026-11-15T21:05:00.123Z" */
void clock_rfc3339(int64_t wall_ms, char ret[RFC3339_BYTES]);

#endif
