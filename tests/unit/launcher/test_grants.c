/* Tests standing permissions: a project is opened with the rights of the caller that gave one, also after that caller
   has gone, and with no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher_client.h"

enum { OWNER = 54321, STRANGER = 4444 };

static struct client client;
static char project[128], secret[160];

static int open_client(void **state) {
    (void)state;
    client_open(&client, true);
    snprintf(project, sizeof project, "%s/project", client.directory);
    snprintf(secret, sizeof secret, "%s/secret", project);
    make_directory(project, OWNER, 0700);
    write_file(secret, "mine", OWNER, 0600);
    return 0;
}

static int close_client(void **state) {
    (void)state;
    client_close(&client);
    return 0;
}

static bool grant_as(uid_t uid, const char *name, const char *path) {
    char rest[256];
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(&client, uid, &peer_fd);
    snprintf(rest, sizeof rest, "%s %s", name, path);
    return client_ask(&client, "grant", rest, peer_fd);
}

/* Whether the daemon, with its own uid, reads the secret in the folder that came with the last answer. */
static bool daemon_reads(void) {
    char text[8] = "";
    assert_int_equal(seteuid(client.daemon_uid), 0);
    CLEANUP_FD int fd = openat(client.fds[0], "secret", O_RDONLY | O_CLOEXEC);
    assert_int_equal(seteuid(0), 0);
    return fd >= 0 && read(fd, text, sizeof text - 1) == 4 && strcmp(text, "mine") == 0;
}

static void it_outlives_its_giver_and_the_launcher(void **state) {
    (void)state;
    assert_true(grant_as(OWNER, "box", project));
    assert_true(client_ask(&client, "project", "box", -1));
    assert_true(daemon_reads());
    client_kill_launcher(&client, SIGKILL);
    client_start_launcher(&client);
    client_dial(&client);
    client_hello(&client);
    assert_true(client_ask(&client, "project", "box", -1));
    assert_true(daemon_reads());
}

/* What the engine's watcher needs: the folder, seen by the daemon as its own, tells of what its owner does. */
static void the_daemon_can_watch_it(void **state) {
    char place[64];
    struct inotify_event event[16];
    (void)state;
    assert_true(client_ask(&client, "project", "box", -1));
    assert_int_equal(seteuid(client.daemon_uid), 0);
    CLEANUP_FD int inotify_fd = inotify_init1(IN_CLOEXEC);
    CLEANUP_FD int fd = openat(client.fds[0], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(place, sizeof place, "/proc/self/fd/%d", fd);
    int wd = inotify_add_watch(inotify_fd, place, IN_CLOSE_WRITE);
    int by_path = inotify_add_watch(inotify_fd, project, IN_CLOSE_WRITE);
    assert_int_equal(seteuid(0), 0);
    assert_true(wd >= 0);
    assert_int_equal(by_path, -1); /* its own rights would not do */
    write_file(secret, "mine", OWNER, 0600);
    assert_true(read(inotify_fd, event, sizeof event) > 0);
    assert_int_equal(event[0].wd, wd);
}

static void it_gives_no_more_than_its_givers_rights(void **state) {
    (void)state;
    assert_true(grant_as(STRANGER, "nosy", project));
    assert_false(client_ask(&client, "project", "nosy", -1));
    assert_true(string_starts(client.message, "forbidden"));
    assert_false(client_ask(&client, "project", "nosy sign=1", -1));
    assert_true(string_starts(client.message, "forbidden"));
}

static void it_follows_the_path(void **state) {
    char aside[160];
    (void)state;
    snprintf(aside, sizeof aside, "%s/aside", client.directory);
    assert_int_equal(rename(project, aside), 0);
    assert_false(client_ask(&client, "project", "box", -1));
    assert_true(string_starts(client.message, "not_found"));
    make_directory(project, OWNER, 0700);
    write_file(secret, "mine", OWNER, 0600);
    assert_true(client_ask(&client, "project", "box", -1));
    assert_true(daemon_reads());
}

static uint64_t signature(const char *name) {
    char rest[96];
    snprintf(rest, sizeof rest, "%s sign=1", name);
    assert_true(client_ask(&client, "project", rest, -1));
    return client_number(&client, "signature");
}

static void a_signature_changes_with_the_files(void **state) {
    char path[200];
    (void)state;
    uint64_t before = signature("box");
    assert_int_equal(signature("box"), before);
    write_file(secret, "other", OWNER, 0600);
    uint64_t after = signature("box");
    assert_int_not_equal(after, before);
    snprintf(path, sizeof path, "%s/_build", project);
    make_directory(path, OWNER, 0755);
    snprintf(path, sizeof path, "%s/_build/out", project);
    write_file(path, "built", OWNER, 0600);
    assert_int_equal(signature("box"), after);
    snprintf(path, sizeof path, "%s/lib", project);
    make_directory(path, OWNER, 0755);
    snprintf(path, sizeof path, "%s/lib/new", project);
    write_file(path, "new", OWNER, 0600);
    assert_int_not_equal(signature("box"), after);
    assert_true(grant_as(OWNER, "single", secret));
    before = signature("single");
    write_file(secret, "another", OWNER, 0600);
    assert_int_not_equal(signature("single"), before);
}

static void it_ends_when_it_is_withdrawn(void **state) {
    (void)state;
    assert_true(client_ask(&client, "withdraw", "box", -1));
    assert_false(client_ask(&client, "project", "box", -1));
    assert_true(string_starts(client.message, "forbidden"));
    assert_true(client_ask(&client, "withdraw", "box", -1));
}

static void malformed_requests_are_refused(void **state) {
    char rest[256];
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(&client, OWNER, &peer_fd);
    (void)state;
    static const char *const bad[] = {"box relative", "box /a/../b", "../box /tmp", ".box /tmp", "box", ""};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) assert_false(client_ask(&client, "grant", bad[i], peer_fd));
    snprintf(rest, sizeof rest, "box %s", project);
    assert_false(client_ask(&client, "grant", rest, -1));
    assert_false(client_ask(&client, "grant", rest, caller_fd)); /* the peer of this end is the listener */
    assert_false(client_ask(&client, "project", "never-granted", -1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_outlives_its_giver_and_the_launcher),  cmocka_unit_test(the_daemon_can_watch_it),
        cmocka_unit_test(it_gives_no_more_than_its_givers_rights), cmocka_unit_test(it_follows_the_path),
        cmocka_unit_test(a_signature_changes_with_the_files),      cmocka_unit_test(it_ends_when_it_is_withdrawn),
        cmocka_unit_test(malformed_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, open_client, close_client);
}
