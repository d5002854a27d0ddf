/* The folder in which a fuzz target writes the files that it reads. The process removes it at its end. */
#include "fuzz/harness/place.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/base.h"
#include "folder.h"

static char folder[TEST_FOLDER_BYTES];

static int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *where) {
    (void)info, (void)flag, (void)where;
    return remove(path);
}

static void remove_all(void) {
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

const char *place_path(void) {
    if (folder[0]) return folder;
    if (!test_folder_make(folder)) abort();
    atexit(remove_all);
    return folder;
}

static void path_of(const char *name, char ret[PATH_MAX]) {
    snprintf(ret, PATH_MAX, "%s/%s", place_path(), name);
}

void place_write(const char *name, const void *data, size_t size) {
    char path[PATH_MAX];
    path_of(name, path);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || file_write_all(fd, data, size) < 0) abort();
}

void place_remove(const char *name) {
    char path[PATH_MAX];
    path_of(name, path);
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
