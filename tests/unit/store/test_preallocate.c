/* Tests the stock of preallocated files and folders, alone and inside a store. */
#include "store/store_internal.h"
#include "store_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAKES_MAX = 64 };

struct places {
    struct fixture *fixture;
    int preallocated_fd, home_fd;
};

static struct places open_places(struct fixture *fixture) {
    struct places places = {fixture, -1, open(fixture->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    assert_int_equal(mkdirat(places.home_fd, "any", 0700), 0);
    places.preallocated_fd = openat(places.home_fd, "any", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(places.preallocated_fd >= 0);
    return places;
}

static void close_places(struct places *places) {
    close(places->preallocated_fd);
    close(places->home_fd);
}

static mode_t mode_of(const struct places *places, const char *path) {
    struct stat info;
    assert_int_equal(fstatat(places->home_fd, path, &info, AT_SYMLINK_NOFOLLOW), 0);
    return info.st_mode;
}

static const char *target(unsigned number, char ret[32]) {
    snprintf(ret, 32, "taken-%u", number);
    return ret;
}

/* Takes until nothing is left. */
static unsigned take_all(const struct places *places, enum preallocated_kind kind) {
    char path[32];
    unsigned count = 0;
    while (count < TAKES_MAX &&
           preallocated_take(places->preallocated_fd, kind, places->home_fd, target(count, path)) == 0)
        count++;
    assert_int_equal(errno, ENOENT);
    for (unsigned i = 0; i < count; i++)
        unlinkat(places->home_fd, target(i, path), kind == PREALLOCATED_FOLDER ? AT_REMOVEDIR : 0);
    return count;
}

static void what_is_not_preallocated_is_made(void **state) {
    CLEANUP(close_places) struct places places = open_places(*state);
    mode_t mask = umask(0077);
    assert_int_equal(preallocated_take(places.preallocated_fd, PREALLOCATED_FILE, places.home_fd, "file"), -1);
    assert_int_equal(errno, ENOENT);
    CLEANUP_FD int fd = preallocated_open_file(places.preallocated_fd, places.home_fd, "file");
    CLEANUP_FD int made = preallocated_open_file(-1, places.home_fd, "other");
    assert_true(made >= 0);
    assert_int_equal(write(fd, "bytes", 5), 5);
    assert_int_equal(preallocated_make_folder(places.preallocated_fd, places.home_fd, "folder"), 0);
    umask(mask);
    assert_int_equal(mode_of(&places, "file"), S_IFREG | 0644);
    assert_int_equal(mode_of(&places, "folder"), S_IFDIR | 0755);
    assert_int_equal(preallocated_open_file(places.preallocated_fd, places.home_fd, "none/file"), -1);
}

static void what_is_taken_is_empty_and_readable_by_nodes(void **state) {
    CLEANUP(close_places) struct places places = open_places(*state);
    mode_t mask = umask(0077);
    preallocate(places.preallocated_fd);
    umask(mask);
    CLEANUP_FD int fd = preallocated_open_file(places.preallocated_fd, places.home_fd, "file");
    assert_int_equal(lseek(fd, 0, SEEK_END), 0);
    assert_int_equal(write(fd, "bytes", 5), 5);
    assert_int_equal(preallocated_make_folder(places.preallocated_fd, places.home_fd, "folder"), 0);
    assert_int_equal(mode_of(&places, "file"), S_IFREG | 0644);
    assert_int_equal(mode_of(&places, "folder"), S_IFDIR | 0755);
    assert_int_equal(unlinkat(places.home_fd, "folder", AT_REMOVEDIR), 0);
}

/* Nothing is overwritten, and no preallocated entry is lost by the attempt. */
static void a_name_that_is_taken_stays_as_it_is(void **state) {
    CLEANUP(close_places) struct places places = open_places(*state);
    CLEANUP_FD int fd = preallocated_open_file(places.preallocated_fd, places.home_fd, "file");
    assert_int_equal(write(fd, "bytes", 5), 5);
    preallocate(places.preallocated_fd);
    assert_int_equal(preallocated_open_file(places.preallocated_fd, places.home_fd, "file"), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(preallocated_make_folder(places.preallocated_fd, places.home_fd, "any"), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(lseek(fd, 0, SEEK_END), 5);
    unsigned files = take_all(&places, PREALLOCATED_FILE), folders = take_all(&places, PREALLOCATED_FOLDER);
    preallocate(places.preallocated_fd);
    assert_int_equal(take_all(&places, PREALLOCATED_FILE), files);
    assert_int_equal(take_all(&places, PREALLOCATED_FOLDER), folders);
}

/* Bounded, and what a killed daemon left half-made does no harm. */
static void filling_again_adds_what_is_missing(void **state) {
    CLEANUP(close_places) struct places places = open_places(*state);
    preallocate(places.preallocated_fd);
    unsigned files = take_all(&places, PREALLOCATED_FILE), folders = take_all(&places, PREALLOCATED_FOLDER);
    assert_in_range(files, 1, TAKES_MAX - 1);
    assert_in_range(folders, 1, TAKES_MAX - 1);
    assert_int_equal(mkdirat(places.home_fd, "any/making/folder", 0700), 0);
    preallocate(places.preallocated_fd);
    preallocate(places.preallocated_fd);
    assert_int_equal(take_all(&places, PREALLOCATED_FILE), files);
    assert_int_equal(preallocated_take(places.preallocated_fd, PREALLOCATED_FOLDER, places.home_fd, "folder"), 0);
    assert_int_equal(mode_of(&places, "folder"), S_IFDIR | 0755);
    assert_int_equal(take_all(&places, PREALLOCATED_FOLDER), folders - 1);
}

/* One look tells: a build of many files must not look for each of them in every place. */
static void absence_is_known_by_the_last_place(void **state) {
    CLEANUP(close_places) struct places places = open_places(*state);
    char name[32];
    preallocate(places.preallocated_fd);
    unsigned files = take_all(&places, PREALLOCATED_FILE);
    CLEANUP_FD int fd = openat(places.preallocated_fd, "file-0", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(preallocated_take(places.preallocated_fd, PREALLOCATED_FILE, places.home_fd, "file"), -1);
    assert_int_equal(errno, ENOENT);
    snprintf(name, sizeof name, "file-%u", files - 1);
    CLEANUP_FD int last = openat(places.preallocated_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(take_all(&places, PREALLOCATED_FILE), 2);
}

/* ---- in a store ---- */

static void count(void *data) {
    ((struct fixture *)data)->answers++;
}

static void do_nothing(void *data) {
    (void)data;
}

static const struct store_file files[] = {{.path = "app/ebin/a.beam", .data = "FOR1", .size = 4}};

static void put(struct fixture *fixture) {
    unsigned answers = fixture->answers;
    store_put_build(fixture->store, NULL, files, 1, fixture_on_build, fixture);
    fixture_run_until(fixture, &fixture->answers, answers + 1);
    store_add_chore(fixture->store, do_nothing, count, fixture);
    fixture_run_until(fixture, &fixture->answers, answers + 2);
    assert_int_equal(fixture->failures, 0);
}

static bool is_preallocated(const struct fixture *fixture, const char *name) {
    CLEANUP_FREE char *path = string_print("%s/store/preallocated/%s", fixture->home, name);
    return access(path, F_OK) == 0;
}

static void a_store_has_one_once_something_was_written(void **state) {
    struct fixture *fixture = *state;
    CLEANUP_FREE char *path = string_print("%s/new", fixture->home);
    assert_false(is_preallocated(fixture, "file-0"));
    put(fixture);
    assert_true(is_preallocated(fixture, "file-0"));
    CLEANUP_FD int fd = store_open_file(fixture->home, path);
    assert_true(fd >= 0);
    assert_false(is_preallocated(fixture, "file-0"));
    CLEANUP_FD int none = store_open_file("/nonexistent", "/nonexistent/file");
    assert_int_equal(none, -1);
}

static void entries_of_another_boot_are_not_used(void **state) {
    struct fixture *fixture = *state;
    put(fixture);
    fixture_close(fixture);
    fixture_open(fixture);
    assert_true(is_preallocated(fixture, "folder-0"));
    fixture_close(fixture);
    CLEANUP_FREE char *note = string_print("%s/store/boot_id", fixture->home);
    assert_int_equal(truncate(note, 0), 0);
    fixture_open(fixture);
    assert_false(is_preallocated(fixture, "folder-0"));
}

/* ---- chores ---- */

struct task {
    struct fixture *fixture;
    unsigned number;
    unsigned seen;
};

static void look(void *data) {
    struct task *task = data;
    task->seen = task->fixture->answers;
}

static void tell(void *data) {
    struct task *task = data;
    assert_int_equal(task->seen, task->number);
    task->fixture->answers++;
}

static void chores_go_one_after_the_other_and_closing_waits(void **state) {
    struct fixture *fixture = *state;
    struct task tasks[3];
    for (unsigned i = 0; i < ARRAY_SIZE(tasks); i++) {
        tasks[i] = (struct task){.fixture = fixture, .number = i};
        store_add_chore(fixture->store, look, tell, &tasks[i]);
    }
    assert_int_equal(fixture->answers, 0); /* never from inside */
    fixture_close(fixture);
    assert_int_equal(fixture->answers, 3);
}

#define IN_STORE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_STORE(what_is_not_preallocated_is_made),     IN_STORE(what_is_taken_is_empty_and_readable_by_nodes),
        IN_STORE(a_name_that_is_taken_stays_as_it_is),  IN_STORE(filling_again_adds_what_is_missing),
        IN_STORE(absence_is_known_by_the_last_place),   IN_STORE(a_store_has_one_once_something_was_written),
        IN_STORE(entries_of_another_boot_are_not_used), IN_STORE(chores_go_one_after_the_other_and_closing_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
