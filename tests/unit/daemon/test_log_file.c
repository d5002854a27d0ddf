/* The log is bounded, whole lines long, and loses nothing but its oldest files, with another program writing to it. */
#include "scratch.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "daemon/log_file.h"

enum { MAX_BYTES = 64 << 10, LINES = 3000 };

struct stage {
    struct scratch *scratch;
    int kept_out, kept_err;
    int launcher_fd; /* another program's, that has the file open since before */
};

static void take_stderr(struct stage *stage) {
    stage->kept_out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
    stage->kept_err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    CLEANUP_FD int fd = openat(stage->scratch->fd, "daemon.log", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    stage->launcher_fd = fcntl(fd, F_DUPFD_CLOEXEC, 10);
    assert_true(dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0);
}

static void give_stderr_back(struct stage *stage) {
    dup2(stage->kept_out, STDOUT_FILENO);
    dup2(stage->kept_err, STDERR_FILENO);
    fd_close(stage->kept_out);
    fd_close(stage->kept_err);
    fd_close(stage->launcher_fd);
}

/* The queue says when it is full; the test has time. */
static void put(int fd, const char *line) {
    while (write(fd, line, strlen(line)) < 0 && errno == EAGAIN) sched_yield();
}

static void write_lines(int fd, int from, int to) {
    char line[128];
    for (int i = from; i < to; i++) {
        snprintf(line, sizeof line, "line %d %0*d\n", i, i % 90, 0);
        put(fd, line);
    }
}

/* The newest files hold the last lines without a gap. */
static int check_file(const struct scratch *scratch, const char *name, int last, bool *ret_exists) {
    CLEANUP_FREE char *text = calloc(1, MAX_BYTES);
    CLEANUP_FD int fd = openat(scratch->fd, name, O_RDONLY | O_CLOEXEC);
    *ret_exists = fd >= 0;
    ssize_t size = fd < 0 ? 0 : read(fd, text, MAX_BYTES - 1);
    assert_in_range(size, 0, MAX_BYTES / 4 + 256);
    int count = 0, first = -1;
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;) {
        int number = -1;
        if (sscanf(line, "line %d", &number) != 1) continue; /* the other program's */
        if (first < 0) first = number;
        assert_int_equal(number, first + count++);
    }
    if (count > 0) assert_int_equal(first + count, last);
    return first < 0 ? last : first;
}

static void test_the_log_is_bounded_and_loses_nothing_new(void **state) {
    struct stage stage = {.scratch = *state};
    struct log_file *file = NULL;
    struct error error;
    take_stderr(&stage);
    int result = log_file_open(stage.scratch->path, MAX_BYTES, &file, &error);
    if (result == 0 && file) {
        write_lines(log_file_fd(file), 0, LINES / 2);
        put(stage.launcher_fd, "the launcher's\n");
        write_lines(log_file_fd(file), LINES / 2, LINES);
        log_file_close(file);
    }
    give_stderr_back(&stage);
    assert_int_equal(result, 0);
    assert_non_null(file);
    bool exists;
    int from = check_file(stage.scratch, "daemon.log", LINES, &exists);
    assert_true(exists);
    from = check_file(stage.scratch, "daemon.log.1", from, &exists);
    from = check_file(stage.scratch, "daemon.log.2", from, &exists);
    from = check_file(stage.scratch, "daemon.log.3", from, &exists);
    assert_true(exists);
    assert_in_range(from, 1, LINES - 400);
    assert_false(scratch_has(stage.scratch, "daemon.log.4"));
    assert_false(scratch_has(stage.scratch, "daemon.log.next"));
}

/* A terminal, a journal, or a file of the caller's is not ours to rotate. */
static void test_what_is_not_the_homes_log_is_left_alone(void **state) {
    struct stage stage = {.scratch = *state};
    struct log_file *file = NULL;
    struct error error;
    take_stderr(&stage);
    unlinkat(stage.scratch->fd, "daemon.log", 0);
    scratch_file(stage.scratch, "daemon.log", "another\n");
    int result = log_file_open(stage.scratch->path, MAX_BYTES, &file, &error);
    give_stderr_back(&stage);
    assert_int_equal(result, 0);
    assert_null(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_log_is_bounded_and_loses_nothing_new, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_not_the_homes_log_is_left_alone, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
