/* How the daemon itself is bounded, as the kernel tells it: what the launcher wanted may not be what it could do. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "confine/confine.h"
#include "jail/jail.h"

enum { TEXT_BYTES = 4096 };

/* The directory that a line "N:CONTROLLER:PATH" names, if it is the daemon's own and bounds memory. */
static bool find_directory(char *line, char ret[PATH_MAX]) {
    char *names = strchr(line, ':');
    char *below = names ? strchr(++names, ':') : NULL;
    if (!below || !strstr(below, "/" JAIL_DAEMON_CGROUP "/")) return false;
    *below++ = '\0';
    if (*names && strcmp(names, "memory") != 0) return false; /* the unified hierarchy names none */
    return string_format(ret, PATH_MAX, NULL, "/sys/fs/cgroup/%s%s", names, below) == 0;
}

/* The number in a control file; 0 when there is no such file, or it says "max". */
static uint64_t read_limit(const char *directory, const char *file) {
    char path[PATH_MAX], text[32];
    uint64_t bytes;
    if (string_format(path, sizeof path, NULL, "%s/%s", directory, file) < 0 ||
        file_read_text(AT_FDCWD, path, text, sizeof text) < 0)
        return 0;
    text[strcspn(text, "\n")] = '\0';
    return parse_u64(text, &bytes) ? bytes : 0;
}

static uint64_t memory_limit(void) {
    static const char *const files[] = {"memory.limit_in_bytes", "memory.max"}; /* of cgroup v1 and v2 */
    char text[TEXT_BYTES], directory[PATH_MAX];
    uint64_t bytes = 0;
    if (file_read_text(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) < 0) return 0;
    char *at = text;
    for (char *line; (line = strsep(&at, "\n"));) {
        if (!find_directory(line, directory)) continue;
        for (size_t i = 0; !bytes && i < ARRAY_SIZE(files); i++) bytes = read_limit(directory, files[i]);
    }
    return bytes;
}

static bool is_filtered(void) {
    char text[TEXT_BYTES];
    int mode = 0;
    const char *line =
        file_read_text(AT_FDCWD, "/proc/self/status", text, sizeof text) < 0 ? NULL : strstr(text, "\nSeccomp:");
    return line && sscanf(line, "\nSeccomp: %d", &mode) == 1 && mode != 0;
}

struct confine_bounds confine_bounds(void) {
    return (struct confine_bounds){.memory_bytes = memory_limit(), .is_filtered = is_filtered()};
}
