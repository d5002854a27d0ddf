/* Where rebar3 is: one program, a script of escript's with an archive behind it. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "node/node_internal.h"

/* What is installed as a shell script, such as a version manager's shim, can't be shown to a node. */
static bool is_escript(const char *path) {
    char line[128] = "";
    FILE *file = fopen(path, "re");
    bool is_read = file && fgets(line, sizeof line, file);
    if (file) fclose(file);
    return is_read && string_starts(line, "#!") && strstr(line, "escript");
}

bool toolchain_find_rebar3(const struct toolchain *toolchain, struct toolchain_rebar3 *ret) {
    struct toolchain_rebar3 found = {0};
    struct stat status;
    struct error ignored;
    char place[PATH_MAX];
    toolchain_find_in_path(toolchain->root, "rebar3", place);
    if (!place[0] || string_format(found.path, sizeof found.path, &ignored, "%s%s", toolchain->root, place) < 0)
        return false;
    if (stat(found.path, &status) < 0 || !S_ISREG(status.st_mode) || !is_escript(found.path)) return false;
    if (toolchain_check_folder(found.path, &ignored) < 0) return false; /* other users could change it */
    found.size = (uint64_t)status.st_size;
    found.modified_ns = (uint64_t)status.st_mtim.tv_sec * 1000000000u + (uint64_t)status.st_mtim.tv_nsec;
    *ret = found;
    return true;
}
