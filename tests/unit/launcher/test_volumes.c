/* Named volumes and files of nodes, asked for by a daemon that is in a stranger's hands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/volumes/volumes.h"
#include "launcher_client.h"

enum { OWNER = 54321, STRANGER = 4444 };

static struct client client;

static int open_client(void **state) {
    (void)state;
    client_open(&client, true);
    return 0;
}

static int close_client(void **state) {
    (void)state;
    client_close(&client);
    return 0;
}

static bool ask_as(uid_t uid, const char *verb, const char *rest) {
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(&client, uid, &peer_fd);
    return client_ask(&client, verb, rest, peer_fd);
}

static void assert_refused(bool done, const char *slug) {
    assert_false(done);
    if (!string_starts(client.message, slug)) fail_msg("%s", client.message);
}

static void file_names_tell_whose_a_volume_is(void **state) {
    static const char *const bad[] = {
        "", "-x", "1-", "x-y", "1", "4294967295-x", "1-.x", "1-a/b", "01234567890123456-x"};
    struct volume volume;
    char file[VOLUME_FILE_BYTES];
    (void)state;
    volume_name_file("shop-data", 1000, file);
    assert_string_equal(file, "1000-shop-data");
    assert_true(volume_read_file_name(file, &volume));
    assert_string_equal(volume.name, "shop-data");
    assert_int_equal(volume.owner, 1000);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        if (volume_read_file_name(bad[i], &volume)) fail_msg("%s", bad[i]);
}

static void a_volume_is_its_callers(void **state) {
    (void)state;
    if (!ask_as(OWNER, "make-volume", "mine size=16777216")) fail_msg("%s", client_detail(&client));
    assert_refused(ask_as(STRANGER, "make-volume", "mine size=16777216"), "already_exists");
    assert_true(client_ask(&client, "volumes", "", -1));
    assert_non_null(strstr(client.message, "mine uid=54321 size=16777216"));
    assert_refused(ask_as(STRANGER, "remove-volume", "mine"), "not_found");
    assert_refused(client_ask(&client, "remove-volume", "mine", -1), "invalid_input");
    assert_true(ask_as(OWNER, "remove-volume", "mine"));
    assert_refused(ask_as(OWNER, "remove-volume", "mine"), "not_found");
}

static void bad_requests_are_refused(void **state) {
    static const char *const bad[] = {"x",
                                      "x size=",
                                      "x size=1",
                                      "x size=18446744073709551615",
                                      "../x size=16777216",
                                      ".x size=16777216",
                                      "a/b size=16777216",
                                      "size=16777216"};
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) assert_refused(ask_as(OWNER, "make-volume", bad[i]), "invalid_input");
    assert_refused(client_ask(&client, "make-volume", "x size=16777216", -1), "invalid_input");
    assert_true(client_ask(&client, "volumes", "", -1));
    assert_null(strchr(client.message, '\n'));
}

static void it_is_mounted_below_its_places_alone(void **state) {
    static const char *const bad[] = {"/etc", "/app/x", "/mnt", "/data", "/mnt/../etc", "/mnt/x/"};
    char request[128];
    (void)state;
    if (!ask_as(OWNER, "make-volume", "held size=16777216")) fail_msg("%s", client_detail(&client));
    assert_true(client_spawn(&client, "node", "directory /mnt\n", "wait"));
    fd_close(take_fd(&client.fds[1]));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        snprintf(request, sizeof request, "node held %s volume=1", bad[i]);
        assert_refused(client_ask(&client, "mount", request, -1), "invalid_input");
    }
    assert_refused(client_ask(&client, "mount", "node /etc /mnt/etc volume=1", -1), "invalid_input");
    assert_refused(client_ask(&client, "mount", "node none /mnt/none volume=1", -1), "not_found");
    if (!client_ask(&client, "mount", "node held /mnt/held volume=1", -1)) fail_msg("%s", client_detail(&client));
    if (!client_ask(&client, "mount", "node held /data/held volume=1 ro=1", -1)) fail_msg("%s", client_detail(&client));
}

static int memory_with(const char *text) {
    int fd = memfd_create("content", MFD_CLOEXEC);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    return fd;
}

static bool file(const char *rest, int fd) {
    char request[256];
    snprintf(request, sizeof request, "node %s", rest);
    return client_ask(&client, "file", request, fd);
}

/* In the node of the test before. */
static void files_are_written_and_read_with_the_nodes_rights(void **state) {
    char text[64] = "";
    CLEANUP_FD int content_fd = memory_with("hello");
    (void)state;
    if (!file("write /mnt/held/x length=5 mode=4095", content_fd)) fail_msg("%s", client_detail(&client));
    if (!file("read /data/held/x length=100", -1)) fail_msg("%s", client_detail(&client));
    assert_int_equal(pread(client.fds[0], text, sizeof text - 1, 0), 5);
    assert_string_equal(text, "hello");
    if (!file("list /mnt/held", -1)) fail_msg("%s", client_detail(&client));
    assert_true(pread(client.fds[0], text, sizeof text - 1, 0) > 0);
    assert_non_null(strstr(text, "F 777 5 x\n")); /* without the set-id bits that were asked for */
    assert_true(file("mkdir /mnt/held/sub mode=493", -1));
    assert_true(file("mkdir /mnt/held/sub mode=493", -1));
    assert_refused(file("write /data/held/y length=5 mode=420", content_fd), "forbidden"); /* read-only there */
    assert_refused(file("write /mnt/y length=5 mode=420", content_fd), "forbidden");
}

static void files_elsewhere_are_out_of_reach(void **state) {
    static const char *const bad[] = {"read /etc/passwd length=1",
                                      "read /mnt/../etc/passwd length=1",
                                      "read relative length=1",
                                      "list /",
                                      "list /tmp",
                                      "read /mnt/held/x length=99999999",
                                      "chew /mnt/held/x",
                                      "read",
                                      "write /mnt/held/z length=1",
                                      "read /mnt/held/sub length=1"};
    CLEANUP_FD int content_fd = memory_with("x");
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) assert_refused(file(bad[i], -1), "invalid_input");
    assert_refused(file("read /mnt/held/x length=1", content_fd), "invalid_input");
    assert_refused(file("read /mnt/held/none length=1", -1), "not_found");
    assert_refused(client_ask(&client, "file", "nowhere read /data/x length=1", -1), "not_found");
    assert_true(client_ask(&client, "bury", "node", -1));
    assert_true(ask_as(OWNER, "remove-volume", "held"));
}

/* As root would find it after a kill in the middle. */
static void what_was_not_finished_goes(void **state) {
    char path[160];
    (void)state;
    snprintf(path, sizeof path, "%s/volumes/.new-torn", client.home);
    write_file(path, "half", 0, 0600);
    client_kill_launcher(&client, SIGKILL);
    client_start_launcher(&client);
    client_dial(&client);
    client_hello(&client);
    assert_int_not_equal(access(path, F_OK), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_names_tell_whose_a_volume_is),
        cmocka_unit_test(a_volume_is_its_callers),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(it_is_mounted_below_its_places_alone),
        cmocka_unit_test(files_are_written_and_read_with_the_nodes_rights),
        cmocka_unit_test(files_elsewhere_are_out_of_reach),
        cmocka_unit_test(what_was_not_finished_goes),
    };
    return cmocka_run_group_tests(tests, open_client, close_client);
}
