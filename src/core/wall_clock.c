/* The wall clock may be stepped, by a day or by years, while sandboxes run. What a sandbox's life depends on is
   measured by clocks that are not; what is judged by the age of files allows for the step. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "core/core_internal.h"

/* The wall clock and the machine's own at one moment, of one run of the machine. */
struct moment {
    long long wall_ms, boot_ms;
    char boot_id[BOOT_ID_BYTES];
};

static struct moment moment_now(const struct engine *engine) {
    struct moment now = {.wall_ms = clock_wall_ms(), .boot_ms = (long long)clock_boot_ms()};
    memcpy(now.boot_id, engine->wall_clock.boot_id, sizeof now.boot_id);
    return now;
}

/* By how much the wall clock went further than the machine's. Unknown, hence 0, across a boot. */
static int64_t step_between(const struct moment *before, const struct moment *now) {
    if (!now->boot_id[0] || strcmp(before->boot_id, now->boot_id) != 0) return 0;
    return (now->wall_ms - before->wall_ms) - (now->boot_ms - before->boot_ms);
}

static bool moment_read(int fd, struct moment *ret) {
    char text[128] = "";
    if (fd < 0 || pread(fd, text, sizeof text - 1, 0) <= 0) return false;
    return sscanf(text, "%lld %lld %36s", &ret->wall_ms, &ret->boot_ms, ret->boot_id) == 3;
}

static void moment_write(int fd, const struct moment *moment) {
    char text[128];
    int length = snprintf(text, sizeof text, "%lld %lld %s\n", moment->wall_ms, moment->boot_ms, moment->boot_id);
    if (fd >= 0 && (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)length, 0) < 0)) { /* then no step is seen */
    }
}

void wall_clock_open(struct engine *engine) {
    char path[PATH_MAX];
    struct moment before;
    clock_boot_id(engine->wall_clock.boot_id);
    struct moment now = moment_now(engine);
    engine->wall_clock.opened_wall_ms = now.wall_ms;
    engine->wall_clock.opened_boot_ms = now.boot_ms;
    if (string_format(path, sizeof path, NULL, "%s/store/clock", engine->config.home) < 0) return;
    CLEANUP_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (moment_read(fd, &before)) engine->wall_clock.step_before_ms = step_between(&before, &now);
    moment_write(fd, &now);
}

int64_t wall_clock_forward_ms(const struct engine *engine) {
    int64_t since_ms = (clock_wall_ms() - engine->wall_clock.opened_wall_ms) -
                       ((int64_t)clock_boot_ms() - engine->wall_clock.opened_boot_ms);
    int64_t before_ms = engine->wall_clock.step_before_ms;
    return (since_ms > 0 ? since_ms : 0) + (before_ms > 0 ? before_ms : 0);
}

int64_t wall_clock_age_ms(int64_t at_ms) {
    int64_t age_ms = clock_wall_ms() - at_ms;
    return age_ms > 0 ? age_ms : 0;
}
