/* Tests the store's thread: a full queue, a full disk, and a writer that is killed. */
#include "store_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

enum { QUEUE_MAX = 16384 };

static void count_row(void *data, const struct store_sandbox *row) {
    (void)row;
    (*(unsigned *)data)++;
}

static unsigned count_rows(struct fixture *fixture) {
    unsigned rows = 0;
    struct error error = {0};
    assert_int_equal(store_load_sandboxes(fixture->store, count_row, &rows, &error), 0);
    return rows;
}

static void put_numbered(struct fixture *fixture, int number, const char *config) {
    char id[16];
    snprintf(id, sizeof id, "s%06d", number);
    struct store_sandbox row = {.id = id, .status = "running", .config = config};
    store_put_sandbox(fixture->store, &row, fixture_on_done, fixture);
}

/* Another connection's lock stalls the thread, as a slow disk would. */
static void a_full_queue_refuses_and_loses_nothing_it_took(void **state) {
    struct fixture *fixture = *state;
    sqlite3 *stall;
    assert_int_equal(sqlite3_open(fixture->database, &stall), SQLITE_OK);
    assert_int_equal(sqlite3_exec(stall, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    for (int i = 0; i < QUEUE_MAX + 10; i++) put_numbered(fixture, i, NULL);
    json_t *event = json_pack("{s:i}", "seq", 1);
    store_add_event(fixture->store, event);
    json_decref(event);
    fixture_run_until(fixture, &fixture->answers, 10);
    assert_int_equal(fixture->failures, 10);
    assert_int_equal(fixture->last_error.code, E_LIMIT);
    struct error lost = {0};
    assert_int_equal(store_lost_writes(fixture->store, &lost), 1);
    assert_int_equal(lost.code, E_LIMIT);
    sqlite3_close(stall);
    fixture_run_until(fixture, &fixture->answers, QUEUE_MAX + 10);
    assert_int_equal(fixture->failures, 10);
    assert_int_equal(count_rows(fixture), QUEUE_MAX);
}

static void one_large_write_is_refused(void **state) {
    struct fixture *fixture = *state;
    size_t size = (size_t)65 << 20;
    CLEANUP_FREE char *config = malloc(size);
    memset(config, 'x', size);
    config[size - 1] = '\0';
    put_numbered(fixture, 1, config);
    fixture_run_until(fixture, &fixture->answers, 1);
    assert_int_equal(fixture->last_error.code, E_LIMIT);
}

static void write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* A mount namespace of the test's own, so that its small disk vanishes with it. */
static void enter_own_namespace(void) {
    uid_t uid = geteuid();
    if (uid == 0) {
        assert_int_equal(unshare(CLONE_NEWNS), 0);
    } else {
        char mapping[32];
        assert_int_equal(unshare(CLONE_NEWUSER | CLONE_NEWNS), 0);
        snprintf(mapping, sizeof mapping, "0 %u 1", uid);
        write_text("/proc/self/uid_map", mapping);
    }
    assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
}

static void make_home_small(struct fixture *fixture) {
    fixture_close(fixture);
    enter_own_namespace();
    assert_int_equal(mount("tmpfs", fixture->home, "tmpfs", 0, "size=512k"), 0);
    fixture_open(fixture);
}

static void leave_small_home(struct fixture *fixture) {
    fixture_close(fixture);
    assert_int_equal(umount2(fixture->home, MNT_DETACH), 0);
}

static void a_full_disk_is_told_and_passes(void **state) {
    struct fixture *fixture = *state;
    char config[8192];
    memset(config, 'x', sizeof config - 1);
    config[sizeof config - 1] = '\0';
    make_home_small(fixture);
    for (int i = 0; i < 100; i++) put_numbered(fixture, i, config);
    fixture_run_until(fixture, &fixture->answers, 100);
    assert_true(fixture->failures > 0 && fixture->failures < 100);
    assert_int_equal(fixture->last_error.code, E_DISK_FULL);
    unsigned written = 100 - fixture->failures;
    assert_int_equal(count_rows(fixture), written);
    assert_int_equal(mount(NULL, fixture->home, NULL, MS_REMOUNT, "size=16m"), 0);
    put_numbered(fixture, 200, config);
    fixture_run_until(fixture, &fixture->answers, 101);
    assert_int_equal(count_rows(fixture), written + 1);
    leave_small_home(fixture);
    fixture_open(fixture);
}

static void a_build_on_a_full_disk_leaves_nothing(void **state) {
    struct fixture *fixture = *state;
    make_home_small(fixture);
    size_t size = (size_t)1 << 20;
    CLEANUP_FREE char *data = calloc(1, size);
    struct store_file file = {.path = "app/ebin/large.beam", .data = data, .size = size};
    store_put_build(fixture->store, NULL, &file, 1, fixture_on_build, fixture);
    fixture_run_until(fixture, &fixture->answers, 1);
    assert_int_equal(fixture->last_error.code, E_DISK_FULL);
    CLEANUP_FREE char *builds = string_print("%s/store/builds", fixture->home);
    assert_int_equal(rmdir(store_scratch(fixture->store)), 0);
    assert_int_equal(rmdir(builds), 0);
    leave_small_home(fixture);
    fixture_open(fixture);
}

struct acknowledger {
    int fd;
    struct store *store;
    int next;
};

static void acknowledge_and_go_on(void *data, const struct error *error) {
    struct acknowledger *ack = data;
    if (error || write(ack->fd, "+", 1) != 1) _exit(1);
    char id[16];
    snprintf(id, sizeof id, "k%06d", ack->next++);
    struct store_sandbox row = {.id = id, .status = "running", .config = "{}"};
    store_put_sandbox(ack->store, &row, acknowledge_and_go_on, ack);
}

/* The killed one: writes rows one after another, and says so each time one is durable. */
static void write_until_killed(const char *home, int fd) {
    uv_loop_t loop = {0};
    struct acknowledger ack = {.fd = fd};
    struct error error;
    if (uv_loop_init(&loop) < 0 || store_open(&loop, home, &ack.store, &error) < 0) _exit(1);
    struct store_sandbox row = {.id = "k000000", .status = "running"};
    ack.next = 1;
    store_put_sandbox(ack.store, &row, acknowledge_and_go_on, &ack);
    uv_run(&loop, UV_RUN_DEFAULT);
    _exit(1);
}

static unsigned read_acknowledgements(int fd, unsigned at_least) {
    unsigned count = 0;
    char bytes[256];
    ssize_t got = 0;
    while (count < at_least && (got = read(fd, bytes, sizeof bytes)) > 0) count += (unsigned)got;
    return count;
}

static void a_killed_writer_leaves_every_row_it_acknowledged(void **state) {
    struct fixture *fixture = *state;
    fixture_close(fixture);
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) write_until_killed(fixture->home, ends[1]);
    close(ends[1]);
    unsigned acknowledged = read_acknowledgements(ends[0], 50);
    kill(child, SIGKILL);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    acknowledged += read_acknowledgements(ends[0], UINT32_MAX);
    close(ends[0]);
    fixture_open(fixture);
    unsigned rows = count_rows(fixture);
    assert_true(acknowledged >= 50);
    assert_true(rows == acknowledged || rows == acknowledged + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_full_queue_refuses_and_loses_nothing_it_took, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(one_large_write_is_refused, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_killed_writer_leaves_every_row_it_acknowledged, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_is_told_and_passes, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_build_on_a_full_disk_leaves_nothing, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
