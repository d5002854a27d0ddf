/* Named volumes and files of nodes, asked for by a daemon that is in a stranger's hands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuse_server.h"
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
                                      "_zzz size=16777216",
                                      "_ size=16777216",
                                      "size=16777216"};
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) assert_refused(ask_as(OWNER, "make-volume", bad[i]), "invalid_input");
    assert_refused(client_ask(&client, "make-volume", "x size=16777216", -1), "invalid_input");
    assert_true(client_ask(&client, "volumes", "", -1));
    assert_null(strchr(client.message, '\n'));
}

static void it_is_mounted_below_its_places_alone(void **state) {
    static const char *const bad[] = {"/etc", "/app/x", "/mnt", "/data", "/mnt/../etc", "/mnt/x/"};
    static const char *const private_bad[] = {"node _own /mnt/own volume=1", "node _own /data/own volume=1",
                                              "node _own /data volume=1 exec=1", "node _own /data volume=1 ro=1"};
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
    for (size_t i = 0; i < ARRAY_SIZE(private_bad); i++)
        assert_refused(client_ask(&client, "mount", private_bad[i], -1), "invalid_input");
    if (!client_ask(&client, "mount", "node held /mnt/held volume=1", -1)) fail_msg("%s", client_detail(&client));
    if (!client_ask(&client, "mount", "node held /data/held volume=1 ro=1", -1)) fail_msg("%s", client_detail(&client));
}

/* All of the disk is /tmp's from then on. */
static void a_sandboxes_own_is_mounted_over_its_data_once(void **state) {
    struct statfs status;
    char path[64];
    (void)state;
    if (!ask_as(OWNER, "make-volume", "_a1 size=16777216")) fail_msg("%s", client_detail(&client));
    assert_refused(ask_as(OWNER, "make-volume", "_a1 size=16777216"), "already_exists");
    assert_true(client_ask(&client, "volumes", "private=b", -1));
    assert_null(strstr(client.message, "_a1"));
    assert_true(client_ask(&client, "volumes", "private=a", -1));
    assert_non_null(strstr(client.message, "_a1 uid=54321 size=16777216"));
    assert_refused(client_ask(&client, "volumes", "private=ab", -1), "invalid_input");
    if (!client_spawn(&client, "later", "tmpfs /tmp 25\nwrite /\nexecute /probe\n", "wait"))
        fail_msg("%s", client_detail(&client));
    snprintf(path, sizeof path, "/proc/%d/root/tmp", (int)client_number(&client, "pid"));
    fd_close(take_fd(&client.fds[1]));
    assert_int_equal(statfs(path, &status), 0);
    uint64_t before = status.f_blocks;
    if (!client_ask(&client, "mount", "later _a1 /data volume=1", -1)) fail_msg("%s", client_detail(&client));
    assert_int_equal(statfs(path, &status), 0);
    assert_true(status.f_blocks > 2 * before);
    snprintf(path + strlen(path) - 3, 8, "data");
    assert_int_equal(statfs(path, &status), 0);
    assert_int_equal(status.f_type, EXT4_SUPER_MAGIC);
    assert_refused(client_ask(&client, "mount", "later _a1 /data volume=1", -1), "conflict");
    assert_true(client_ask(&client, "bury", "later", -1));
    assert_true(client_ask(&client, "remove-volume", "_a1", -1));
    assert_refused(client_ask(&client, "remove-volume", "_a1", -1), "not_found");
}

/* False: there is none, and none is ready soon. */
static bool find_spare(char ret[160]) {
    char folder[128];
    uint64_t deadline_ms = clock_monotonic_ms() + 2000ULL * TEST_SLOWNESS;
    snprintf(folder, sizeof folder, "%s/volumes", client.home);
    for (bool is_there = false; clock_monotonic_ms() < deadline_ms;) {
        DIR *listing = opendir(folder);
        for (struct dirent *entry; listing && !is_there && (entry = readdir(listing));)
            if ((is_there = string_starts(entry->d_name, VOLUME_SPARE_PREFIX)))
                snprintf(ret, 160, "%.110s/%.40s", folder, entry->d_name);
        if (listing) closedir(listing);
        if (is_there) return true;
    }
    return false;
}

/* Which holds a lock on the image. */
static void await_device(const char *image) {
    uint64_t deadline_ms = clock_monotonic_ms() + 10000;
    CLEANUP_FD int fd = open(image, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    while (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        assert_true(clock_monotonic_ms() < deadline_ms);
        flock(fd, LOCK_UN);
    }
}

/* Such as one whose file was removed by hand. */
static void a_spare_one_that_can_not_be_taken_is_replaced(void **state) {
    char path[160], request[64];
    bool is_there = false;
    (void)state;
    if (!ask_as(OWNER, "make-volume", "_b0 size=16777216")) fail_msg("%s", client_detail(&client));
    assert_true(find_spare(path));
    await_device(path);
    assert_int_equal(unlink(path), 0);
    for (int i = 1; i < 3; i++) {
        snprintf(request, sizeof request, "_b%d size=16777216", i);
        if (!ask_as(OWNER, "make-volume", request)) fail_msg("%s", client_detail(&client));
        is_there = find_spare(path);
    }
    assert_true(is_there);
    for (int i = 0; i < 3; i++) {
        snprintf(request, sizeof request, "_b%d", i);
        assert_true(client_ask(&client, "remove-volume", request, -1));
    }
}

/* One user's volume is not for another user's code, after the launcher's death neither. */
static void a_node_gets_what_belongs_to_one_user(void **state) {
    (void)state;
    if (!ask_as(OWNER, "make-volume", "one size=16777216")) fail_msg("%s", client_detail(&client));
    if (!ask_as(OWNER, "make-volume", "more size=16777216")) fail_msg("%s", client_detail(&client));
    if (!ask_as(STRANGER, "make-volume", "other size=16777216")) fail_msg("%s", client_detail(&client));
    assert_true(client_spawn(&client, "owned", "directory /mnt\n", "wait"));
    fd_close(take_fd(&client.fds[1]));
    if (!client_ask(&client, "mount", "owned one /mnt/one volume=1", -1)) fail_msg("%s", client_detail(&client));
    assert_refused(client_ask(&client, "mount", "owned other /mnt/other volume=1", -1), "forbidden");
    client_kill_launcher(&client, SIGKILL);
    client_start_launcher(&client);
    client_dial(&client);
    client_hello(&client);
    assert_refused(client_ask(&client, "mount", "owned other /mnt/other volume=1", -1), "forbidden");
    if (!client_ask(&client, "mount", "owned more /mnt/more volume=1", -1)) fail_msg("%s", client_detail(&client));
    assert_true(client_ask(&client, "bury", "owned", -1));
    assert_true(ask_as(OWNER, "remove-volume", "one") && ask_as(OWNER, "remove-volume", "more") &&
                ask_as(STRANGER, "remove-volume", "other"));
}

static int open_image(const char *name) {
    char path[160];
    snprintf(path, sizeof path, "%s/volumes/%d-%s", client.home, OWNER, name);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* A process that opens a volume waits for its turn at the image. */
static void await_waiting_for(int image_fd) {
    char text[16384], inode[32];
    struct stat image;
    uint64_t deadline_ms = clock_monotonic_ms() + 10000;
    assert_int_equal(fstat(image_fd, &image), 0);
    snprintf(inode, sizeof inode, ":%llu ", (unsigned long long)image.st_ino);
    for (bool waits = false; !waits;) {
        assert_true(clock_monotonic_ms() < deadline_ms);
        assert_true(file_read_text(AT_FDCWD, "/proc/locks", text, sizeof text) >= 0);
        for (char *line = strtok(text, "\n"); line && !waits; line = strtok(NULL, "\n"))
            waits = strstr(line, "-> OFDLCK") && strstr(line, inode);
    }
}

/* While it is opened, its name becomes another user's: what is mounted is the first one's, and so is the node. */
static void a_node_is_the_owners_of_what_was_opened(void **state) {
    struct flock turn = {.l_type = F_WRLCK};
    (void)state;
    if (!ask_as(OWNER, "make-volume", "swap size=16777216")) fail_msg("%s", client_detail(&client));
    if (!ask_as(STRANGER, "make-volume", "theirs size=16777216")) fail_msg("%s", client_detail(&client));
    assert_true(client_spawn(&client, "swapped", "directory /mnt\n", "wait"));
    fd_close(take_fd(&client.fds[1]));
    CLEANUP_FD int image_fd = open_image("swap");
    assert_int_equal(fcntl(image_fd, F_OFD_SETLK, &turn), 0);
    client_send(&client, "mount 9004 swapped swap /mnt/swap volume=1", -1);
    await_waiting_for(image_fd);
    assert_true(ask_as(OWNER, "remove-volume", "swap"));
    assert_true(ask_as(STRANGER, "make-volume", "swap size=16777216"));
    turn.l_type = F_UNLCK;
    assert_int_equal(fcntl(image_fd, F_OFD_SETLK, &turn), 0);
    client_await(&client, "ok 9004");
    assert_refused(client_ask(&client, "mount", "swapped theirs /mnt/theirs volume=1", -1), "forbidden");
    assert_true(client_ask(&client, "bury", "swapped", -1));
    assert_true(ask_as(STRANGER, "remove-volume", "swap") && ask_as(STRANGER, "remove-volume", "theirs"));
}

/* Two at once would forget, or remove, what is made under the name in between. */
static void it_is_removed_once(void **state) {
    char text[64];
    struct flock turn = {.l_type = F_WRLCK};
    (void)state;
    if (!ask_as(OWNER, "make-volume", "once size=16777216")) fail_msg("%s", client_detail(&client));
    assert_true(client_spawn(&client, "full", "directory /mnt\n", "wait"));
    fd_close(take_fd(&client.fds[1]));
    CLEANUP_FD int image_fd = open_image("once");
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(&client, OWNER, &peer_fd);
    assert_int_equal(fcntl(image_fd, F_OFD_SETLK, &turn), 0);
    for (int i = 0; i < 4; i++) { /* all of its owner's turns */
        snprintf(text, sizeof text, "mount %d full once /mnt/once%d volume=1", 9010 + i, i);
        client_send(&client, text, -1);
    }
    client_send(&client, "remove-volume 9005 once", peer_fd);
    assert_refused(ask_as(OWNER, "remove-volume", "once"), "not_found");
    turn.l_type = F_UNLCK;
    assert_int_equal(fcntl(image_fd, F_OFD_SETLK, &turn), 0);
    client_await(&client, "ok 9005");
    client_await(&client, "9013");
    assert_true(client_ask(&client, "bury", "full", -1));
}

/* Its owner has a single turn left meanwhile. */
static void works_are_begun_in_order(void **state) {
    struct flock held = {.l_type = F_WRLCK}, free_again = {.l_type = F_UNLCK};
    char text[64];
    ptrdiff_t last = 0;
    (void)state;
    assert_true(ask_as(OWNER, "make-volume", "x size=16777216") && ask_as(OWNER, "make-volume", "y size=16777216"));
    assert_true(client_spawn(&client, "queue", "directory /mnt\n", "wait"));
    fd_close(take_fd(&client.fds[1]));
    CLEANUP_FD int x_fd = open_image("x");
    CLEANUP_FD int y_fd = open_image("y");
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(&client, OWNER, &peer_fd);
    assert_true(fcntl(x_fd, F_OFD_SETLK, &held) == 0 && fcntl(y_fd, F_OFD_SETLK, &held) == 0);
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "mount %d queue %s /mnt/%d volume=1", 9030 + i, i == 0 ? "y" : "x", i);
        client_send(&client, text, -1);
    }
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "make-volume %d z%d size=16777216", 9040 + i, i);
        client_send(&client, text, peer_fd);
    }
    assert_int_equal(fcntl(y_fd, F_OFD_SETLK, &free_again), 0);
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "ok %d\n", 9040 + i);
        client_await(&client, text);
        ptrdiff_t at = strstr(buf_string(&client.unasked), text) - buf_string(&client.unasked);
        if (at < last) fail_msg("%s came before the one before it", text);
        last = at;
    }
    assert_int_equal(fcntl(x_fd, F_OFD_SETLK, &free_again), 0);
    client_await(&client, "ok 9033\n");
    assert_true(client_ask(&client, "bury", "queue", -1));
    assert_true(ask_as(OWNER, "remove-volume", "x") && ask_as(OWNER, "remove-volume", "y"));
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "z%d", i);
        assert_true(ask_as(OWNER, "remove-volume", text));
    }
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

/* ---- a disk that does not answer ---- */

static struct {
    char path[96], file[112];
    pid_t server;
} held;
static pid_t near_pid; /* of the node that needs it */

static bool hold_disk(void) {
    snprintf(held.path, sizeof held.path, "%s/served", client.directory);
    snprintf(held.file, sizeof held.file, "%s/held", held.path);
    mkdir(held.path, 0755);
    held.server = fuse_server_start(held.path, FUSE_SILENT_ON_READ);
    return held.server > 0;
}

static void let_disk_go(void) {
    fuse_server_end(held.server, held.path);
    rmdir(held.path);
}

/* The answer of the request that waits has not come meanwhile. */
static void assert_others_are_served(const char *waiting) {
    fuse_server_await_silence();
    bool is_served = client_ask(&client, "volumes", "", -1);
    bool is_early = strstr(buf_string(&client.unasked), waiting) != NULL;
    let_disk_go();
    assert_true(is_served && !is_early);
    client_await(&client, waiting);
}

static void a_slow_image_holds_nobody_up(void **state) {
    static const char *const requests[] = {"mount 9001 near slow /mnt/slow volume=1",
                                           "spawn 9002 \nnode late\nvolume slow /data\nprogram /probe\n"};
    static const char *const answers[] = {"error 9001 ", "error 9002 "};
    char image[160];
    (void)state;
    if (!ask_as(OWNER, "make-volume", "slow size=16777216")) fail_msg("%s", client_detail(&client));
    assert_true(client_spawn(&client, "near", "directory /mnt\n", "wait"));
    near_pid = (pid_t)client_number(&client, "pid");
    fd_close(take_fd(&client.fds[1]));
    snprintf(image, sizeof image, "%s/volumes/%d-slow", client.home, OWNER);
    for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
        if (!hold_disk()) skip(); /* no FUSE here */
        assert_int_equal(mount(held.file, image, NULL, MS_BIND, NULL), 0);
        client_send(&client, requests[i], -1);
        assert_others_are_served(answers[i]);
        assert_int_equal(umount2(image, MNT_DETACH), 0);
    }
    if (!client_ask(&client, "mount", "near slow /mnt/slow volume=1", -1)) fail_msg("%s", client_detail(&client));
}

/* In the node of the test before. */
static void put_inside(const char *file, const char *target) {
    char path[64];
    int ended = 1;
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)near_pid);
    CLEANUP_FD int tree_fd = open_tree(AT_FDCWD, file, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    CLEANUP_FD int mounts_fd = open(path, O_RDONLY | O_CLOEXEC);
    pid_t pid = fork();
    if (pid == 0)
        _exit(setns(mounts_fd, CLONE_NEWNS) < 0 ||
              move_mount(tree_fd, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0);
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    assert_int_equal(ended, 0);
}

static void a_slow_file_holds_nobody_up(void **state) {
    (void)state;
    CLEANUP_FD int content_fd = memory_with("x");
    assert_true(client_ask(&client, "file", "near write /data/held length=1 mode=420", content_fd));
    if (!hold_disk()) skip(); /* no FUSE here */
    put_inside(held.file, "/data/held");
    client_send(&client, "file 9003 near read /data/held length=10", -1);
    assert_others_are_served("error 9003 ");
    assert_true(client_ask(&client, "bury", "near", -1));
    assert_true(ask_as(OWNER, "remove-volume", "slow"));
}

static uint64_t launcher_cpu_us(void) {
    char path[64];
    unsigned long long used_ns = 0;
    snprintf(path, sizeof path, "/proc/%d/schedstat", (int)client.launcher);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &used_ns), 1);
    fclose(file);
    return used_ns / 1000;
}

/* What is in it takes the kernel long to give up. */
static void a_full_one_is_removed_elsewhere(void **state) {
    static char data[1 << 20];
    char image[160];
    (void)state;
    if (!ask_as(OWNER, "make-volume", "full size=268435456")) fail_msg("%s", client_detail(&client));
    snprintf(image, sizeof image, "%s/volumes/%d-full", client.home, OWNER);
    int fd = open(image, O_WRONLY | O_CLOEXEC);
    for (int i = 0; i < 256; i++) assert_int_equal(write(fd, data, sizeof data), sizeof data);
    fd_close(fd);
    uint64_t before_us = launcher_cpu_us();
    assert_true(ask_as(OWNER, "remove-volume", "full"));
    uint64_t used_us = launcher_cpu_us() - before_us;
    if (used_us > 5000ULL * TEST_SLOWNESS) fail_msg("the launcher worked for %llu us", (unsigned long long)used_us);
    assert_int_not_equal(access(image, F_OK), 0);
}

/* By default everyone's quota of disk would do for all of them. */
static void one_user_does_not_take_all(void **state) {
    char request[64];
    int made = 0;
    (void)state;
    for (; made < JAIL_VOLUMES_MAX; made++) {
        snprintf(request, sizeof request, "v%d size=16777216", made);
        if (!ask_as(STRANGER, "make-volume", request)) break;
    }
    if (!strstr(client_detail(&client), "of uid 4444, and no more are made for it"))
        fail_msg("%s", client_detail(&client));
    assert_in_range(made, 100, JAIL_VOLUMES_MAX / 2);
    if (!ask_as(OWNER, "make-volume", "room size=16777216")) fail_msg("%s", client_detail(&client));
    assert_true(ask_as(OWNER, "remove-volume", "room"));
    while (made-- > 0) {
        snprintf(request, sizeof request, "v%d", made);
        assert_true(ask_as(STRANGER, "remove-volume", request));
    }
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
        cmocka_unit_test(a_sandboxes_own_is_mounted_over_its_data_once),
        cmocka_unit_test(a_spare_one_that_can_not_be_taken_is_replaced),
        cmocka_unit_test(a_node_gets_what_belongs_to_one_user),
        cmocka_unit_test(a_node_is_the_owners_of_what_was_opened),
        cmocka_unit_test(it_is_removed_once),
        cmocka_unit_test(works_are_begun_in_order),
        cmocka_unit_test(it_is_mounted_below_its_places_alone),
        cmocka_unit_test(files_are_written_and_read_with_the_nodes_rights),
        cmocka_unit_test(files_elsewhere_are_out_of_reach),
        cmocka_unit_test(a_slow_image_holds_nobody_up),
        cmocka_unit_test(a_slow_file_holds_nobody_up),
        cmocka_unit_test(a_full_one_is_removed_elsewhere),
        cmocka_unit_test(one_user_does_not_take_all),
        cmocka_unit_test(what_was_not_finished_goes),
    };
    return cmocka_run_group_tests(tests, open_client, close_client);
}
