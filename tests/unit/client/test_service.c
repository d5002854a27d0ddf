/* Starting a service that is not there. The launcher is a shell script of the test's own. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "folder.h"
#include "peer.h"
#include "sandbox.h"

struct place {
    char directory[64];
    char home[96];
    char launcher[96];
};

static void make_place(struct place *place, const char *script) {
    assert_non_null(test_folder_make(place->directory));
    snprintf(place->home, sizeof place->home, "%s/a/home", place->directory);
    snprintf(place->launcher, sizeof place->launcher, "%s/launcher", place->directory);
    FILE *file = fopen(place->launcher, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", script);
    fclose(file);
    chmod(place->launcher, 0755);
    setenv("SANDBOX_LAUNCHER", place->launcher, 1);
}

static void remove_place(struct place *place) {
    static const char *const files[] = {"a/home/start.lock", "a/home/daemon.log", "launcher"};
    static const char *const directories[] = {"a/home", "a", "."};
    char path[160];
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        snprintf(path, sizeof path, "%s/%s", place->directory, files[i]);
        unlink(path);
    }
    for (size_t i = 0; i + 1 < ARRAY_SIZE(directories); i++) {
        snprintf(path, sizeof path, "%s/%s", place->directory, directories[i]);
        rmdir(path);
    }
    assert_int_equal(rmdir(place->directory), 0);
    unsetenv("SANDBOX_LAUNCHER");
}

static void a_launcher_that_ends_at_once_is_quoted(void **state) {
    (void)state;
    struct place place;
    make_place(&place, "echo first; echo \"$1 $2: the disk is made of cheese\" >&2; exit 3");
    struct sbx *sbx = NULL;
    struct sbx_error error;
    uint64_t started_ms = clock_monotonic_ms();
    assert_int_equal(sbx_open(place.home, &sbx, &error), -1);
    assert_true(clock_monotonic_ms() - started_ms < 5000);
    assert_string_equal(error.code, "no_daemon");
    char expected[256];
    snprintf(expected, sizeof expected, "--home %s: the disk is made of cheese", place.home);
    assert_non_null(strstr(error.detail, expected));
    sbx_error_clear(&error);
    struct stat status;
    assert_int_equal(stat(place.home, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0711);
    remove_place(&place);
}

static void a_launcher_that_is_missing_is_told(void **state) {
    (void)state;
    struct place place;
    make_place(&place, "");
    chmod(place.launcher, 0644);
    struct sbx *sbx = NULL;
    struct sbx_error error;
    assert_int_equal(sbx_open(place.home, &sbx, &error), -1);
    assert_non_null(strstr(error.detail, "Permission denied"));
    sbx_error_clear(&error);
    remove_place(&place);
}

static void refusing_to_start_leaves_no_trace(void **state) {
    (void)state;
    struct place place;
    make_place(&place, "");
    struct sbx_options options = SBX_OPTIONS_INIT;
    struct sbx *sbx = NULL;
    options.home = place.home;
    options.flags = SBX_NO_AUTOSTART;
    assert_int_equal(sbx_open_with(&options, &sbx, NULL), -1);
    assert_int_equal(access(place.home, F_OK), -1);
    remove_place(&place);
}

static void a_log_that_is_no_file_is_refused(void **state) {
    (void)state;
    struct place place;
    make_place(&place, "exit 0");
    char path[160];
    snprintf(path, sizeof path, "%s/a", place.directory);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(mkdir(place.home, 0700), 0);
    snprintf(path, sizeof path, "%s/daemon.log", place.home);
    assert_int_equal(symlink("/dev/null", path), 0);
    struct sbx *sbx = NULL;
    struct sbx_error error;
    assert_int_equal(sbx_open(place.home, &sbx, &error), -1);
    assert_non_null(strstr(error.detail, "daemon.log"));
    sbx_error_clear(&error);
    remove_place(&place);
}

#define HEALTH(length, status) "HTTP/1.1 200 OK\r\nContent-Length: " length "\r\n\r\n{\"status\":\"" status "\"}"

/* The peer's socket appears when the launcher has run, and says at first that it is still starting. */
static void a_started_service_is_awaited(void **state) {
    (void)state;
    static const char *const answers[] = {HEALTH("21", "starting"), HEALTH("15", "ok"), HEALTH("15", "ok")};
    struct peer peer = {0};
    struct place place;
    char hidden[128], fifo[128];
    make_place(&place, "mv \"$2/hidden.sock\" \"$2/api.sock\"; exec cat \"$2/fifo\"");
    assert_true(peer_start(&peer, answers, ARRAY_SIZE(answers)));
    snprintf(hidden, sizeof hidden, "%s/hidden.sock", peer.home);
    snprintf(fifo, sizeof fifo, "%s/fifo", peer.home);
    assert_int_equal(rename(peer.socket_path, hidden), 0);
    assert_int_equal(mkfifo(fifo, 0600), 0);

    struct sbx *sbx = NULL;
    struct sbx_error error;
    if (sbx_open(peer.home, &sbx, &error) < 0) fail_msg("%s", error.detail);
    assert_int_equal(sbx_op(sbx, "health", NULL, NULL, NULL), 0);
    sbx_close(sbx);
    assert_int_equal(peer.request_count, 3);
    assert_int_equal(peer.connection_count, 2);

    /* Let the launcher go. */
    close(open(fifo, O_WRONLY));
    unlink(fifo);
    char path[128];
    static const char *const left[] = {"start.lock", "daemon.log"};
    for (size_t i = 0; i < ARRAY_SIZE(left); i++) {
        snprintf(path, sizeof path, "%s/%s", peer.home, left[i]);
        assert_int_equal(unlink(path), 0);
    }
    peer_stop(&peer);
    assert_int_equal(access(peer.home, F_OK), -1);
    remove_place(&place);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launcher_that_ends_at_once_is_quoted), cmocka_unit_test(a_launcher_that_is_missing_is_told),
        cmocka_unit_test(refusing_to_start_leaves_no_trace),      cmocka_unit_test(a_log_that_is_no_file_is_refused),
        cmocka_unit_test(a_started_service_is_awaited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
