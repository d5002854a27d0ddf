/* How the daemon itself is bounded, as the kernel tells it: what the launcher wanted may not be what it could do. */
#include <stdio.h>
#include <string.h>

#include "jail/cgroup_backend.h"

enum { TEXT_BYTES = 4096 };

/* The directory that a line "N:CONTROLLER:PATH" names, if it is the daemon's own and bounds memory. */
static bool find_directory(char *line, char ret[PATH_MAX]) {
    char *names = strchr(line, ':');
    char *below = names ? strchr(++names, ':') : NULL;
    if (!below || !strstr(below, "/" CGROUP_OF_DAEMONS "/")) return false;
    *below++ = '\0';
    if (*names && strcmp(names, "memory") != 0) return false; /* the unified hierarchy names none */
    return string_format(ret, PATH_MAX, NULL, "/sys/fs/cgroup/%s%s", names, below) == 0;
}

static bool read_limit(const char *directory, const char *file, uint64_t *ret) {
    char path[PATH_MAX];
    return string_format(path, sizeof path, NULL, "%s/%s", directory, file) == 0 && cgroup_read_number(path, "", ret);
}

static uint64_t memory_limit(void) {
    char text[TEXT_BYTES], directory[PATH_MAX];
    uint64_t bytes = 0;
    if (cgroup_read("/proc/self/cgroup", text, sizeof text) < 0) return 0;
    char *at = text;
    for (char *line; (line = wire_next_line(&at));)
        if (find_directory(line, directory) && !read_limit(directory, cgroup_v1.memory_limit_file, &bytes))
            read_limit(directory, cgroup_v2.memory_limit_file, &bytes);
    return bytes;
}

static bool is_filtered(void) {
    char text[TEXT_BYTES];
    int mode = 0;
    const char *line = cgroup_read("/proc/self/status", text, sizeof text) < 0 ? NULL : strstr(text, "\nSeccomp:");
    return line && sscanf(line, "\nSeccomp: %d", &mode) == 1 && mode != 0;
}

struct jail_own_bounds jail_own_bounds(void) {
    return (struct jail_own_bounds){.memory_bytes = memory_limit(), .is_filtered = is_filtered()};
}
