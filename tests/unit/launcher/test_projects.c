/* Projects: opened as their callers by the real launcher, as root and as an ordinary user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuse_server.h"
#include "launcher/project/helper.h"
#include "launcher/project/project.h"
#include "launcher_client.h"

static void make_project(const struct client *client, uid_t owner, char ret[128]) {
    char path[160];
    snprintf(ret, 128, "%s/project-%u", client->directory, owner);
    if (mkdir(ret, 0700) < 0 && errno == EEXIST) return;
    assert_int_equal(chown(ret, owner, owner), 0);
    snprintf(path, sizeof path, "%s/private", ret);
    write_file(path, "mine", owner, 0600);
}

/* The word after key= in the last answer. */
static void word_of(const struct client *client, const char *key, char ret[64]) {
    const char *at = strstr(client->message, key);
    assert_non_null(at);
    at += strlen(key);
    snprintf(ret, 64, "%.*s", (int)strcspn(at, " "), at);
}

static void opens_a_project_as_its_owner(void **state) {
    struct client *client = *state;
    uid_t owner = client->root ? 54321 : USER_UID;
    char project[128], token[64], request[128], text[8] = "";
    make_project(client, owner, project);
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(client, owner, &peer_fd);
    if (!client_ask(client, "project", project, peer_fd)) fail_msg("%s", client_detail(client));
    word_of(client, "token=", token);
    assert_non_null(strstr(client->message, " kind=mount file="));
    assert_int_equal(seteuid(client->daemon_uid), 0);
    CLEANUP_FD int fd = openat(client->fds[0], "private", O_RDONLY | O_CLOEXEC);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(read(fd, text, sizeof text - 1), 4);
    assert_string_equal(text, "mine");
    if (!client_spawn(client, "owner", "directory /src\n", "signal project wait"))
        fail_msg("%s", client_detail(client));
    pid_t program = client_program_of((pid_t)client_number(client, "pid"));
    CLEANUP_FD int output_fd = take_fd(&client->fds[1]);
    client_read_until(output_fd, "listening=ok\n");
    snprintf(request, sizeof request, "owner %s /src", token);
    if (!client_ask(client, "mount", request, -1)) fail_msg("%s", client_detail(client));
    kill(program, SIGUSR1);
    client_read_until(output_fd, "project=mine\nproject_write=EROFS\n");
    assert_true(client_ask(client, "release", token, -1));
    assert_false(client_ask(client, "mount", request, -1));
    assert_true(string_starts(client->message, "not_found"));
    assert_true(client_ask(client, "bury", "owner", -1));
}

static void opens_nothing_for_others(void **state) {
    struct client *client = *state;
    char project[128];
    make_project(client, client->root ? 54321 : USER_UID, project);
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(client, 4444, &peer_fd);
    assert_false(client_ask(client, "project", project, peer_fd));
    assert_true(string_starts(client->message, "forbidden"));
    /* The peer of the calling end is the listener, here root. */
    assert_false(client_ask(client, "project", project, caller_fd));
    assert_true(string_starts(client->message, "forbidden"));
    assert_false(client_ask(client, "project", project, client->link_fd));
    assert_true(string_starts(client->message, "forbidden"));
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_false(client_ask(client, "project", project, pair[0]));
    assert_true(string_starts(client->message, "forbidden"));
    close(pair[0]);
    close(pair[1]);
    assert_false(client_ask(client, "project", "/dev/null", peer_fd));
    assert_false(client_ask(client, "project", "relative", peer_fd));
    assert_false(client_ask(client, "project", project, -1));
}

static void single_files_come_as_a_stream(void **state) {
    struct client *client = *state;
    uid_t owner = client->root ? 54321 : USER_UID;
    char project[128], path[160], text[64] = "";
    size_t used = 0;
    make_project(client, owner, project);
    snprintf(path, sizeof path, "%s/private", project);
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(client, owner, &peer_fd);
    assert_true(client_ask(client, "project", path, peer_fd));
    assert_non_null(strstr(client->message, " kind=stream file=private"));
    for (ssize_t size = 1; size > 0; used += (size_t)size) {
        size = read(client->fds[0], text + used, sizeof text - 1 - used);
        assert_true(size >= 0);
    }
    assert_string_equal(text, "F 600 4 private\nmineE\n");
}

/* The processes that opened and wrote the project hold it until they have ended, which the end of the stream comes
   before: the kernel closes what a process has one after the other. */
static void unmount_when_free(const char *path) {
    int result = umount(path);
    for (uint64_t end_ms = clock_monotonic_ms() + 10000; result < 0 && clock_monotonic_ms() < end_ms; poll(NULL, 0, 1))
        result = umount(path);
    assert_int_equal(result, 0);
}

/* A file system that can't map owners: overlayfs, in mounts of the test's own. */
static void a_project_that_cant_be_bound_is_streamed(void **state) {
    struct client *client = *state;
    char lower[128], merged[128], options[512], text[128] = "", token[64], request[128];
    size_t used = 0;
    snprintf(merged, sizeof merged, "%s/merged", client->directory);
    make_directory(merged, 54321, 0755);
    make_project(client, 54321, lower);
    snprintf(options, sizeof options, "lowerdir=%s:%s", lower, merged);
    assert_int_equal(mount("overlay", merged, "overlay", 0, options), 0);
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(client, 54321, &peer_fd);
    assert_true(client_ask(client, "project", merged, peer_fd));
    assert_non_null(strstr(client->message, " kind=stream file="));
    word_of(client, "token=", token);
    for (ssize_t size = 1; size > 0; used += (size_t)size) {
        size = read(client->fds[0], text + used, sizeof text - 1 - used);
        assert_true(size >= 0);
    }
    assert_string_equal(text, "F 600 4 private\nmineE\n");
    assert_true(client_spawn(client, "unbound", "directory /src\n", "wait"));
    snprintf(request, sizeof request, "unbound %s /src", token);
    assert_false(client_ask(client, "mount", request, -1));
    assert_true(string_starts(client->message, "guarantee_missing"));
    assert_true(client_ask(client, "bury", "unbound", -1));
    assert_true(client_ask(client, "release", token, -1));
    unmount_when_free(merged);
}

/* ---- mounts below a project ---- */

enum { COVERED_OWNER = 54323 };

/* A project with a folder that holds a file, which is covered by a tmpfs that holds another. */
static void make_covered_project(const struct client *client, const char *name, char ret[128], char ret_below[160]) {
    char path[224];
    snprintf(ret, 128, "%s/%s", client->directory, name);
    make_directory(ret, COVERED_OWNER, 0755);
    snprintf(ret_below, 160, "%s/below", ret);
    make_directory(ret_below, COVERED_OWNER, 0755);
    snprintf(path, sizeof path, "%s/covered", ret_below);
    write_file(path, "covered", COVERED_OWNER, 0644);
    assert_int_equal(mount("none", ret_below, "tmpfs", 0, "mode=0755"), 0);
    snprintf(path, sizeof path, "%s/seen", ret_below);
    write_file(path, "seen", COVERED_OWNER, 0644);
}

static bool can_be_seen(int folder, const char *path) {
    return faccessat(folder, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* What a mount covers stays covered, for the daemon and for nodes, and nothing of it can be written. */
static void mounts_below_come_along(void **state) {
    struct client *client = *state;
    char project[128], below[160], token[64], request[128];
    make_covered_project(client, "covered", project, below);
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(client, COVERED_OWNER, &peer_fd);
    if (!client_ask(client, "project", project, peer_fd)) fail_msg("%s", client_detail(client));
    assert_non_null(strstr(client->message, " kind=mount file="));
    word_of(client, "token=", token);
    assert_true(can_be_seen(client->fds[0], "below/seen"));
    assert_false(can_be_seen(client->fds[0], "below/covered"));
    CLEANUP_FD int written = openat(client->fds[0], "below/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(written, -1);
    assert_int_equal(errno, EROFS);
    if (!client_spawn(client, "above", "directory /src\n", "wait")) fail_msg("%s", client_detail(client));
    char inside[64];
    snprintf(inside, sizeof inside, "/proc/%d/root/src", (int)client_number(client, "pid"));
    snprintf(request, sizeof request, "above %s /src", token);
    if (!client_ask(client, "mount", request, -1)) fail_msg("%s", client_detail(client));
    CLEANUP_FD int inside_fd = open(inside, O_PATH | O_CLOEXEC);
    assert_true(can_be_seen(inside_fd, "below/seen"));
    assert_false(can_be_seen(inside_fd, "below/covered"));
    fd_close(take_fd(&inside_fd));
    assert_true(client_ask(client, "bury", "above", -1));
    assert_true(client_ask(client, "release", token, -1));
    for (int i = 0; i < 2; i++) client->fds[i] = fd_close(client->fds[i]);
    assert_int_equal(umount2(below, MNT_DETACH), 0);
}

/* Everything that the pipe says, until its end. */
static void read_stream(int fd, char ret[256]) {
    size_t used = 0;
    for (ssize_t size = 1; size > 0; used += (size_t)size) {
        size = read(fd, ret + used, 255 - used);
        assert_true(size >= 0);
    }
    ret[used] = '\0';
}

/* An overlay among them, as above. */
static void mounts_below_that_cant_be_mapped_are_streamed(void **state) {
    struct client *client = *state;
    char project[128], below[160], text[256], lower[192], options[512];
    make_covered_project(client, "mapless", project, below);
    snprintf(lower, sizeof lower, "%s/lower", project);
    make_directory(lower, COVERED_OWNER, 0755);
    snprintf(options, sizeof options, "lowerdir=%s:%s", below, lower);
    assert_int_equal(mount("overlay", lower, "overlay", 0, options), 0);
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(client, COVERED_OWNER, &peer_fd);
    assert_true(client_ask(client, "project", project, peer_fd));
    assert_non_null(strstr(client->message, " kind=stream file="));
    read_stream(client->fds[0], text);
    assert_non_null(strstr(text, " below/seen\nseen"));
    assert_non_null(strstr(text, " lower/seen\nseen"));
    assert_null(strstr(text, "covered"));
    assert_int_equal(umount2(lower, MNT_DETACH), 0);
    assert_int_equal(umount2(below, MNT_DETACH), 0);
}

/* A copy leaves out what is not to be bound, and would show what it covers. */
static void mounts_below_that_cant_be_bound_are_streamed(void **state) {
    struct client *client = *state;
    char project[128], below[160], text[256];
    make_covered_project(client, "not bound", project, below);
    assert_int_equal(mount(NULL, below, NULL, MS_UNBINDABLE, NULL), 0);
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(client, COVERED_OWNER, &peer_fd);
    snprintf(text, sizeof text, "%s/not%%20bound", client->directory);
    assert_true(client_ask(client, "project", text, peer_fd));
    assert_non_null(strstr(client->message, " kind=stream file="));
    read_stream(client->fds[0], text);
    assert_non_null(strstr(text, " below/seen\nseen"));
    assert_null(strstr(text, "covered"));
    assert_int_equal(umount2(below, MNT_DETACH), 0);
}

static void knows_mounts_that_forbid_binding(void **state) {
    (void)state;
    static const struct {
        const char *line;
        bool forbids;
    } lines[] = {
        {"36 35 98:0 / /a/b rw,noatime - ext3 /dev/root rw\n", false},
        {"36 35 98:0 / /a/b rw,noatime unbindable - ext3 /dev/root rw\n", true},
        {"36 35 98:0 / /a/b rw master:1 unbindable - ext3 /dev/root rw\n", true},
        {"36 35 98:0 / /a/b rw - fuse.sshfs host: rw,user_id=1000\n", true},
        {"36 35 98:0 / /a/b rw - fuse x rw\n", true},
        {"36 35 98:0 / /a rw - fuse x rw\n", false}, /* itself: asked of the file system */
        {"36 35 98:0 / /ab/c rw - fuse x rw\n", false},
        {"36 35 98:0 / / rw - fuse x rw\n", false},
        {"36 35 98:0 / /a/b\\040c\\134 rw - fuse x rw\n", true},
        {"36 35 98:0 / /x\\040fuse rw - ext4 fuse rw\n", false},
        {"36 35\n", false},
        {"", false},
        {" - fuse", false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        char line[128];
        snprintf(line, sizeof line, "%s", lines[i].line);
        if (project_mount_forbids_binding(line, "/a") != lines[i].forbids) fail_msg("%s", lines[i].line);
    }
    char odd[] = "36 35 98:0 / /a\\040b/c rw - fuse x rw";
    assert_true(project_mount_forbids_binding(odd, "/a b"));
}

/* ---- the process that waits for the next project ---- */

static bool opens(struct client *client) {
    uid_t owner = client->root ? 54321 : USER_UID;
    char project[128];
    make_project(client, owner, project);
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(client, owner, &peer_fd);
    return client_ask(client, "project", project, peer_fd);
}

static uid_t uid_of(pid_t pid) {
    char path[64], text[2048];
    unsigned uid = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    const char *line = file_read_text(AT_FDCWD, path, text, sizeof text) > 0 ? strstr(text, "\nUid:") : NULL;
    return line && sscanf(line, "\nUid:\t%u", &uid) == 1 ? (uid_t)uid : (uid_t)-1;
}

/* Another process that runs the launcher's program, with that uid if it is not -1; 0: none does yet. */
static pid_t find_helper(const struct client *client, uid_t uid) {
    char program[128], link[64], target[PATH_MAX];
    struct dirent *entry;
    pid_t found = 0;
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    snprintf(program, sizeof program, "%s/launcher", client->directory);
    while (found == 0 && (entry = readdir(processes))) {
        snprintf(link, sizeof link, "/proc/%.20s/exe", entry->d_name);
        ssize_t size = readlink(link, target, sizeof target - 1);
        target[size < 0 ? 0 : size] = '\0';
        pid_t pid = (pid_t)atoi(entry->d_name);
        bool is_helper = pid != client->launcher && strcmp(target, program) == 0;
        if (is_helper && (uid == (uid_t)-1 || uid_of(pid) == uid)) found = pid;
    }
    closedir(processes);
    return found;
}

static pid_t await_helper(const struct client *client, uid_t uid) {
    for (uint64_t end_ms = clock_monotonic_ms() + 10000; clock_monotonic_ms() < end_ms; poll(NULL, 0, 1)) {
        pid_t helper = find_helper(client, uid);
        if (helper) return helper;
    }
    fail_msg("there is no helper");
    return 0;
}

static void who_waits_to_open_may_die(void **state) {
    struct client *client = *state;
    assert_true(opens(client));
    CLEANUP_FD int opener = pidfd_open(await_helper(client, (uid_t)-1), 0);
    assert_int_equal(pidfd_send_signal(opener, SIGKILL, NULL, 0), 0);
    assert_int_equal(poll(&(struct pollfd){opener, POLLIN, 0}, 1, 10000), 1);
    assert_true(opens(client));
}

/* ---- helpers that their caller has stopped ---- */

enum { STOPPER = 54322 };

/* A file that no pipe holds, which a process of the caller's uid is sending: stopped. Returns its pidfd. */
static int stop_sender(struct client *client, char ret_token[64]) {
    char path[128];
    snprintf(path, sizeof path, "%s/large", client->directory);
    write_file(path, "", STOPPER, 0600);
    assert_int_equal(truncate(path, 1 << 20), 0);
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(client, STOPPER, &peer_fd);
    assert_true(client_ask(client, "project", path, peer_fd));
    word_of(client, "token=", ret_token);
    int helper = pidfd_open(await_helper(client, STOPPER), 0);
    assert_int_equal(pidfd_send_signal(helper, SIGSTOP, NULL, 0), 0);
    return helper;
}

/* No alarm reaches a process that was stopped. */
static void a_stopped_helper_ends_with_its_project(void **state) {
    struct client *client = *state;
    char token[64];
    CLEANUP_FD int helper = stop_sender(client, token);
    assert_int_equal(poll(&(struct pollfd){helper, POLLIN, 0}, 1, 0), 0);
    assert_true(client_ask(client, "release", token, -1));
    assert_int_equal(poll(&(struct pollfd){helper, POLLIN, 0}, 1, 5000), 1);
}

static void a_stopped_helper_ends_with_its_daemon(void **state) {
    struct client *client = *state;
    char token[64];
    CLEANUP_FD int helper = stop_sender(client, token);
    client_dial(client);
    client_hello(client);
    assert_int_equal(poll(&(struct pollfd){helper, POLLIN, 0}, 1, 5000), 1);
}

/* A file system whose server is its caller's, and never answers. */
static void mount_silent(const char *path, int *ret_server) {
    char options[128];
    *ret_server = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (*ret_server < 0) skip(); /* a host without such file systems */
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", *ret_server);
    assert_int_equal(mount("silent", path, "fuse", 0, options), 0);
}

static void a_file_system_that_is_silent_holds_nobody_up(void **state) {
    struct client *client = *state;
    char silent[128], rest[160];
    snprintf(silent, sizeof silent, "%s/silent", client->directory);
    make_directory(silent, STOPPER, 0755);
    int server = -1;
    mount_silent(silent, &server);
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(client, STOPPER, &peer_fd);
    snprintf(rest, sizeof rest, "project 999999 %s", silent);
    client_send(client, rest, peer_fd);
    CLEANUP_FD int helper = pidfd_open(await_helper(client, STOPPER), 0);
    assert_true(opens(client)); /* another caller, meanwhile */
    client_dial(client);
    client_hello(client);
    assert_int_equal(poll(&(struct pollfd){helper, POLLIN, 0}, 1, 5000), 1);
    assert_int_equal(umount2(silent, MNT_DETACH), 0);
    close(server);
}

/* To close a file waits for its server, whatever comes: the launcher never has one. */
static void a_file_that_is_never_closed_holds_nobody_up(void **state) {
    struct client *client = *state;
    char served[128], path[160], token[64], text[256] = "";
    snprintf(served, sizeof served, "%s/served", client->directory);
    snprintf(path, sizeof path, "%s/held", served);
    make_directory(served, STOPPER, 0755);
    pid_t server = fuse_server_start(served, FUSE_SILENT_ON_CLOSE);
    if (!server) skip();
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(client, STOPPER, &peer_fd);
    assert_true(client_ask(client, "project", path, peer_fd));
    word_of(client, "token=", token);
    assert_true(read(client->fds[0], text, sizeof text - 1) > 0);
    assert_non_null(strstr(text, "F 444 4096 held"));
    char release[96];
    snprintf(release, sizeof release, "release 999998 %s", token);
    client_send(client, release, -1);
    bool is_answered = poll(&(struct pollfd){client->link_fd, POLLIN, 0}, 1, 5000) == 1;
    if (!is_answered) fuse_server_end(server, served);
    assert_true(is_answered);
    client_dial(client);
    client_hello(client);
    /* The processes that read it are still closing it, which no signal ends. One user has so many of them. */
    bool is_refused = false;
    for (int i = 0; i <= HELPERS_DYING_OF_ONE && !is_refused; i++) {
        is_refused = !client_ask(client, "project", path, peer_fd);
        if (is_refused) break;
        word_of(client, "token=", token);
        assert_true(client_ask(client, "release", token, -1));
    }
    bool is_said = strstr(client->message, "limit_reached") != NULL;
    bool others_open = opens(client);
    fuse_server_end(server, served);
    assert_true(is_refused && is_said && others_open);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(opens_a_project_as_its_owner),
        BOTH(opens_nothing_for_others),
        BOTH(single_files_come_as_a_stream),
        ROOT(a_project_that_cant_be_bound_is_streamed),
        BOTH(who_waits_to_open_may_die),
        ROOT(a_stopped_helper_ends_with_its_project),
        ROOT(mounts_below_come_along),
        ROOT(mounts_below_that_cant_be_bound_are_streamed),
        cmocka_unit_test(knows_mounts_that_forbid_binding),
        ROOT(a_file_system_that_is_silent_holds_nobody_up),
        ROOT(a_file_that_is_never_closed_holds_nobody_up),
        ROOT(mounts_below_that_cant_be_mapped_are_streamed),
        ROOT(a_stopped_helper_ends_with_its_daemon),
    };
    return cmocka_run_group_tests(tests, clients_open, clients_close);
}
