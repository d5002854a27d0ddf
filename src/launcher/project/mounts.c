/* Which folders may be bound as a whole. A file system that its caller serves answers when the caller likes, and
   a process that looks at its mount waits for that: the one that sends a stream may, since nothing waits for it. A
   mount that is not to be bound is left out of a copy, and what it covers would be seen. */
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "launcher/project/project.h"

/* "\040" and the like, for what would end a field. */
static void decode_octal(char *text) {
    char *to = text;
    for (const char *from = text; *from; to++) {
        unsigned byte;
        if (*from == '\\' && sscanf(from + 1, "%3o", &byte) == 1 && strspn(from + 1, "01234567") >= 3) {
            *to = (char)byte;
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

static bool is_below(const char *path, const char *folder) {
    size_t length = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
    return strncmp(path, folder, length) == 0 && path[length] == '/' && path[length + 1];
}

bool project_mount_is_below(char *line, const char *folder) {
    char *rest = line, *place = NULL;
    for (int field = 0; field < 5; field++) place = strsep(&rest, " ");
    if (!place) return false;
    decode_octal(place);
    return is_below(place, folder);
}

/* "36 35 98:0 /root /place rw,noatime master:1 unbindable - ext3 /dev/root rw": the fields before the dash vary. */
bool project_mount_forbids_binding(char *line, const char *folder) {
    char *dash = strstr(line, " - ");
    if (!dash) return false;
    *dash = '\0';
    bool is_served = string_starts(dash + 3, "fuse"), is_unbindable = strstr(line, " unbindable") != NULL;
    return (is_served || is_unbindable) && project_mount_is_below(line, folder);
}

/* Whether it is so of any mount; true when they can't be read. */
static bool any_mount(bool (*is_so)(char *line, const char *folder), const char *folder) {
    CLEANUP_FREE char *line = NULL;
    size_t capacity = 0;
    bool found = false;
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    if (!mounts) return true;
    while (!found && getline(&line, &capacity, mounts) > 0) found = is_so(line, folder);
    fclose(mounts);
    return found;
}

bool folder_has_mounts(const char *folder) {
    return any_mount(project_mount_is_below, folder);
}

bool project_must_be_streamed(int source_fd) {
    struct statfs status;
    char link[64], folder[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", source_fd);
    ssize_t size = readlink(link, folder, sizeof folder - 1);
    if (size <= 0 || size == (ssize_t)sizeof folder - 1 || fstatfs(source_fd, &status) < 0) return true;
    folder[size] = '\0';
    return status.f_type == FUSE_SUPER_MAGIC || any_mount(project_mount_forbids_binding, folder);
}
