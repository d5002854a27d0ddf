/* Tests how a project's stream is unpacked: paths that leave the folder, links, bounds, and damaged streams. */
#include "scratch.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "compile/compile_internal.h"

static int receive_bytes(const struct scratch *scratch, const void *data, size_t size, struct error *reterr) {
    CLEANUP_FD int fd = memfd_create("stream", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), size);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return receive_project(fd, scratch->path, reterr);
}

static void assert_received(const struct scratch *scratch, const char *text) {
    struct error error = {0};
    if (receive_bytes(scratch, text, strlen(text), &error) < 0) fail_msg("%s", error.detail);
}

static void assert_refused(const struct scratch *scratch, const char *text, enum error_code code) {
    struct error error = {0};
    assert_true(receive_bytes(scratch, text, strlen(text), &error) < 0);
    assert_int_equal(error.code, code);
    assert_true(error.detail[0] != '\0');
}

static void test_files_folders_and_links(void **state) {
    assert_received(*state, "D 755 0 lib\nF 644 6 lib/a.ex\nmodule"
                            "F 755 0 empty\nL 0 8 link\nlib/a.exF 644 2 with%20space%25\nok"
                            "E\n");
    scratch_holds(*state, "lib/a.ex", "module");
    scratch_holds(*state, "empty", "");
    scratch_holds(*state, "link", "module");
    scratch_holds(*state, "with space%", "ok");
}

static void test_nothing(void **state) {
    assert_received(*state, "E\n");
}

static void test_ways_out_are_refused(void **state) {
    static const char *const paths[] = {"../x",     "/x",  "a/../../x", "..",     ".",          "./x",
                                        "a//b",     "a/",  "%2e%2e/x",  "%2E%2E", "%2e%2e%2fx", "%2fetc/x",
                                        "a/%2e%2e", "",    "a/./b",     "%00",    "x%0",        "x%",
                                        "%4",       "%zz", "% 1",       "%+1",    "%-1"};
    scratch_folder(*state, "a");
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        char text[128];
        snprintf(text, sizeof text, "F 644 1 %s\nxE\n", paths[i]);
        assert_refused(*state, text, E_SYSTEM);
        snprintf(text, sizeof text, "D 755 0 %s\nE\n", paths[i]);
        assert_refused(*state, text, E_SYSTEM);
    }
}

static void test_nothing_is_written_through_a_link(void **state) {
    scratch_folder(*state, "project");
    scratch_folder(*state, "outside");
    struct scratch project = {.fd = ((struct scratch *)*state)->fd};
    assert_int_equal(
        string_format(project.path, sizeof project.path, NULL, "%s/project", ((struct scratch *)*state)->path), 0);
    struct error error;
    static const char *const streams[] = {
        "L 0 10 a\n../outsideF 644 1 a/x\nxE\n",
        "L 0 10 b\n../outsideD 755 0 b/x\nE\n",
        "L 0 10 c\n../outsideL 0 1 c/x\nxE\n",
        "L 0 12 d\n../outside/xF 644 1 d\nxE\n",
        "D 755 0 e\nL 0 13 e/f\n../../outsideF 644 1 e/f/x\nxE\n",
    };
    for (size_t i = 0; i < ARRAY_SIZE(streams); i++)
        assert_true(receive_bytes(&project, streams[i], strlen(streams[i]), &error) < 0);
    assert_false(scratch_has(*state, "outside/x"));
}

static void test_nothing_is_written_twice(void **state) {
    assert_refused(*state, "F 644 1 a\nxF 644 1 a\nyE\n", E_SYSTEM);
    scratch_holds(*state, "a", "x");
}

static void test_early_end(void **state) {
    static const char *const streams[] = {
        "", "F", "F 644 3 a", "F 644 3 b\n", "F 644 3 c\nab", "F 644 1 d\nx", "L 0 3 e\nab", "E"};
    for (size_t i = 0; i < ARRAY_SIZE(streams); i++) assert_refused(*state, streams[i], E_SYSTEM);
}

static void test_damage(void **state) {
    static const char *const lines[] = {"X 644 1 a\n",  "F644 1 a\n",   "F 644\n", "F 644 a b\n",
                                        "F 644 -1 a\n", "F 644 1\n",    "\n",      "F 644 99999999999999999999 a\n",
                                        "D 755 1 a\n",  "L 0 5000 a\n", "EE\n",    "F 644  a\n"};
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) assert_refused(*state, lines[i], E_SYSTEM);
    struct error error;
    assert_true(receive_bytes(*state, "F 644 1 a\0b\nxE\n", 15, &error) < 0);
}

static void test_bounds(void **state) {
    char text[128];
    snprintf(text, sizeof text, "F 644 %d a\n", PROJECT_FILE_MAX_BYTES + 1);
    assert_refused(*state, text, E_TOO_LARGE);
    assert_refused(*state, "F 644 18446744073709551615 a\n", E_TOO_LARGE);
}

static void test_too_many_entries(void **state) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct error error;
    for (int i = 0; i <= PROJECT_ENTRIES_MAX; i++) buf_printf(&text, "L 0 1 %d\nx", i);
    buf_append_string(&text, "E\n");
    assert_true(receive_bytes(*state, text.data, text.size, &error) < 0);
    assert_int_equal(error.code, E_TOO_LARGE);
}

static void test_too_deep(void **state) {
    CLEANUP(buf_free) struct buf text = BUF_INIT, path = BUF_INIT;
    for (int i = 0; i <= PROJECT_DEPTH_MAX; i++) {
        buf_printf(&path, "%sd", i ? "/" : "");
        buf_printf(&text, "D 755 0 %s\n", buf_string(&path));
    }
    assert_refused(*state, buf_string(&text), E_SYSTEM);
}

static void test_long_line(void **state) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_append_string(&text, "F 644 1 ");
    for (int i = 0; i < 5 * PATH_MAX; i++) buf_append_byte(&text, 'a');
    buf_append_string(&text, "\nxE\n");
    assert_refused(*state, buf_string(&text), E_SYSTEM);
}

static void test_through_a_pipe_in_pieces(void **state) {
    int fds[2];
    struct error error = {0};
    static const char text[] = "F 644 200000 big\n";
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        char chunk[1000];
        memset(chunk, 'x', sizeof chunk);
        bool sent = write(fds[1], text, strlen(text)) > 0;
        for (int i = 0; i < 200 && sent; i++) sent = write(fds[1], chunk, sizeof chunk) == sizeof chunk;
        _exit(sent && write(fds[1], "E\n", 2) == 2 ? 0 : 1);
    }
    close(fds[1]);
    if (receive_project(fds[0], ((struct scratch *)*state)->path, &error) < 0) fail_msg("%s", error.detail);
    close(fds[0]);
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    struct stat status;
    assert_int_equal(fstatat(((struct scratch *)*state)->fd, "big", &status, 0), 0);
    assert_int_equal(status.st_size, 200000);
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_files_folders_and_links),
        IN_SCRATCH(test_nothing),
        IN_SCRATCH(test_ways_out_are_refused),
        IN_SCRATCH(test_nothing_is_written_through_a_link),
        IN_SCRATCH(test_nothing_is_written_twice),
        IN_SCRATCH(test_early_end),
        IN_SCRATCH(test_damage),
        IN_SCRATCH(test_bounds),
        IN_SCRATCH(test_too_many_entries),
        IN_SCRATCH(test_too_deep),
        IN_SCRATCH(test_long_line),
        IN_SCRATCH(test_through_a_pipe_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
