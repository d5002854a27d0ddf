/* Finds out what kind of project a folder holds, by the names of its files. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/compile_internal.h"

const char *source_kind_name(enum source_kind kind) {
    static const char *const names[] = {"mix", "rebar3", "folder", "file", "ebin", "release", "compiled"};
    return names[kind];
}

static bool has(int folder, const char *name) {
    return faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* NULL: it can't be read, or a link leads there, which would lead outside. */
static DIR *open_directory(int folder, const char *path) {
    int fd = open_below(folder, path);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory) fd_close(fd);
    return directory;
}

static bool has_file_ending(int folder, const char *name, const char *suffix) {
    DIR *directory = open_directory(folder, name);
    if (!directory) return false;
    bool found = false;
    struct dirent *entry;
    while (!found && (entry = readdir(directory))) found = string_ends(entry->d_name, suffix);
    closedir(directory);
    return found;
}

/* Whether any folder below this one holds `NAME/SUB` with such a file. */
static bool has_below(int folder, const char *name, const char *sub, const char *suffix) {
    DIR *directory = open_directory(folder, name);
    if (!directory) return false;
    bool found = false;
    struct dirent *entry;
    while (!found && (entry = readdir(directory))) {
        char path[NAME_MAX + 16];
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s%s", entry->d_name, sub);
        found = has_file_ending(dirfd(directory), path, suffix);
    }
    closedir(directory);
    return found;
}

static bool is_source(int folder) {
    return has(folder, "rebar.config") || has_file_ending(folder, "src", ".app.src") ||
           has_file_ending(folder, "src", ".erl");
}

static bool has_beams(int folder) {
    return has_file_ending(folder, "", ".beam") || has_file_ending(folder, "ebin", ".beam");
}

/* A broken release counts too: its error is better than that of a folder without modules. */
static bool is_release(int folder) {
    CLEANUP_FD int lib = open_below(folder, "lib");
    CLEANUP_FD int releases = open_below(folder, "releases");
    return lib >= 0 && releases >= 0 && (has(releases, "start_erl.data") || has_below(folder, "releases", "", ".rel"));
}

/* Beside a Makefile the applications are a source tree's, which is a folder of sources. */
static bool is_compiled(int folder) {
    return !has(folder, "Makefile") &&
           (has_below(folder, "", "/ebin", ".app") || has_below(folder, "lib", "/ebin", ".app"));
}

bool source_is_ebin(int folder) {
    return !has(folder, "mix.exs") && !is_source(folder) && has_beams(folder);
}

enum source_kind source_detect(int folder) {
    if (has(folder, "mix.exs")) return SOURCE_MIX;
    if (is_source(folder)) return SOURCE_REBAR3;
    if (has_beams(folder)) return SOURCE_EBIN;
    if (is_release(folder)) return SOURCE_RELEASE;
    return is_compiled(folder) ? SOURCE_COMPILED : SOURCE_FOLDER;
}
