/* Tests how a stranger's stream is moved to a file: bounds on its size, on silence and on slowness. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "link/spool.h"

static const struct spool_bounds ample = {.silence_ms = 10000, .whole_ms = 10000, .bytes = 64 << 20};

struct stage {
    uv_loop_t loop;
    char folder[64];
    int read_fd, write_fd; /* the first is the spool's */
    struct spool *spool;
    bool is_told;
    int fd;
    struct error error;
};

static void on_done(void *data, int fd, const struct error *error) {
    struct stage *stage = data;
    assert_false(stage->is_told);
    stage->is_told = true;
    stage->fd = fd;
    stage->error = error ? *error : (struct error){0};
    assert_int_equal(error != NULL, fd < 0);
}

static void begin(struct stage *stage, const struct spool_bounds *bounds) {
    int fds[2];
    struct error error;
    *stage = (struct stage){.fd = -1};
    assert_int_equal(uv_loop_init(&stage->loop), 0);
    assert_non_null(test_folder_make(stage->folder));
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    stage->read_fd = fds[0], stage->write_fd = fds[1];
    stage->spool = spool_start(&stage->loop, stage->folder, fds[0], bounds, on_done, stage, &error);
    assert_non_null(stage->spool);
    assert_false(stage->is_told);
}

/* The loop closes clean, and no file stays in the folder. */
static void end(struct stage *stage) {
    while (!stage->is_told) uv_run(&stage->loop, UV_RUN_ONCE);
    fd_close(stage->write_fd);
    fd_close(stage->fd);
    assert_int_equal(uv_run(&stage->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&stage->loop), 0);
    assert_int_equal(rmdir(stage->folder), 0);
}

/* Bytes of all values, written by a process of its own, in pieces. */
static pid_t write_beside(struct stage *stage, size_t size, size_t piece) {
    pid_t pid = fork();
    if (pid == 0) {
        uint8_t bytes[100000];
        close(stage->read_fd);
        for (size_t at = 0; at < size;) {
            size_t count = size - at < piece ? size - at : piece;
            for (size_t i = 0; i < count; i++) bytes[i] = (uint8_t)((at + i) % 251);
            if (file_write_all(stage->write_fd, bytes, count) < 0) _exit(EXIT_FAILURE);
            at += count;
        }
        _exit(EXIT_SUCCESS);
    }
    stage->write_fd = fd_close(stage->write_fd);
    return pid;
}

static void assert_content(int fd, size_t size) {
    uint8_t bytes[65536];
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_size, size);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    for (size_t at = 0; at < size;) {
        ssize_t got = read(fd, bytes, sizeof bytes);
        assert_true(got > 0);
        for (ssize_t i = 0; i < got; i++, at++)
            if (bytes[i] != at % 251) fail_msg("byte %zu differs", at);
    }
}

static void everything_that_came_is_there(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 65536, 65537, 4 * 65536, 4 * 65536 + 1, 5000000};
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        struct stage stage;
        int status;
        begin(&stage, &ample);
        pid_t pid = write_beside(&stage, sizes[i], i % 2 ? 100000 : 999);
        while (!stage.is_told) uv_run(&stage.loop, UV_RUN_ONCE);
        if (stage.error.code != E_NONE) fail_msg("%zu bytes: %s", sizes[i], stage.error.detail);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_content(stage.fd, sizes[i]);
        end(&stage);
    }
}

static void silence_ends_it(void **state) {
    (void)state;
    struct stage stage;
    struct spool_bounds bounds = ample;
    bounds.silence_ms = 20;
    begin(&stage, &bounds);
    assert_int_equal(write(stage.write_fd, "some", 4), 4);
    end(&stage);
    assert_int_equal(stage.error.code, E_TIMEOUT);
    assert_string_equal(stage.error.detail, "the project's files did not come for 20 ms");
}

static void dripping_ends_it(void **state) {
    (void)state;
    struct stage stage;
    struct spool_bounds bounds = ample;
    bounds.whole_ms = 50;
    begin(&stage, &bounds);
    while (!stage.is_told) {
        if (write(stage.write_fd, "x", 1) < 0) break; /* it has had enough */
        uv_run(&stage.loop, UV_RUN_ONCE);
    }
    end(&stage);
    assert_int_equal(stage.error.code, E_TIMEOUT);
    assert_string_equal(stage.error.detail, "the project's files did not come within 50 ms");
}

/* Time in which the loop itself did not run does not count as the sender's silence. */
static void a_late_loop_is_no_silence(void **state) {
    (void)state;
    struct stage stage;
    struct spool_bounds bounds = ample;
    bounds.silence_ms = 20;
    begin(&stage, &bounds);
    assert_int_equal(write(stage.write_fd, "some", 4), 4);
    stage.write_fd = fd_close(stage.write_fd);
    poll(NULL, 0, 40); /* the loop stands still for longer than it would wait */
    end(&stage);
    assert_int_equal(stage.error.code, E_NONE);
}

static void too_much_ends_it(void **state) {
    (void)state;
    static const size_t bounds_bytes[] = {1000, 300000};
    for (size_t i = 0; i < ARRAY_SIZE(bounds_bytes); i++) {
        struct stage stage;
        struct spool_bounds bounds = ample;
        bounds.bytes = bounds_bytes[i];
        begin(&stage, &bounds);
        pid_t pid = write_beside(&stage, 5000000, 999);
        end(&stage);
        assert_int_equal(stage.error.code, E_TOO_LARGE);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
}

static void can_be_called_off(void **state) {
    (void)state;
    for (int large = 0; large < 2; large++) {
        struct stage stage;
        struct error why;
        error_set(&why, E_LAUNCHER, "enough");
        begin(&stage, &ample);
        pid_t pid = large ? write_beside(&stage, 5000000, 100000) : 0;
        for (int i = 0; large && i < 8; i++) uv_run(&stage.loop, UV_RUN_ONCE); /* on the pool by now, or in between */
        if (!stage.is_told) {
            spool_cancel(stage.spool, &why);
            spool_cancel(stage.spool, &why);
            assert_false(stage.is_told);
        }
        end(&stage);
        assert_int_equal(stage.error.code, E_LAUNCHER);
        if (pid) assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
}

static void needs_something_to_wait_for(void **state) {
    (void)state;
    struct error error;
    uv_loop_t loop = {0};
    assert_int_equal(uv_loop_init(&loop), 0);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_null(spool_start(&loop, "/", fd, &ample, on_done, NULL, &error));
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_that_came_is_there),
        cmocka_unit_test(silence_ends_it),
        cmocka_unit_test(dripping_ends_it),
        cmocka_unit_test(a_late_loop_is_no_silence),
        cmocka_unit_test(too_much_ends_it),
        cmocka_unit_test(can_be_called_off),
        cmocka_unit_test(needs_something_to_wait_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
