/* Folders that callers hand over: opened by the real launcher with their rights and their consent, and mounted so that
   a node has those rights and no more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher_client.h"

enum { OWNER = 54321, STRANGER = 4444 };

static struct client client;
static char folder[128];

static const char *below(const char *name) {
    static char path[192];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int open_client(void **state) {
    (void)state;
    client_open(&client, true);
    snprintf(folder, sizeof folder, "%s/folder", client.directory);
    make_directory(folder, OWNER, 0755);
    write_file(below("private"), "mine", OWNER, 0600);
    write_file(below("others"), "theirs", STRANGER, 0600);
    return 0;
}

static int close_client(void **state) {
    (void)state;
    client_close(&client);
    return 0;
}

/* A process of its own, as a caller is: it has a connection, and maybe the folder open, until it is ended. */
struct person {
    pid_t pid;
    int peer_fd; /* the accepted end of its connection */
};

static _Noreturn void live(const struct sockaddr_un *address, uid_t uid, const char *held) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0) _exit(EXIT_FAILURE);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* as a program is that was started with that uid */
    if (held && open(held, O_RDONLY | O_DIRECTORY | O_CLOEXEC) < 0) _exit(EXIT_FAILURE);
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) < 0) _exit(EXIT_FAILURE);
    for (;;) pause();
}

static struct person person_start(uid_t uid, const char *held) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct person person;
    snprintf(address.sun_path, sizeof address.sun_path, "%s/api.sock", client.home);
    CLEANUP_FD int server_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server_fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(chmod(address.sun_path, 0666), 0);
    assert_int_equal(listen(server_fd, 1), 0);
    person.pid = fork();
    if (person.pid == 0) live(&address, uid, held);
    person.peer_fd = accept4(server_fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(person.peer_fd >= 0);
    unlink(address.sun_path);
    return person;
}

static void person_end(struct person *person) {
    kill(person->pid, SIGKILL);
    waitpid(person->pid, NULL, 0);
    fd_close(person->peer_fd);
}

/* Whether a process with this uid, which holds that open, may hand the folder over. */
static bool grant(uid_t uid, const char *held, const char *name, const char *path, const char *access) {
    char rest[320];
    struct person person = person_start(uid, held);
    snprintf(rest, sizeof rest, "%s %s folder=%s", name, path, access);
    bool is_granted = client_ask(&client, "grant", rest, person.peer_fd);
    person_end(&person);
    return is_granted;
}

/* By its permission, in a new node; *ret_output_fd has what that says of it. */
static pid_t mount_in(const char *node, const char *name, int *ret_output_fd) {
    char request[128], token[32] = "";
    if (!client_spawn(&client, node, "directory /mnt\nwrite /mnt\nread /proc\nwrite /data\nexecute /probe\n",
                      "signal folder wait"))
        fail_msg("%s", client_detail(&client));
    pid_t program = client_program_of((pid_t)client_number(&client, "pid"));
    int output_fd = take_fd(&client.fds[1]);
    client_read_until(output_fd, "listening=ok\n");
    snprintf(request, sizeof request, "%s folder=1", name);
    if (!client_ask(&client, "project", request, -1)) fail_msg("%s", client_detail(&client));
    assert_int_equal(client.fds[0], -1); /* the daemon gets nothing that leads there */
    assert_int_equal(sscanf(strstr(client.message, "token="), "token=%31s", token), 1);
    snprintf(request, sizeof request, "%s %s /mnt/d", node, token);
    if (!client_ask(&client, "mount", request, -1)) fail_msg("%s", client_detail(&client));
    snprintf(request, sizeof request, "%s %s /etc", node, token);
    assert_false(client_ask(&client, "mount", request, -1));
    assert_true(client_ask(&client, "release", token, -1));
    *ret_output_fd = output_fd;
    return program;
}

static void a_node_has_its_callers_rights_and_no_more(void **state) {
    struct stat status;
    (void)state;
    CLEANUP_FD int output_fd = -1;
    if (!grant(OWNER, folder, "k-0", folder, "rw")) fail_msg("%s", client_detail(&client));
    pid_t program = mount_in("writer", "k-0", &output_fd);
    kill(program, SIGUSR1);
    client_read_until(output_fd, "folder=mine\nfolder_others=EACCES\nfolder_write=ok\nfolder_device=ENOSYS\n"
                                 "folder_link=EOVERFLOW\nfolder_above=EACCES\nfolder_beside=EROFS\n"
                                 "folder_ids=1000:65534\n");
    assert_int_equal(stat(below("new"), &status), 0);
    assert_int_equal(status.st_uid, OWNER);
    assert_int_equal(status.st_gid, OWNER);
    assert_true(client_ask(&client, "bury", "writer", -1));
    assert_int_equal(unlink(below("new")), 0);
}

static void what_is_handed_over_to_be_read_is_not_written(void **state) {
    (void)state;
    CLEANUP_FD int output_fd = -1;
    if (!grant(OWNER, NULL, "k-1", folder, "ro")) fail_msg("%s", client_detail(&client));
    pid_t program = mount_in("reader", "k-1", &output_fd);
    kill(program, SIGUSR1);
    client_read_until(output_fd, "folder=mine\nfolder_others=EACCES\nfolder_write=EROFS\n");
    assert_true(client_ask(&client, "bury", "reader", -1));
}

/* The daemon names the path, so that a connection alone says nothing of what its caller wants written. */
static void without_consent_nothing_is_handed_over_to_be_written(void **state) {
    char beside[160];
    (void)state;
    snprintf(beside, sizeof beside, "%s/beside", client.directory);
    make_directory(beside, OWNER, 0755);
    assert_false(grant(OWNER, NULL, "k-2", folder, "rw"));
    assert_true(string_starts(client.message, "forbidden"));
    assert_false(grant(OWNER, beside, "k-2", folder, "rw"));
    assert_true(string_starts(client.message, "forbidden"));
    assert_false(grant(0, NULL, "k-2", folder, "rw"));
    assert_true(string_starts(client.message, "forbidden"));
    assert_false(grant(STRANGER, folder, "k-2", folder, "rw")); /* who can open it, and not write it */
    assert_true(string_starts(client.message, "forbidden"));
    assert_false(client_ask(&client, "project", "k-2 folder=1", -1));
    assert_true(string_starts(client.message, "forbidden"));
    assert_int_equal(rmdir(beside), 0);
}

static void links_and_mounts_are_not_crossed(void **state) {
    char link[160], through[200], sub[200];
    (void)state;
    snprintf(link, sizeof link, "%s/link", client.directory);
    snprintf(through, sizeof through, "%s/sub", link);
    snprintf(sub, sizeof sub, "%s", below("sub"));
    make_directory(sub, OWNER, 0755);
    assert_int_equal(symlink(folder, link), 0);
    assert_false(grant(OWNER, folder, "k-3", link, "ro"));
    assert_true(string_starts(client.message, "invalid_input"));
    assert_false(grant(OWNER, sub, "k-3", through, "rw"));
    assert_true(string_starts(client.message, "invalid_input"));
    assert_int_equal(mount("none", sub, "tmpfs", 0, NULL), 0);
    bool is_granted = grant(OWNER, folder, "k-3", folder, "ro");
    assert_int_equal(umount(sub), 0);
    assert_false(is_granted);
    assert_true(string_starts(client.message, "invalid_input"));
    unlink(link);
    rmdir(sub);
}

/* What the folder's place leads to is looked at anew for each node. */
static void a_folder_that_became_a_link_is_not_followed(void **state) {
    char inner[200], aside[200];
    (void)state;
    snprintf(inner, sizeof inner, "%s", below("inner"));
    snprintf(aside, sizeof aside, "%s", below("aside"));
    make_directory(inner, OWNER, 0755);
    if (!grant(OWNER, inner, "k-4", inner, "rw")) fail_msg("%s", client_detail(&client));
    assert_int_equal(rename(inner, aside), 0);
    assert_int_equal(symlink("/etc", inner), 0);
    assert_false(client_ask(&client, "project", "k-4 folder=1", -1));
    assert_true(string_starts(client.message, "invalid_input"));
    unlink(inner);
    assert_false(client_ask(&client, "project", "k-4 folder=1", -1));
    assert_true(string_starts(client.message, "not_found"));
    rmdir(aside);
}

static void the_services_own_files_are_not_handed_over(void **state) {
    (void)state;
    const char *const paths[] = {client.home, client.directory};
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        assert_false(grant(0, paths[i], "k-5", paths[i], "ro"));
        assert_true(string_starts(client.message, "invalid_input"));
    }
}

static void a_permission_is_of_its_kind_and_ends(void **state) {
    (void)state;
    if (!grant(OWNER, folder, "k-6", folder, "rw")) fail_msg("%s", client_detail(&client));
    assert_false(client_ask(&client, "project", "k-6", -1));
    assert_false(client_ask(&client, "project", "k-6 toolchain=1", -1));
    assert_true(client_ask(&client, "withdraw", "k-6", -1)); /* a source's, of which there is none */
    assert_true(client_ask(&client, "project", "k-6 folder=1", -1));
    assert_true(client_ask(&client, "keep", "folder=1\nk-0", -1));
    assert_false(client_ask(&client, "project", "k-6 folder=1", -1));
    assert_true(client_ask(&client, "project", "k-0 folder=1", -1));
    assert_true(client_ask(&client, "withdraw", "k-0 folder=1", -1));
    assert_false(client_ask(&client, "project", "k-0 folder=1", -1));
}

static void malformed_requests_are_refused(void **state) {
    char rest[256];
    struct person person = person_start(OWNER, folder);
    (void)state;
    static const char *const bad[] = {"folder=rx", "folder=", "folder=ro below=/tmp"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        snprintf(rest, sizeof rest, "k-7 %s %s", folder, bad[i]);
        assert_false(client_ask(&client, "grant", rest, person.peer_fd));
    }
    person_end(&person);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_has_its_callers_rights_and_no_more),
        cmocka_unit_test(what_is_handed_over_to_be_read_is_not_written),
        cmocka_unit_test(without_consent_nothing_is_handed_over_to_be_written),
        cmocka_unit_test(links_and_mounts_are_not_crossed),
        cmocka_unit_test(a_folder_that_became_a_link_is_not_followed),
        cmocka_unit_test(the_services_own_files_are_not_handed_over),
        cmocka_unit_test(a_permission_is_of_its_kind_and_ends),
        cmocka_unit_test(malformed_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, open_client, close_client);
}
