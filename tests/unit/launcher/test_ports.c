/* Ports as a daemon asks for them, gone bad or not: whose they are, what they may be, what is left of them. A node here
   is a probe that waits; clients meet a forwarder that finds no server behind it, and so is reset. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuse_server.h"
#include "jail/ports.h"
#include "launcher_client.h"

enum { OWNER = 54321, PATIENCE_MS = 10000 * TEST_SLOWNESS };

/* By the user whom the launcher serves: root's launcher serves all. */
static uid_t caller_of(const struct client *client) {
    return client->root ? OWNER : client->daemon_uid;
}

static bool publish_as(struct client *client, uid_t uid, const char *set, const char *way, const char *text) {
    char rest[512];
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(client, uid, &peer_fd);
    snprintf(rest, sizeof rest, "%s way=%s text=%s inside=%d", set, way, text, strchr(text, '=') != NULL);
    return client_ask(client, "publish", rest, peer_fd);
}

static bool serve(struct client *client, const char *set, const char *node, const char *way, const char *text) {
    char rest[512];
    snprintf(rest, sizeof rest, "%s %s way=%s text=%s connections=4 rate=0", set, node, way, text);
    return client_ask(client, "serve", rest, -1);
}

static void assert_done(struct client *client, bool is_done) {
    if (!is_done) fail_msg("%s", client_detail(client));
}

static void assert_refused(struct client *client, bool is_done, const char *detail) {
    if (is_done) fail_msg("it was done: %s", client->message);
    const char *said = client_detail(client);
    if (!strstr(said, detail)) fail_msg("'%s', not '%s'", said, detail);
}

/* Of the last answer, whose text is in full. */
static int port_told(const struct client *client) {
    const char *text = strstr(client->message, "text=127.0.0.1:");
    assert_non_null(text);
    return atoi(text + strlen("text=127.0.0.1:"));
}

static int dial(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    close(fd);
    return -1;
}

/* The forwarder has taken the connection, and found no server. */
static void assert_is_forwarded(int port) {
    char byte;
    CLEANUP_FD int fd = dial(port);
    if (fd < 0) fail_msg("port %d: %s", port, strerror(errno));
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, PATIENCE_MS), 1);
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
}

static const char network[] = "network loopback\n";

static void a_port_outlives_its_node(void **state) {
    struct client *client = *state;
    char whole[64];
    assert_done(client, publish_as(client, caller_of(client), "s1", "in", "0:4000"));
    int port = port_told(client);
    snprintf(whole, sizeof whole, "127.0.0.1:%d:4000", port);
    assert_done(client, client_spawn(client, "n1", network, "wait"));
    assert_done(client, serve(client, "s1", "n1", "in", whole));
    struct jail_port_page page;
    assert_true(client->fds[0] >= 0);
    assert_int_equal(fcntl(client->fds[0], F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_is_forwarded(port);
    for (int tries = 0; tries < PATIENCE_MS; tries++) {
        assert_int_equal(pread(client->fds[0], &page, sizeof page, 0), sizeof page);
        if (page.counts.refused == 1) break;
        poll(NULL, 0, 1);
    }
    assert_int_equal(page.counts.refused, 1);
    assert_int_equal(page.bounds.connections, 4);
    CLEANUP_FD int page_fd = fcntl(client->fds[0], F_DUPFD_CLOEXEC, 0);
    assert_true(client_limit(client, "n1", "limit port_connections 7\n"));
    assert_int_equal(pread(page_fd, &page, sizeof page, 0), sizeof page);
    assert_int_equal(page.bounds.connections, 7);
    assert_done(client, client_ask(client, "bury", "n1", -1));

    /* Clients are refused now; the port stays taken. */
    for (int fd; (fd = dial(port)) >= 0; close(fd)) poll(NULL, 0, 1);
    assert_refused(client, publish_as(client, caller_of(client), "s2", "in", whole), "is taken");
    assert_done(client, client_spawn(client, "n2", network, "wait"));
    assert_done(client, serve(client, "s1", "n2", "in", whole));
    assert_is_forwarded(port);
    assert_refused(client, serve(client, "s1", "n2", "in", whole), "being served");
    assert_done(client, client_ask(client, "unpublish", "s1", -1));
    assert_int_equal(dial(port), -1);
    assert_done(client, client_ask(client, "unpublish", "s1", -1)); /* nothing is left of it */
    assert_done(client, client_ask(client, "bury", "n2", -1));
}

/* A successor need not wait until the forwarder of the node before has gone. */
static void a_port_moves_to_the_next_node(void **state) {
    struct client *client = *state;
    char whole[64];
    assert_done(client, publish_as(client, caller_of(client), "s1", "in", "0:4000"));
    int port = port_told(client);
    snprintf(whole, sizeof whole, "127.0.0.1:%d:4000", port);
    assert_done(client, client_spawn(client, "n1", network, "wait"));
    assert_done(client, client_spawn(client, "n2", network, "wait"));
    assert_done(client, serve(client, "s1", "n1", "in", whole));
    assert_done(client, serve(client, "s1", "n2", "in", whole));
    assert_done(client, client_ask(client, "bury", "n1", -1));
    assert_is_forwarded(port);
    assert_done(client, client_ask(client, "unpublish", "s1", -1));
    assert_done(client, client_ask(client, "bury", "n2", -1));
}

/* The second finds it ending: each has its answer. */
static void it_is_unpublished_twice(void **state) {
    struct client *client = *state;
    char whole[64];
    assert_done(client, publish_as(client, caller_of(client), "s1", "in", "0:4000"));
    snprintf(whole, sizeof whole, "127.0.0.1:%d:4000", port_told(client));
    assert_done(client, client_spawn(client, "n1", network, "wait"));
    assert_done(client, serve(client, "s1", "n1", "in", whole));
    assert_int_equal(kill(client->launcher, SIGSTOP), 0);
    client_send(client, "unpublish 9001 s1", -1);
    client_send(client, "unpublish 9002 s1", -1);
    assert_int_equal(kill(client->launcher, SIGCONT), 0);
    client_await(client, "ok 9001");
    client_await(client, "ok 9002");
    assert_done(client, client_ask(client, "bury", "n1", -1));
}

/* ---- the forwarder itself ---- */

/* The launcher's only one; 0: there is none. */
static pid_t find_forwarder(const struct client *client) {
    char path[96], children[512] = "", comm[32];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)client->launcher, (int)client->launcher);
    if (file_read_text(AT_FDCWD, path, children, sizeof children) < 0) return 0;
    for (char *word, *rest = children; (word = strsep(&rest, " "));) {
        snprintf(path, sizeof path, "/proc/%.16s/comm", word);
        if (*word && file_read_text(AT_FDCWD, path, comm, sizeof comm) > 0 && string_starts(comm, "sandbox-forward"))
            return atoi(word);
    }
    return 0;
}

static void assert_status(pid_t pid, const char *line) {
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    assert_true(file_read_text(AT_FDCWD, path, text, sizeof text) > 0);
    if (!strstr(text, line)) fail_msg("no '%s' in %s", line, text);
}

static ino_t inode_of(pid_t pid, const char *name) {
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid, name);
    assert_int_equal(stat(path, &status), 0);
    return status.st_ino;
}

static size_t count_files(pid_t pid) {
    char path[64];
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
    DIR *listing = opendir(path);
    assert_non_null(listing);
    while (readdir(listing)) count++;
    closedir(listing);
    return count;
}

static void a_forwarder_can_do_little(void **state) {
    struct client *client = *state;
    char whole[64];
    assert_done(client, publish_as(client, OWNER, "s1", "in", "0:4000"));
    snprintf(whole, sizeof whole, "127.0.0.1:%d:4000", port_told(client));
    assert_done(client, client_spawn(client, "n1", network, "wait"));
    pid_t node = (pid_t)client_number(client, "pid");
    assert_done(client, serve(client, "s1", "n1", "in", whole));
    pid_t forwarder = find_forwarder(client);
    assert_true(forwarder > 0);
    static const char *const lines[] = {"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1",
                                        "Seccomp:\t2"};
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) assert_status(forwarder, lines[i]);
    assert_int_equal(count_files(forwarder), 2); /* "." and ".." */
    assert_int_equal(inode_of(forwarder, "net"), inode_of(node, "net"));
    assert_int_not_equal(inode_of(forwarder, "pid"), inode_of(getpid(), "pid"));
    assert_done(client, client_ask(client, "unpublish", "s1", -1));

    assert_done(client, publish_as(client, OWNER, "s1", "out", "127.0.0.1:9"));
    assert_done(client, serve(client, "s1", "n1", "out", "127.0.0.1:9"));
    forwarder = find_forwarder(client);
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) assert_status(forwarder, lines[i]);
    assert_status(forwarder, "Uid:\t54321\t54321\t54321\t54321");
    assert_int_equal(count_files(forwarder), 2);
    assert_int_equal(inode_of(forwarder, "net"), inode_of(getpid(), "net"));

    /* Its caller may stop it, and holds nothing up but itself. */
    assert_int_equal(kill(forwarder, SIGSTOP), 0);
    assert_done(client, publish_as(client, OWNER + 1, "s2", "in", "0:4000"));
    assert_done(client, client_ask(client, "unpublish", "s1", -1));
    assert_int_equal(find_forwarder(client), 0);
    assert_done(client, client_ask(client, "unpublish", "s2", -1));
    assert_done(client, client_ask(client, "bury", "n1", -1));
}

/* By a process of the owner's that has a folder open; NULL: none. */
static bool publish_holding(struct client *client, const char *held, int flags, const char *text) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char rest[512];
    uid_t uid = caller_of(client);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/api.sock", client->home);
    CLEANUP_FD int server_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server_fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(chmod(address.sun_path, 0666), 0);
    assert_int_equal(listen(server_fd, 1), 0);
    pid_t person = fork();
    if (person == 0) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 ||
            prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 || (held && open(held, flags | O_DIRECTORY | O_CLOEXEC) < 0) ||
            connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
            _exit(EXIT_FAILURE);
        for (;;) pause();
    }
    CLEANUP_FD int peer_fd = accept4(server_fd, NULL, NULL, SOCK_CLOEXEC);
    unlink(address.sun_path);
    snprintf(rest, sizeof rest, "s1 way=out text=%s inside=0", text);
    bool is_done = client_ask(client, "publish", rest, peer_fd);
    kill(person, SIGKILL);
    waitpid(person, NULL, 0);
    return is_done;
}

/* A process in the node's network reads two bytes of it. */
static pid_t read_inside(pid_t node, uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    char path[64], said[2] = "";
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)node);
    pid_t pid = fork();
    if (pid != 0) return pid;
    int network_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (setns(network_fd, CLONE_NEWNET) < 0) _exit(2);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) _exit(3);
    _exit(recv(fd, said, sizeof said, MSG_WAITALL) == 2 && memcmp(said, "hi", 2) == 0 ? 0 : 4);
}

static void a_service_at_a_path_is_reached(void **state) {
    struct client *client = *state;
    char folder[96], port[200];
    int status = -1;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(folder, sizeof folder, "%s/reached-%d", client->directory, client->root);
    snprintf(address.sun_path, sizeof address.sun_path, "%.90s/door", folder);
    snprintf(port, sizeof port, "unix:%s:5432", address.sun_path);
    make_directory(folder, caller_of(client), 0755);
    CLEANUP_FD int server_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server_fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(chmod(address.sun_path, 0666), 0);
    assert_int_equal(listen(server_fd, 1), 0);
    assert_done(client, publish_holding(client, folder, O_PATH, port));
    assert_done(client, client_spawn(client, "n1", network, "wait"));
    pid_t node = (pid_t)client_number(client, "pid");
    assert_done(client, serve(client, "s1", "n1", "out", port));
    pid_t reader = read_inside(node, 5432);
    assert_int_equal(poll(&(struct pollfd){.fd = server_fd, .events = POLLIN}, 1, PATIENCE_MS), 1);
    CLEANUP_FD int fd = accept4(server_fd, NULL, NULL, SOCK_CLOEXEC);
    assert_int_equal(send(fd, "hi", 2, MSG_NOSIGNAL), 2);
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
    assert_done(client, client_ask(client, "unpublish", "s1", -1));
    assert_done(client, client_ask(client, "bury", "n1", -1));
    unlink(address.sun_path);
    rmdir(folder);
}

/* Not even a kill ends its forwarder then. */
static void a_service_that_is_silent_holds_nobody_up(void **state) {
    struct client *client = *state;
    char folder[96], port[200];
    snprintf(folder, sizeof folder, "%s/silent", client->directory);
    snprintf(port, sizeof port, "unix:%s/door:5432", folder);
    make_directory(folder, OWNER, 0755);
    pid_t server = fuse_server_start(folder, FUSE_SILENT_ON_DOOR);
    if (server == 0) skip(); /* no FUSE here */
    bool is_published = publish_holding(client, folder, O_PATH, port);
    assert_done(client, is_published && client_spawn(client, "n1", network, "wait"));
    CLEANUP_FD int node_fd = take_fd(&client->fds[0]);
    pid_t node = (pid_t)client_number(client, "pid");
    assert_done(client, serve(client, "s1", "n1", "out", port));
    pid_t reader = read_inside(node, 5432);
    fuse_server_await_silence();
    client_send(client, "bury 9001 n1", -1);
    client_await_death(node_fd);
    for (int i = 0; i < 3; i++) assert_true(client_ask(client, "volumes", "", -1));
    bool is_early = strstr(buf_string(&client->unasked), "9001 ") != NULL;
    bool is_still_there = client_ask(client, "yield", "n1 on=1", -1); /* its pid may be another process's by now */
    fuse_server_end(server, folder);
    assert_false(is_early || is_still_there);
    client_await(client, "ok 9001 ");
    waitpid(reader, NULL, 0);
    assert_done(client, client_ask(client, "unpublish", "s1", -1));
    rmdir(folder);
}

/* What a sandbox may write in there must not lead its forwarder elsewhere. */
static void a_service_is_in_its_folder_alone(void **state) {
    struct client *client = *state;
    char folder[128], link[160], port[200], cwd[64];
    struct stat status, above, followed;
    snprintf(folder, sizeof folder, "%s/services", client->directory);
    snprintf(link, sizeof link, "%s/door", folder);
    snprintf(port, sizeof port, "unix:%s:5432", link);
    make_directory(folder, OWNER, 0755);
    assert_int_equal(symlink("../../../run/other", link), 0);
    assert_refused(client, publish_holding(client, NULL, 0, port), "a process that holds its folder open");
    assert_refused(client, publish_holding(client, client->directory, O_PATH, port),
                   "a process that holds its folder open");
    assert_refused(client, publish_holding(client, folder, O_RDONLY, port), "a process that holds its folder open");
    assert_done(client, publish_holding(client, folder, O_PATH, port));
    assert_done(client, client_spawn(client, "n1", network, "wait"));
    assert_done(client, serve(client, "s1", "n1", "out", port));
    snprintf(cwd, sizeof cwd, "/proc/%d/cwd", (int)find_forwarder(client));
    CLEANUP_FD int cwd_fd = open(cwd, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(cwd_fd >= 0);
    assert_int_equal(stat(folder, &status), 0);
    assert_int_equal(fstatat(cwd_fd, "..", &above, 0), 0);
    assert_int_equal(above.st_ino, status.st_ino);
    assert_int_equal(fstatat(cwd_fd, "door", &followed, 0), -1);
    assert_int_equal(errno, ELOOP);
    assert_done(client, client_ask(client, "unpublish", "s1", -1));
    assert_done(client, client_ask(client, "bury", "n1", -1));
    unlink(link);
    rmdir(folder);
}

static void a_forwarder_that_dies_has_a_successor(void **state) {
    struct client *client = *state;
    char whole[64];
    assert_done(client, publish_as(client, OWNER, "s1", "in", "0:4000"));
    int port = port_told(client);
    snprintf(whole, sizeof whole, "127.0.0.1:%d:4000", port);
    assert_done(client, client_spawn(client, "n1", network, "wait"));
    assert_done(client, serve(client, "s1", "n1", "in", whole));
    pid_t first = find_forwarder(client);
    assert_int_equal(kill(first, SIGKILL), 0);
    assert_is_forwarded(port); /* the client waits for it */
    assert_int_not_equal(find_forwarder(client), first);
    assert_done(client, client_ask(client, "bury", "n1", -1));
    assert_done(client, client_ask(client, "unpublish", "s1", -1));
    assert_int_equal(find_forwarder(client), 0);
}

static void a_caller_is_needed(void **state) {
    struct client *client = *state;
    char own[256];
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_refused(client, client_ask(client, "publish", "s1 way=in text=4000 inside=0", -1), "caller");
    assert_false(client_ask(client, "publish", "s1 way=in text=4000 inside=0", pair[0]));
    assert_false(client_ask(client, "publish", "s1 way=in text=4000 inside=1", pair[0]));
    assert_false(client_ask(client, "publish", "s1 way=out text=db=10.0.0.1:1 inside=0", pair[0]));
    assert_false(client_ask(client, "publish", "s1 way=through text=4000", pair[0]));
    assert_false(client_ask(client, "publish", "s1 way=in text=4000/sctp", pair[0]));
    assert_false(client_ask(client, "publish", "../s1 way=in text=4000", pair[0]));
    assert_false(client_ask(client, "serve", "s1 n1 way=in text=4000", -1));
    close(pair[0]);
    close(pair[1]);
    uid_t uid = caller_of(client);
    assert_refused(client, publish_as(client, uid, "s1", "in", "0.0.0.0:0:4000"), "publish-addresses");
    assert_refused(client, publish_as(client, uid, "s1", "out", "169.254.169.254:80"), "no sandbox may connect");
    snprintf(own, sizeof own, "unix:%s/api.sock", client->home);
    assert_refused(client, publish_as(client, uid, "s1", "out", own), "sockets of this service");
    snprintf(own, sizeof own, "unix:%s/other.sock", client->home);
    assert_refused(client, publish_as(client, uid, "s1", "out", own), "lies in the home");
    assert_refused(client, publish_as(client, uid, "s1", "in", "80:80"), "may not be taken");
}

static void a_file_is_never_replaced(void **state) {
    struct client *client = *state;
    char folder[128], path[160], port[200];
    struct stat status;
    uid_t uid = caller_of(client);
    snprintf(folder, sizeof folder, "%s/sockets-%d", client->directory, client->root);
    snprintf(path, sizeof path, "%s/door", folder);
    snprintf(port, sizeof port, "unix:%s:4000", path);
    make_directory(folder, uid, 0755);
    write_file(path, "precious", uid, 0644);
    assert_refused(client, publish_as(client, uid, "s1", "in", port), "is taken");
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, strlen("precious"));
    unlink(path);
    assert_int_equal(symlink("elsewhere", path), 0);
    assert_refused(client, publish_as(client, uid, "s1", "in", port), "is taken");
    unlink(path);
    assert_done(client, publish_as(client, uid, "s1", "in", port));
    assert_int_equal(lstat(path, &status), 0);
    assert_true(S_ISSOCK(status.st_mode));
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(status.st_uid, uid);
    if (client->root) assert_refused(client, publish_as(client, OWNER + 1, "s2", "in", port), "is taken");
    assert_done(client, client_ask(client, "unpublish", "s1", -1));
    assert_int_equal(lstat(path, &status), -1);

    assert_done(client, publish_as(client, uid, "s1", "in", port));
    unlink(path);
    write_file(path, "not ours", uid, 0644);
    assert_done(client, client_ask(client, "unpublish", "s1", -1));
    assert_int_equal(lstat(path, &status), 0);
    unlink(path);
    rmdir(folder);
}

static void what_one_user_has_is_bounded(void **state) {
    struct client *client = *state;
    char set[16];
    int count = 0;
    if (!client->root) return; /* one user alone is not bound there */
    for (bool is_done = true; is_done && count < JAIL_PORTS_OF_LAUNCHER; count += is_done) {
        snprintf(set, sizeof set, "s%d", count / JAIL_PORTS_OF_SANDBOX);
        is_done = publish_as(client, OWNER, set, "in", "0:4000");
    }
    assert_non_null(strstr(client_detail(client), "no more are opened for it"));
    assert_in_range(count, 64, JAIL_PORTS_OF_LAUNCHER / 2);
    assert_done(client, publish_as(client, OWNER + 1, "other", "in", "0:4000"));
    for (int i = 0; i <= count / JAIL_PORTS_OF_SANDBOX; i++) {
        snprintf(set, sizeof set, "s%d", i);
        assert_done(client, client_ask(client, "unpublish", set, -1));
    }
    assert_done(client, client_ask(client, "unpublish", "other", -1));
}

/* The next launcher knows all of it: as root the forwarder hands its listener over. */
static void ports_outlive_the_launcher(void **state) {
    struct client *client = *state;
    char whole[64];
    assert_done(client, publish_as(client, caller_of(client), "s1", "in", "0:4000"));
    int port = port_told(client);
    snprintf(whole, sizeof whole, "127.0.0.1:%d:4000", port);
    assert_done(client, client_spawn(client, "n1", network, "wait"));
    assert_done(client, serve(client, "s1", "n1", "in", whole));
    client_kill_launcher(client, SIGKILL);
    assert_is_forwarded(port);
    client_start_launcher(client);
    client_dial(client);
    client_hello(client);
    assert_non_null(strstr(buf_string(&client->unasked), "port s1 way=in"));
    assert_is_forwarded(port);
    assert_done(client, client_ask(client, "unpublish", "s1", -1));
    assert_int_equal(dial(port), -1);
    assert_done(client, client_ask(client, "bury", "n1", -1));
}

/* The operator allows fewer addresses from the next launcher on: the port is closed, and its record is gone. */
static void a_port_that_is_no_longer_allowed_ends(void **state) {
    struct client *client = *state;
    char whole[64], serving[128];
    assert_done(client, publish_as(client, caller_of(client), "s1", "in", "0:4000"));
    int port = port_told(client);
    snprintf(whole, sizeof whole, "127.0.0.1:%d:4000", port);
    snprintf(serving, sizeof serving, "s1 n1 way=in text=%s connections=16", whole);
    assert_done(client, client_spawn(client, "n1", network, "wait"));
    assert_done(client, serve(client, "s1", "n1", "in", whole));
    client_kill_launcher(client, SIGKILL);
    assert_is_forwarded(port);
    setenv("SANDBOX_PUBLISH_ADDRESSES", "127.9.9.9/32", 1);
    client_start_launcher(client);
    unsetenv("SANDBOX_PUBLISH_ADDRESSES");
    client_dial(client);
    client_hello(client);
    /* Its forwarder is being ended; each question is a turn of the launcher's. */
    uint64_t deadline_ms = clock_monotonic_ms() + 10000;
    while (!client_ask(client, "serve", serving, -1) && !strstr(client_detail(client), "no such port"))
        if (clock_monotonic_ms() > deadline_ms) fail_msg("%s", client_detail(client));
    assert_int_equal(dial(port), -1);
    assert_done(client, client_ask(client, "bury", "n1", -1));
    client_kill_launcher(client, SIGKILL); /* the others get the usual settings */
    client_start_launcher(client);
    client_dial(client);
    client_hello(client);
    assert_null(strstr(buf_string(&client->unasked), "port s1 way=in text=0"));
}

/* One without a forwarder goes at once, and no later launcher finds a record of it. */
static void a_port_that_was_not_allowed_does_not_come_back(void **state) {
    struct client *client = *state;
    assert_done(client, publish_as(client, caller_of(client), "s9", "in", "0:4000"));
    client_kill_launcher(client, SIGKILL);
    setenv("SANDBOX_PUBLISH_ADDRESSES", "127.9.9.9/32", 1);
    client_start_launcher(client);
    unsetenv("SANDBOX_PUBLISH_ADDRESSES");
    client_kill_launcher(client, SIGKILL);
    client_start_launcher(client);
    client_dial(client);
    client_hello(client);
    assert_null(strstr(buf_string(&client->unasked), "port s9 "));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(a_port_outlives_its_node),
        BOTH(a_port_moves_to_the_next_node),
        BOTH(it_is_unpublished_twice),
        BOTH(a_caller_is_needed),
        BOTH(a_file_is_never_replaced),
        ROOT(a_forwarder_can_do_little),
        ROOT(a_forwarder_that_dies_has_a_successor),
        ROOT(a_service_that_is_silent_holds_nobody_up),
        ROOT(a_service_is_in_its_folder_alone),
        BOTH(a_service_at_a_path_is_reached),
        ROOT(what_one_user_has_is_bounded),
        BOTH(ports_outlive_the_launcher),
        BOTH(a_port_that_is_no_longer_allowed_ends),
        BOTH(a_port_that_was_not_allowed_does_not_come_back),
    };
    return cmocka_run_group_tests(tests, clients_open, clients_close);
}
