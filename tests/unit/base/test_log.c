/* Tests the daemon's log, read from a pipe: the form of a line, levels, and long values. */
#include "base/base_test.h"

#include <fcntl.h>
#include <unistd.h>

/* A log that ends in a pipe, so that a test reads what was written. */
struct pipe_log {
    struct log log;
    int read_fd;
};

static struct pipe_log open_log(enum log_level level) {
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    return (struct pipe_log){.log = {.fd = fds[1], .level = level}, .read_fd = fds[0]};
}

static void close_log(struct pipe_log *log) {
    fd_close(log->log.fd);
    fd_close(log->read_fd);
}

static size_t read_log(const struct pipe_log *log, char *ret, size_t size) {
    ssize_t length = read(log->read_fd, ret, size - 1);
    ret[length < 0 ? 0 : length] = '\0';
    return length < 0 ? 0 : (size_t)length;
}

static void test_lines_have_time_level_event_and_pairs(void **state) {
    (void)state;
    struct pipe_log log = open_log(LOG_INFO_LEVEL);
    char line[256];
    log_line(&log.log, LOG_WARN_LEVEL, "started", "home", "/h \"q\"\n", "id", NULL, NULL);
    read_log(&log, line, sizeof line);
    assert_int_equal(line[10], 'T');
    assert_string_equal(line + strlen("2026-11-15T21:05:00.123Z"),
                        " warn started home=\"/h \\\"q\\\"\\x0a\" id=\"\"\n");
    close_log(&log);
}

static void test_lower_levels_are_not_written(void **state) {
    (void)state;
    struct pipe_log log = open_log(LOG_WARN_LEVEL);
    char line[64];
    log_line(&log.log, LOG_INFO_LEVEL, "quiet", NULL);
    assert_int_equal(read_log(&log, line, sizeof line), 0);
    log_line(&log.log, LOG_ERROR_LEVEL, "loud", NULL);
    assert_true(read_log(&log, line, sizeof line) > 0);
    close_log(&log);
}

static void test_long_values_are_cut(void **state) {
    (void)state;
    struct pipe_log log = open_log(LOG_DEBUG_LEVEL);
    static char value[100000], line[20000];
    memset(value, 'v', sizeof value - 1);
    log_line(&log.log, LOG_INFO_LEVEL, "event", "a", value, "b", "short", NULL);
    size_t length = read_log(&log, line, sizeof line);
    assert_true(length > 2000 && length < 4000);
    assert_non_null(strstr(line, "v…\" b=\"short\"\n"));
    close_log(&log);
}

/* The next line that can be written tells how many could not. */
static void test_lines_that_cannot_be_written_are_counted(void **state) {
    (void)state;
    struct log closed = {.fd = -1};
    struct pipe_log log = open_log(LOG_INFO_LEVEL);
    char line[256];
    log_line(&closed, LOG_ERROR_LEVEL, "lost", "key", "value", NULL);
    log_line(&closed, LOG_ERROR_LEVEL, "lost", NULL);
    log_line(&log.log, LOG_INFO_LEVEL, "first", NULL);
    assert_true(read_log(&log, line, sizeof line) > 0);
    assert_non_null(strstr(line, " info first lost_lines=\"2\"\n"));
    log_line(&log.log, LOG_INFO_LEVEL, "second", NULL);
    assert_true(read_log(&log, line, sizeof line) > 0);
    assert_non_null(strstr(line, " info second\n"));
    close_log(&log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_have_time_level_event_and_pairs),
        cmocka_unit_test(test_lower_levels_are_not_written),
        cmocka_unit_test(test_long_values_are_cut),
        cmocka_unit_test(test_lines_that_cannot_be_written_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
