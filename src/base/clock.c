/* Clocks and times: the monotonic and the wall clock, which tests can step, RFC 3339 text, and the delay of a
   back-off. */
#include "base/clock.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/io/file.h"

uint64_t clock_monotonic_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t clock_monotonic_ms(void) {
    return clock_monotonic_us() / 1000;
}

uint64_t clock_boot_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The one exception to having no globals: every log line asks for the time, and none has a context to ask it of. */
static const _Atomic int64_t *_Atomic injected_step_ms;

void clock_step_wall(const _Atomic int64_t *step_ms) {
    atomic_store(&injected_step_ms, step_ms);
}

bool clock_step_wall_by_file(const char *path) {
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool is_long_enough = fd >= 0 && fstat(fd, &status) == 0 && status.st_size >= (off_t)sizeof *injected_step_ms;
    void *page = is_long_enough ? mmap(NULL, sizeof *injected_step_ms, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0) close(fd);
    if (page == MAP_FAILED) return false;
    clock_step_wall(page);
    return true;
}

int64_t clock_wall_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const _Atomic int64_t *step_ms = atomic_load_explicit(&injected_step_ms, memory_order_acquire);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + (step_ms ? atomic_load(step_ms) : 0);
}

void clock_boot_id(char ret[BOOT_ID_BYTES]) {
    if (file_read_text(AT_FDCWD, "/proc/sys/kernel/random/boot_id", ret, BOOT_ID_BYTES) < 0) ret[0] = '\0';
    ret[strcspn(ret, "\n")] = '\0';
}

/* ---- as text: every answer, record and line of the log has one, so without the C library's formats ---- */

enum { MS_PER_DAY = 86400000, DAYS_PER_ERA = 146097, DAYS_BEFORE_1970 = 719468, YEARS_PER_ERA = 400 };

struct date {
    int64_t year;
    unsigned month, day;
};

/* Years that begin in March have their leap day at the end; 400 of them, an era, are always as long. */
static struct date date_of(int64_t days_since_1970) {
    int64_t days = days_since_1970 + DAYS_BEFORE_1970;
    int64_t era = (days >= 0 ? days : days - DAYS_PER_ERA + 1) / DAYS_PER_ERA;
    unsigned of_era = (unsigned)(days - era * DAYS_PER_ERA);
    unsigned year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / (DAYS_PER_ERA - 1)) / 365;
    unsigned of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned from_march = (5 * of_year + 2) / 153;
    unsigned month = from_march < 10 ? from_march + 3 : from_march - 9;
    return (struct date){era * YEARS_PER_ERA + year_of_era + (month <= 2), month,
                         of_year - (153 * from_march + 2) / 5 + 1};
}

static char *put(char *at, uint64_t value, unsigned digits, char behind) {
    for (unsigned i = digits; i-- > 0; value /= 10) at[i] = (char)('0' + value % 10);
    at[digits] = behind;
    return at + digits + 1;
}

void clock_rfc3339(int64_t wall_ms, char ret[RFC3339_BYTES]) {
    int64_t of_day_ms = (wall_ms % MS_PER_DAY + MS_PER_DAY) % MS_PER_DAY; /* also before 1970 */
    struct date date = date_of(wall_ms / MS_PER_DAY - (wall_ms % MS_PER_DAY < 0));
    uint64_t ms = (uint64_t)of_day_ms;
    char *at = put(ret, (uint64_t)date.year, 4, '-');
    at = put(at, date.month, 2, '-');
    at = put(at, date.day, 2, 'T');
    at = put(at, ms / 3600000, 2, ':');
    at = put(at, ms / 60000 % 60, 2, ':');
    at = put(at, ms / 1000 % 60, 2, '.');
    at = put(at, ms % 1000, 3, 'Z');
    *at = '\0';
}

uint64_t backoff_ms(uint64_t first_ms, uint64_t max_ms, unsigned failures) {
    uint64_t pause_ms = first_ms;
    for (; failures > 0 && pause_ms < max_ms; failures--) pause_ms *= 2;
    return pause_ms < max_ms ? pause_ms : max_ms;
}
