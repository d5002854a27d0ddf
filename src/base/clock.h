/* Time, in the units the names say. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum { RFC3339_BYTES = 32, BOOT_ID_BYTES = 64 };

uint64_t clock_monotonic_us(void);
uint64_t clock_monotonic_ms(void);
uint64_t clock_boot_ms(void); /* since the machine's start, with the time that it slept */
int64_t clock_wall_ms(void);  /* since 1970, UTC; it may be stepped: no life depends on it */
/* For tests: what is added to the wall clock from now on, by all threads. NULL: nothing. */
void clock_step_wall(const _Atomic int64_t *step_ms);
/* The same by another process: the step is the 64-bit number in this file, whatever it is at the time. False: the file
   can't be mapped. */
bool clock_step_wall_by_file(const char *path);

/* Which boot of the machine this is, as the kernel names it; "" when it does not tell. */
void clock_boot_id(char ret[BOOT_ID_BYTES]);

/* How long to wait before the next attempt: twice as long after each failure in a row, up to the most. */
uint64_t backoff_ms(uint64_t first_ms, uint64_t max_ms, unsigned failures);

/* "2026-11-15T21:05:00.123Z" */
void clock_rfc3339(int64_t wall_ms, char ret[RFC3339_BYTES]);

#endif
