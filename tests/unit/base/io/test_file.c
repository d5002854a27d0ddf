/* Tests file locks, whole reads and writes, and writes to a slow reader, with real files, pipes and processes. */
#include "base/base_test.h"
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* In a child, which reports by its exit code. */
static bool other_process_sees(int fd, bool (*look)(int fd)) {
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) _exit(look(fd) ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* What a killed program was about to start must not look like the program. */
static void test_a_lock_ends_with_its_process(void **state) {
    (void)state;
    CLEANUP_FD int fd = memfd_create("lock", MFD_CLOEXEC);
    int told[2], held[2];
    assert_true(pipe(told) == 0 && pipe(held) == 0);
    pid_t owner = fork();
    if (owner == 0) {
        bool locked = file_lock(fd) && !file_is_locked(fd);
        if (fork() == 0) { /* lives on with the owner's descriptors until held is closed */
            char byte;
            fd_close(held[1]);
            _exit((int)read(held[0], &byte, 1));
        }
        _exit(write(told[1], &locked, sizeof locked) == sizeof locked && pause() ? 0 : 1);
    }
    bool locked = false;
    assert_int_equal(read(told[0], &locked, sizeof locked), sizeof locked);
    assert_true(locked && file_is_locked(fd) && !other_process_sees(fd, file_lock));
    kill(owner, SIGKILL);
    assert_int_equal(waitpid(owner, NULL, 0), owner);
    assert_true(!file_is_locked(fd) && file_lock(fd) && other_process_sees(fd, file_is_locked));
    for (int i = 0; i < 2; i++) fd_close(told[i]), fd_close(held[i]);
}

static void test_what_is_written_is_loaded(void **state) {
    (void)state;
    char folder[TEST_FOLDER_BYTES], path[64], link[64];
    struct error error = {0};
    CLEANUP_FREE uint8_t *data = NULL;
    size_t size = 0;
    assert_non_null(test_folder_make(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(file_write_all(fd, "abcdef", 6), 0);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(file_load(path, 5, &data, &size, &error), -E_TOO_LARGE);
    assert_true(file_load(link, 6, &data, &size, &error) < 0);
    assert_int_equal(file_load(folder, 1 << 20, &data, &size, &error), -E_SYSTEM);
    assert_null(data);
    assert_int_equal(file_load(path, 6, &data, &size, &error), 0);
    assert_int_equal(size, 6);
    assert_memory_equal(data, "abcdef", 6);
    unlink(link);
    unlink(path);
    assert_true(file_load(path, 6, &data, &size, &error) < 0);
    assert_int_equal(rmdir(folder), 0);
}

/* A pipe takes less than all of it at a time, and the reader is slow. */
static void test_all_is_written_however_little_fits(void **state) {
    (void)state;
    enum { SIZE = 1 << 20 };
    static uint8_t data[SIZE], got[SIZE];
    int fds[2], status = 0;
    for (size_t i = 0; i < SIZE; i++) data[i] = (uint8_t)(i * 31);
    assert_int_equal(pipe(fds), 0);
    pid_t writer = fork();
    if (writer == 0) {
        close(fds[0]);
        _exit(file_write_all(fds[1], data, SIZE) == 0 ? 0 : 1);
    }
    close(fds[1]);
    size_t have = 0;
    for (ssize_t count; (count = read(fds[0], got + have, SIZE - have)) > 0;) have += (size_t)count;
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    assert_int_equal(have, SIZE);
    assert_memory_equal(got, data, SIZE);
    close(fds[0]);
    assert_int_equal(file_write_all(-1, data, 1), -1);
    assert_int_equal(errno, EBADF);
}

static void test_a_small_text_is_read_as_far_as_it_fits(void **state) {
    (void)state;
    char folder[64], text[4];
    assert_non_null(test_folder_make(folder));
    CLEANUP_FD int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP_FD int fd = openat(folder_fd, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(file_read_text(folder_fd, "file", text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(file_write_all(fd, "abcdef", 6), 0);
    assert_int_equal(file_read_text(folder_fd, "file", text, sizeof text), 3);
    assert_string_equal(text, "abc");
    assert_int_equal(symlinkat("file", folder_fd, "link"), 0);
    assert_int_equal(file_read_text(folder_fd, "link", text, sizeof text), -1);
    assert_int_equal(errno, ELOOP);
    assert_int_equal(file_read_text(AT_FDCWD, folder, text, sizeof text), -1);
    assert_int_equal(errno, EISDIR);
    unlinkat(folder_fd, "link", 0);
    unlinkat(folder_fd, "file", 0);
    assert_int_equal(rmdir(folder), 0);
}

/* The kernel gives up when anything is renamed meanwhile, anywhere. */
static void test_a_path_is_opened_while_others_rename(void **state) {
    enum { TIMES = 20000 };
    char folder[64] = "/tmp/sandbox-how-XXXXXX";
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
    (void)state;
    assert_non_null(mkdtemp(folder));
    CLEANUP_FD int folder_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(mkdirat(folder_fd, "sub", 0700) == 0 && mkdirat(folder_fd, "one", 0700) == 0);
    assert_int_equal(symlinkat("../sub", folder_fd, "sub/link"), 0);
    pid_t renamer = fork();
    if (renamer == 0)
        for (;;) renameat(folder_fd, "one", folder_fd, "two"), renameat(folder_fd, "two", folder_fd, "one");
    int failed = 0;
    for (int i = 0; i < TIMES && !failed; i++) {
        CLEANUP_FD int fd = file_open_how(folder_fd, "sub/link/link/link", &how);
        failed = fd < 0 ? errno : 0;
    }
    kill(renamer, SIGKILL);
    waitpid(renamer, NULL, 0);
    assert_int_equal(failed, 0);
    unlinkat(folder_fd, "sub/link", 0);
    static const char *const names[] = {"sub", "one", "two"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) unlinkat(folder_fd, names[i], AT_REMOVEDIR);
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lock_ends_with_its_process),
        cmocka_unit_test(test_what_is_written_is_loaded),
        cmocka_unit_test(test_all_is_written_however_little_fits),
        cmocka_unit_test(test_a_small_text_is_read_as_far_as_it_fits),
        cmocka_unit_test(test_a_path_is_opened_while_others_rename),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
