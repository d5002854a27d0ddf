/* A daemon gone bad, and callers who try their luck: what the real launcher, as root, must not do for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher_client.h"

enum { STRANGER = 4444 };

static struct client client;
static char hidden[128]; /* a directory that any user could read, in one that only root may enter */

static void make_hidden_directory(void) {
    char path[160];
    snprintf(path, sizeof path, "%s/private", client.directory);
    make_directory(path, 0, 0700);
    snprintf(hidden, sizeof hidden, "%s/private/open", client.directory);
    make_directory(hidden, 0, 0755);
    snprintf(path, sizeof path, "%s/file", hidden);
    write_file(path, "x", 0, 0644);
}

/* As on a host with systemd, where every mount is shared; only ours change with us. */
static int open_client(void **state) {
    (void)state;
    assert_int_equal(unshare(CLONE_NEWNS), 0);
    assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL), 0);
    client_open(&client, true);
    make_hidden_directory();
    return 0;
}

static int close_client(void **state) {
    (void)state;
    client_close(&client);
    return 0;
}

static void mounts_of_a_node_stay_in_it(void **state) {
    (void)state;
    char host[128], evil[128], path[160], more[512];
    snprintf(host, sizeof host, "%s/host", client.directory);
    snprintf(evil, sizeof evil, "%s/evil", client.directory);
    make_directory(host, 0, 0755);
    snprintf(path, sizeof path, "%s/place", host);
    make_directory(path, 0, 0755);
    make_directory(evil, client.daemon_uid, 0755);
    snprintf(path, sizeof path, "%s/file", evil);
    write_file(path, "x", client.daemon_uid, 0644);
    snprintf(path, sizeof path, "%s/place/file", host);
    snprintf(more, sizeof more, "bind %s /x\nbind %s /x/place\n", host, evil);
    if (!client_spawn(&client, "spreads", more, "wait")) fail_msg("%s", client_detail(&client));
    assert_int_equal(access(path, F_OK), -1);
    snprintf(more, sizeof more, "spreads %s /x/place", evil);
    assert_true(client_ask(&client, "mount", more, -1));
    assert_int_equal(access(path, F_OK), -1);
    assert_true(client_ask(&client, "bury", "spreads", -1));
}

/* Links in /proc lead past the directories that a path has to pass, with the launcher's rights. */
static void no_link_of_proc_is_followed(void **state) {
    (void)state;
    char more[256], rest[256], sources[2][64] = {"/proc/self/cwd"};
    int home_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    snprintf(sources[1], sizeof sources[1], "/proc/%d/cwd", (int)getpid());
    assert_int_equal(chdir(hidden), 0);
    assert_true(client_spawn(&client, "host", "", "wait"));
    for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
        snprintf(more, sizeof more, "bind %s /x\n", sources[i]);
        if (client_spawn(&client, "thief", more, "wait")) fail_msg("%s was bound", sources[i]);
        snprintf(rest, sizeof rest, "host %s /app/x", sources[i]);
        if (client_ask(&client, "mount", rest, -1)) fail_msg("%s was mounted", sources[i]);
    }
    assert_true(client_ask(&client, "bury", "host", -1));
    assert_int_equal(fchdir(home_fd), 0);
    close(home_fd);
}

/* A place to mount at is made in the node's own root only: a project shows its owner's files as the node's own. */
static void nothing_is_made_in_a_project(void **state) {
    (void)state;
    char project[128], path[160], request[160];
    snprintf(project, sizeof project, "%s/project", client.directory);
    make_directory(project, STRANGER, 0755);
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(&client, STRANGER, &peer_fd);
    assert_true(client_ask(&client, "project", project, peer_fd));
    const char *token = strstr(client.message, "token=") + strlen("token=");
    snprintf(request, sizeof request, "builder %.*s /src", (int)strcspn(token, " "), token);
    if (!client_spawn(&client, "builder", "directory /src\n", "wait")) fail_msg("%s", client_detail(&client));
    if (!client_ask(&client, "mount", request, -1)) fail_msg("%s", client_detail(&client));
    assert_false(client_ask(&client, "mount", "builder /usr /src/new", -1));
    snprintf(path, sizeof path, "%s/new", project);
    assert_int_equal(access(path, F_OK), -1);
    assert_true(client_ask(&client, "mount", "builder /usr /app/new", -1));
    assert_true(client_ask(&client, "bury", "builder", -1));
}

/* In namespaces of its own a process has every right over mounts without an owner. */
static int write_to_project(int project_fd) {
    struct mount_attr writable = {.attr_clr = MOUNT_ATTR_RDONLY};
    if (setresgid(client.daemon_uid, client.daemon_uid, client.daemon_uid) < 0 ||
        setresuid(client.daemon_uid, client.daemon_uid, client.daemon_uid) < 0 ||
        unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return EXIT_FAILURE;
    mount_setattr(project_fd, "", AT_EMPTY_PATH, &writable, sizeof writable);
    if (openat(project_fd, "evil", O_WRONLY | O_CREAT | O_CLOEXEC, 0755) >= 0) return EXIT_FAILURE;
    int copy_fd = open_tree(project_fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    mount_setattr(copy_fd, "", AT_EMPTY_PATH, &writable, sizeof writable);
    if (openat(copy_fd, "evil", O_WRONLY | O_CREAT | O_CLOEXEC, 0755) >= 0) return EXIT_FAILURE;
    return faccessat(project_fd, "file", R_OK, 0) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void the_daemon_can_only_read_a_project(void **state) {
    (void)state;
    char project[128], path[160];
    int status = -1;
    snprintf(project, sizeof project, "%s/readable", client.directory);
    make_directory(project, STRANGER, 0700);
    snprintf(path, sizeof path, "%s/file", project);
    write_file(path, "x", STRANGER, 0600);
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(&client, STRANGER, &peer_fd);
    assert_true(client_ask(&client, "project", project, peer_fd));
    assert_non_null(strstr(client.message, "kind=mount"));
    pid_t pid = fork();
    if (pid == 0) _exit(write_to_project(client.fds[0]));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    snprintf(path, sizeof path, "%s/evil", project);
    assert_int_equal(access(path, F_OK), -1);
}

/* The launcher starts where its starter was, maybe somewhere private. */
static void the_launcher_stays_nowhere(void **state) {
    (void)state;
    char path[64], directory[128] = "";
    snprintf(path, sizeof path, "/proc/%d/cwd", (int)client.launcher);
    assert_true(readlink(path, directory, sizeof directory - 1) > 0);
    assert_string_equal(directory, "/");
}

static void a_project_is_no_link_of_proc(void **state) {
    (void)state;
    static const char *const paths[] = {"/proc/self/cwd", "/proc/self/root", "/proc/self/exe", "/dev/stdin"};
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(&client, STRANGER, &peer_fd);
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
        if (client_ask(&client, "project", paths[i], peer_fd)) fail_msg("%s was opened", paths[i]);
}

/* What root made and left to the launcher, such as the output of a remote shell, is the daemon's to name. */
static void a_pair_of_sockets_is_no_caller(void **state) {
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int pair[2], output_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    client_kill_launcher(&client, SIGTERM);
    assert_int_equal(dup2(pair[0], STDOUT_FILENO), STDOUT_FILENO);
    client_start_launcher(&client);
    assert_int_equal(dup2(output_fd, STDOUT_FILENO), STDOUT_FILENO);
    client_dial(&client);
    client_hello(&client);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/api.sock", client.home);
    assert_int_equal(bind(pair[0], (struct sockaddr *)&address, sizeof address), 0);
    assert_false(client_ask(&client, "project", hidden, pair[0]));
    assert_true(string_starts(client.message, "forbidden"));
    unlink(address.sun_path);
    close(pair[0]), close(pair[1]), close(output_fd);
}

static void a_caller_who_left_opens_nothing(void **state) {
    (void)state;
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(&client, STRANGER, &peer_fd);
    assert_int_equal(shutdown(caller_fd, SHUT_WR), 0); /* has said all it wants, and waits */
    assert_true(client_ask(&client, "project", "/usr", peer_fd));
    caller_fd = fd_close(caller_fd);
    assert_false(client_ask(&client, "project", "/usr", peer_fd));
    assert_true(string_starts(client.message, "forbidden"));
}

/* Nodes for which no descriptors are left would lock a new daemon out. */
static void nodes_leave_descriptors_for_the_rest(void **state) {
    (void)state;
    struct rlimit before, tight = {.rlim_cur = 256 + 4 + 2 * 2}; /* room for one port is kept, too */
    assert_int_equal(prlimit(client.launcher, RLIMIT_NOFILE, NULL, &before), 0);
    assert_int_equal(before.rlim_cur, before.rlim_max); /* it took all that it may have */
    tight.rlim_max = before.rlim_max;
    assert_int_equal(prlimit(client.launcher, RLIMIT_NOFILE, &tight, NULL), 0);
    assert_true(client_spawn(&client, "one", "", "wait"));
    assert_true(client_spawn(&client, "two", "", "wait"));
    assert_false(client_spawn(&client, "three", "", "wait"));
    assert_true(string_starts(client.message, "limit_reached"));
    assert_true(client_ask(&client, "bury", "one", -1));
    assert_true(client_spawn(&client, "three", "", "wait"));
    assert_true(client_ask(&client, "bury", "two", -1));
    assert_true(client_ask(&client, "bury", "three", -1));
    assert_int_equal(prlimit(client.launcher, RLIMIT_NOFILE, &before, NULL), 0);
}

static void limits_beyond_all_bounds_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *lines, *detail;
    } limits[] = {
        {"limit disk 18446744073709551615\n", "limit disk of 18446744073709551615 is out of bounds"},
        {"limit memory 18446744073709551615\n", "limit memory of 18446744073709551615 is out of bounds"},
        {"limit socket_memory 18446744073709551615\n", "out of bounds"},
        {"limit memory 1\n", "limit memory of 1 is out of bounds"},
        {"limit cpu 0\n", "out of bounds"},
        {"limit colour 5\n", "no limit 'colour'"},
        {"limit tasks 20\n", "no limit 'tasks'"},
        {"limit atoms 30000\n", "no limit 'atoms'"},
        {"limit cpu 5\nlimit cpu 5\n", "the limit cpu twice"},
        {"limit cpu 5\nweight 5\n", "a running node can't be given weight"},
        {"limit cpu 5\ntmpfs /data 50\n", "a running node can't be given tmpfs"},
    };
    assert_true(client_spawn(&client, "vast", "", "wait"));
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        char request[128];
        assert_false(client_limit(&client, "vast", limits[i].lines));
        assert_true(string_starts(client.message, "invalid_input"));
        if (!strstr(client_detail(&client), limits[i].detail))
            fail_msg("%s%s", limits[i].lines, client_detail(&client));
        snprintf(request, sizeof request, "vast\nnode vast\n%s", limits[i].lines);
        assert_false(client_ask(&client, "equip", request, -1));
        assert_true(string_starts(client.message, "invalid_input"));
    }
    /* Words of the first line are the node's name alone, and the plan is that node's. */
    assert_false(client_ask(&client, "limit", "vast", -1));
    assert_true(string_starts(client.message, "malformed_data"));
    assert_false(client_ask(&client, "limit", "vast cpu=5\nnode vast\nlimit cpu 5\n", -1));
    assert_true(string_starts(client.message, "invalid_input"));
    assert_false(client_ask(&client, "limit", "vast\nnode other\nlimit cpu 5\n", -1));
    assert_true(client_limit(&client, "vast", "limit cpu 5\n"));
    assert_true(client_ask(&client, "bury", "vast", -1));
}

/* "equip" for a running node, with so many binds of either kind. */
static bool equip(const char *node, size_t binds, size_t executable_binds) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_printf(&text, "%s\nnode %s\n", node, node);
    for (size_t i = 0; i < binds; i++) buf_append_string(&text, "bind /etc /app/m\n");
    for (size_t i = 0; i < executable_binds; i++) buf_append_string(&text, "bind-exec /etc /app/m\n");
    return client_ask(&client, "equip", buf_string(&text), -1);
}

/* Either kind may fill the array of mounts, so both together may not be more than it holds. */
static void equipment_fits_where_it_is_put(void **state) {
    (void)state;
    assert_true(client_spawn(&client, "laden", "", "wait"));
    assert_false(equip("laden", 256, 256));
    assert_true(string_starts(client.message, "invalid_input"));
    assert_false(equip("laden", 256, 1));
    assert_true(string_starts(client.message, "invalid_input"));
    if (!equip("laden", 128, 128)) fail_msg("%s", client_detail(&client));
    assert_true(client_ask(&client, "bury", "laden", -1));
}

static bool spawn_with(const char *line, size_t count) {
    CLEANUP(buf_free) struct buf more = BUF_INIT;
    for (size_t i = 0; i < count; i++) buf_append_string(&more, line);
    return client_spawn(&client, "full", buf_string(&more), "wait");
}

/* The whole way, where tests of the plan alone stop. */
static void plans_may_be_as_long_as_they_are_bounded(void **state) {
    (void)state;
    static const struct {
        const char *line;
        size_t most; /* besides those of every plan of these tests */
    } lines[] = {
        {"bind /etc /app/m\n", 255}, {"env a=b\n", 256},          {"tmpfs /data 1\n", 1},
        {"device null\n", 7},        {"directory /app/d\n", 255}, {"argument wait\n", 1022},
    };
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        if (lines[i].most && !spawn_with(lines[i].line, lines[i].most))
            fail_msg("%s%s", lines[i].line, client_detail(&client));
        if (lines[i].most) assert_true(client_ask(&client, "bury", "full", -1));
        assert_false(spawn_with(lines[i].line, lines[i].most + 1));
        assert_true(string_starts(client.message, "invalid_input"));
    }
}

/* One more word than a message holds ends the link, and the launcher lives on. */
static void messages_hold_so_many_words(void **state) {
    (void)state;
    assert_false(client_ask(&client, "limit", "none a b c d e f g h i j k l m n", -1)); /* 16 with the id */
    assert_true(string_starts(client.message, "not_found"));
    static const char words[] = "limit 1 none a b c d e f g h i j k l m n o";
    char byte;
    assert_int_equal(send(client.link_fd, words, strlen(words), MSG_NOSIGNAL), (ssize_t)strlen(words));
    assert_int_equal(recv(client.link_fd, &byte, 1, 0), 0);
    client_dial(&client);
    client_hello(&client);
}

/* Of many descriptors none is kept, and nothing is written where there is no room. */
static void descriptors_that_come_along_are_bounded(void **state) {
    (void)state;
    enum { PASSED = 64 };
    static const char text[] = "limit 7 none";
    union {
        char bytes[CMSG_SPACE(PASSED * sizeof(int))];
        struct cmsghdr header;
    } control = {0};
    struct msghdr message = {.msg_iov = &(struct iovec){(char *)text, strlen(text)},
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    int fds[PASSED];
    for (size_t i = 0; i < PASSED; i++) fds[i] = STDIN_FILENO;
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(&control.header), fds, sizeof fds);
    for (int i = 0; i < 3; i++) assert_true(sendmsg(client.link_fd, &message, MSG_NOSIGNAL) > 0);
    assert_false(client_ask(&client, "freeze", "none", -1));
    assert_true(string_starts(client.message, "not_found"));
}

static bool opens_for(uid_t uid) {
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(&client, uid, &peer_fd);
    return client_ask(&client, "project", "/usr", peer_fd);
}

/* How many it gets until it is refused. */
static int open_all(uid_t uid) {
    int count = 0;
    while (count <= JAIL_PROJECTS_MAX && opens_for(uid)) count++;
    assert_true(string_starts(client.message, "limit_reached"));
    return count;
}

/* All that are open end with the link. */
static void callers_leave_projects_for_others(void **state) {
    (void)state;
    enum { KEPT = JAIL_PROJECTS_MAX / SHARE_KEPT_PART, OPEN = JAIL_PROJECTS_MAX - KEPT, CALLERS = 8 };
    int left = JAIL_PROJECTS_MAX;
    client_dial(&client);
    client_hello(&client);
    for (uid_t i = 0; i < CALLERS; i++) {
        int count = open_all(STRANGER + i);
        if (i == 0) assert_int_equal(count, JAIL_PROJECTS_MAX / 4);
        assert_in_range(count, 2, JAIL_PROJECTS_MAX / 4);
        left -= count;
    }
    assert_true(opens_for(STRANGER + CALLERS));
    left--;
    assert_in_range(left, KEPT + 2, OPEN);
    assert_int_equal(open_all(0), left); /* to the last one */
    client_dial(&client);
    client_hello(&client);
    assert_true(opens_for(STRANGER));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mounts_of_a_node_stay_in_it),
        cmocka_unit_test(no_link_of_proc_is_followed),
        cmocka_unit_test(nothing_is_made_in_a_project),
        cmocka_unit_test(the_daemon_can_only_read_a_project),
        cmocka_unit_test(the_launcher_stays_nowhere),
        cmocka_unit_test(a_project_is_no_link_of_proc),
        cmocka_unit_test(a_pair_of_sockets_is_no_caller),
        cmocka_unit_test(a_caller_who_left_opens_nothing),
        cmocka_unit_test(nodes_leave_descriptors_for_the_rest),
        cmocka_unit_test(limits_beyond_all_bounds_are_refused),
        cmocka_unit_test(callers_leave_projects_for_others),
        cmocka_unit_test(equipment_fits_where_it_is_put),
        cmocka_unit_test(plans_may_be_as_long_as_they_are_bounded),
        cmocka_unit_test(messages_hold_so_many_words),
        cmocka_unit_test(descriptors_that_come_along_are_bounded),
    };
    return cmocka_run_group_tests(tests, open_client, close_client);
}
