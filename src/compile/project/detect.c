/* What kind of project a folder holds. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/compile.h"

const char *source_kind_name(enum source_kind kind) {
    static const char *const names[] = {"mix", "rebar3", "folder", "file", "ebin"};
    return names[kind];
}

static bool has(int folder, const char *name) {
    return faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool has_file_ending(int folder, const char *name, const char *suffix) {
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW); /* a link would lead outside */
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory) {
        fd_close(fd);
        return false;
    }
    bool found = false;
    struct dirent *entry;
    while (!found && (entry = readdir(directory))) found = string_ends(entry->d_name, suffix);
    closedir(directory);
    return found;
}

enum source_kind source_detect(int folder) {
    if (has(folder, "mix.exs")) return SOURCE_MIX;
    if (has(folder, "rebar.config") || has_file_ending(folder, "src", ".app.src") ||
        has_file_ending(folder, "src", ".erl"))
        return SOURCE_REBAR3;
    if (has_file_ending(folder, ".", ".beam") || has_file_ending(folder, "ebin", ".beam")) return SOURCE_EBIN;
    return SOURCE_FOLDER;
}
