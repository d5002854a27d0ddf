/* Tests how a project's files are written to a pipe, with bounds on size and depth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "folder.h"
#include "launcher/project/project.h"

struct project {
    char directory[64];
    int fd;
    int out_fd; /* a file, so that the test need not read meanwhile */
};

static int make_project(void **state) {
    static struct project project;
    assert_non_null(test_folder_make(project.directory));
    project.fd = open(project.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    project.out_fd = open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    assert_true(project.fd >= 0 && project.out_fd >= 0);
    *state = &project;
    return 0;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk) {
    (void)status, (void)type, (void)walk;
    return remove(path);
}

static int remove_project(void **state) {
    struct project *project = *state;
    close(project->fd);
    close(project->out_fd);
    return nftw(project->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void put_file(const struct project *project, const char *name, const char *text) {
    int fd = openat(project->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, 0640), 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void put_directory(const struct project *project, const char *name) {
    assert_int_equal(mkdirat(project->fd, name, 0750), 0);
    assert_int_equal(fchmodat(project->fd, name, 0750, 0), 0);
}

static const char *read_out(const struct project *project) {
    static char text[4096];
    ssize_t size = pread(project->out_fd, text, sizeof text - 1, 0);
    assert_true(size >= 0);
    text[size] = '\0';
    return text;
}

static void writes_files_directories_and_links(void **state) {
    struct project *project = *state;
    put_directory(project, "lib");
    put_file(project, "lib/a b.ex", "one\n");
    assert_int_equal(symlinkat("../lib", project->fd, "lib/link"), 0);
    assert_int_equal(project_stream_write(project->fd, NULL, project->out_fd, NULL), 0);
    const char *out = read_out(project);
    assert_true(string_starts(out, "D 750 0 lib\n"));
    assert_non_null(strstr(out, "F 640 4 lib/a%20b.ex\none\n"));
    assert_non_null(strstr(out, "L 0 6 lib/link\n../lib"));
    assert_true(string_ends(out, "E\n"));
}

static void leaves_out_what_is_no_source(void **state) {
    struct project *project = *state;
    put_directory(project, "_build");
    put_file(project, "_build/x", "x");
    put_directory(project, ".git");
    put_directory(project, "deps");
    put_directory(project, "deps/a");
    put_directory(project, "deps/a/.git");
    put_directory(project, "deps/a/_build");
    assert_int_equal(mkfifoat(project->fd, "pipe", 0600), 0);
    assert_int_equal(project_stream_write(project->fd, NULL, project->out_fd, NULL), 0);
    assert_string_equal(read_out(project), "D 750 0 deps\nD 750 0 deps/a\nD 750 0 deps/a/_build\nE\n");
}

static void writes_one_file(void **state) {
    struct project *project = *state;
    put_file(project, "one.exs", "1");
    CLEANUP_FD int fd = openat(project->fd, "one.exs", O_RDONLY | O_CLOEXEC);
    assert_int_equal(project_stream_write(fd, "one.exs", project->out_fd, NULL), 0);
    assert_string_equal(read_out(project), "F 640 1 one.exs\n1E\n");
}

static void refuses_a_file_that_is_too_large(void **state) {
    struct project *project = *state;
    struct error error = {0};
    put_file(project, "large", "");
    CLEANUP_FD int fd = openat(project->fd, "large", O_RDWR | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, (64 << 20) + 1), 0);
    assert_true(project_stream_write(project->fd, NULL, project->out_fd, &error) < 0);
    assert_int_equal(error.code, E_TOO_LARGE);
    assert_string_equal(error.detail, "large is too large");
    assert_string_equal(read_out(project), "");
}

static void refuses_what_lies_too_deep(void **state) {
    struct project *project = *state;
    struct error error = {0};
    char path[512] = "";
    for (int depth = 0; depth < 65; depth++) {
        strcat(path, depth ? "/d" : "d");
        put_directory(project, path);
    }
    assert_true(project_stream_write(project->fd, NULL, project->out_fd, &error) < 0);
    assert_int_equal(error.code, E_TOO_LARGE);
    assert_false(string_ends(read_out(project), "E\n"));
}

static void a_closed_pipe_is_a_failure(void **state) {
    struct project *project = *state;
    struct error error = {0};
    CLEANUP_FD int full_fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    put_file(project, "a", "1");
    assert_true(project_stream_write(project->fd, NULL, full_fd, &error) < 0);
    assert_int_equal(error.code, E_DISK_FULL);
}

#define WITH_PROJECT(function) cmocka_unit_test_setup_teardown(function, make_project, remove_project)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_PROJECT(writes_files_directories_and_links),
        WITH_PROJECT(leaves_out_what_is_no_source),
        WITH_PROJECT(writes_one_file),
        WITH_PROJECT(refuses_a_file_that_is_too_large),
        WITH_PROJECT(refuses_what_lies_too_deep),
        WITH_PROJECT(a_closed_pipe_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
