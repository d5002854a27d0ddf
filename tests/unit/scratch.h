/* A folder of the test's own, gone when it ends, and files in it. */
#ifndef TEST_SCRATCH_H
#define TEST_SCRATCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "folder.h"

struct scratch {
    char path[TEST_FOLDER_BYTES + 16]; /* with room for a folder below it */
    int fd;
};

static inline int scratch_remove_entry(const char *path, const struct stat *info, int flag, struct FTW *where) {
    (void)info, (void)flag, (void)where;
    return remove(path);
}

static inline int scratch_setup(void **state) {
    struct scratch *scratch = calloc(1, sizeof *scratch);
    assert_non_null(test_folder_make(scratch->path));
    scratch->fd = open(scratch->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(scratch->fd >= 0);
    *state = scratch;
    return 0;
}

static inline int scratch_teardown(void **state) {
    struct scratch *scratch = *state;
    fd_close(scratch->fd);
    nftw(scratch->path, scratch_remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    free(scratch);
    return 0;
}

static inline void scratch_folder(const struct scratch *scratch, const char *path) {
    assert_int_equal(mkdirat(scratch->fd, path, 0755), 0);
}

static inline void scratch_file(const struct scratch *scratch, const char *path, const char *content) {
    CLEANUP_FD int fd = openat(scratch->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
}

static inline void scratch_link(const struct scratch *scratch, const char *target, const char *path) {
    assert_int_equal(symlinkat(target, scratch->fd, path), 0);
}

static inline bool scratch_has(const struct scratch *scratch, const char *path) {
    return faccessat(scratch->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static inline void scratch_holds(const struct scratch *scratch, const char *path, const char *content) {
    char text[4096];
    CLEANUP_FD int fd = openat(scratch->fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    assert_true(size >= 0);
    text[size] = '\0';
    assert_string_equal(text, content);
}

#endif
