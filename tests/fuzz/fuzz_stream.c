/* Any bytes as a project's stream: whatever they say, nothing appears outside the folder they are unpacked into. */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "compile/compile_internal.h"
#include "folder.h"
#include "fuzz/harness/fuzz.h"

static void check(bool holds) {
    if (!holds) abort();
}

static int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *where) {
    (void)info, (void)flag, (void)where;
    return remove(path);
}

void fuzz_one(const uint8_t *data, size_t size) {
    char parent[TEST_FOLDER_BYTES], folder[64];
    struct error error = {0};
    CLEANUP_FD int fd = memfd_create("stream", MFD_CLOEXEC);
    check(fd >= 0 && write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0 && test_folder_make(parent));
    snprintf(folder, sizeof folder, "%s/project", parent);
    check(mkdir(folder, 0755) == 0);
    int result = receive_project(fd, folder, &error);
    check(result == 0 || (error.code != E_NONE && error.detail[0] != '\0'));
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    check(rmdir(parent) == 0); /* nothing else is in it */
}
