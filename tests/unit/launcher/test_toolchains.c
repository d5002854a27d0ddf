/* Folders of users' toolchains: opened below their owner's folder and with the owner's rights alone, refused where
   other users can write, and executable in nodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher_client.h"

enum { OWNER = 54321, STRANGER = 4444 };

static struct client client;
static char home[96], tools[128], program[160];

static int open_client(void **state) {
    (void)state;
    client_open(&client, true);
    snprintf(home, sizeof home, "%s/owner", client.directory);
    snprintf(tools, sizeof tools, "%s/tools", home);
    snprintf(program, sizeof program, "%s/program", tools);
    make_directory(home, OWNER, 0700);
    make_directory(tools, OWNER, 0755);
    write_file(program, "mine", OWNER, 0700);
    return 0;
}

static int close_client(void **state) {
    (void)state;
    client_close(&client);
    return 0;
}

static bool ask_as(uid_t uid, const char *verb, const char *format, ...) __attribute__((format(printf, 3, 4)));

static bool ask_as(uid_t uid, const char *verb, const char *format, ...) {
    char rest[512];
    va_list arguments;
    CLEANUP_FD int peer_fd = -1;
    CLEANUP_FD int caller_fd = client_connect_as(&client, uid, &peer_fd);
    va_start(arguments, format);
    vsnprintf(rest, sizeof rest, format, arguments);
    va_end(arguments);
    return client_ask(&client, verb, rest, peer_fd);
}

static bool open_as(uid_t uid, const char *path) {
    return ask_as(uid, "project", "%s below=%s", path, home);
}

static void refused(bool answer, const char *slug, const char *why) {
    assert_false(answer);
    if (!string_starts(client.message, slug)) fail_msg("not %s: %s", slug, client.message);
    const char *detail = client_detail(&client);
    if (!strstr(detail, why)) fail_msg("'%s' does not say '%s'", detail, why);
}

static void the_owner_opens_it_and_no_other(void **state) {
    (void)state;
    assert_true(open_as(OWNER, tools));
    assert_non_null(strstr(client.message, "kind=mount"));
    assert_int_equal(seteuid(client.daemon_uid), 0);
    CLEANUP_FD int fd = openat(client.fds[0], "program", O_RDONLY | O_CLOEXEC);
    assert_int_equal(seteuid(0), 0);
    assert_true(fd >= 0);
    refused(open_as(STRANGER, tools), "toolchain_missing", "Permission denied");
    char missing[160];
    snprintf(missing, sizeof missing, "%s/none", home);
    refused(open_as(OWNER, missing), "not_found", "No such file");
    refused(open_as(OWNER, program), "not_found", "Not a directory");
}

static void it_lies_below_its_owners_folder(void **state) {
    (void)state;
    char link[160], out[160];
    refused(ask_as(OWNER, "project", "/usr/lib below=%s", home), "invalid", "clean absolute path");
    refused(ask_as(OWNER, "project", "%s below=%s", home, home), "invalid", "clean absolute path");
    refused(ask_as(OWNER, "project", "%s below=/", tools), "invalid", "clean absolute path");
    refused(ask_as(OWNER, "project", "%sx/y below=%s", home, home), "invalid", "clean absolute path");
    refused(ask_as(OWNER, "grant", "t1 /usr/lib below=%s", home), "invalid", "");
    snprintf(link, sizeof link, "%s/link", home);
    snprintf(out, sizeof out, "%s/out", home);
    assert_int_equal(symlink("tools", link), 0);
    assert_int_equal(symlink("/usr", out), 0);
    assert_true(open_as(OWNER, link)); /* within it a link may lead anywhere */
    refused(open_as(OWNER, out), "toolchain_missing", "leads out of");
    unlink(link);
    unlink(out);
}

static void others_must_not_be_able_to_write_it(void **state) {
    (void)state;
    assert_int_equal(chmod(tools, 0775), 0);
    refused(open_as(OWNER, tools), "toolchain_missing", "other users can write the folder (mode 0775");
    assert_int_equal(chmod(tools, 0757), 0);
    refused(open_as(OWNER, tools), "toolchain_missing", "chmod go-w");
    assert_int_equal(chmod(tools, 0755), 0);
    assert_int_equal(chmod(home, 0777), 0);
    refused(open_as(OWNER, tools), "toolchain_missing", "a folder above it");
    assert_int_equal(chmod(home, 01777), 0);
    assert_true(open_as(OWNER, tools));
    assert_int_equal(chmod(home, 0755), 0);
    assert_int_equal(chown(tools, STRANGER, STRANGER), 0);
    refused(open_as(OWNER, tools), "toolchain_missing", "uid 4444");
    assert_int_equal(chown(tools, 0, 0), 0);
    assert_true(open_as(OWNER, tools)); /* root's */
    assert_int_equal(chown(tools, OWNER, OWNER), 0);
}

static uint64_t signature(void) {
    if (!client_ask(&client, "project", "t1 toolchain=1 sign=1", -1)) fail_msg("%s", client_detail(&client));
    return client_number(&client, "signature");
}

static void a_signature_sees_every_file(void **state) {
    (void)state;
    char path[200];
    assert_true(ask_as(OWNER, "grant", "t1 %s below=%s", tools, home));
    uint64_t before = signature();
    assert_int_equal(signature(), before);
    snprintf(path, sizeof path, "%s/deps", tools); /* of a project it would be ignored */
    make_directory(path, OWNER, 0755);
    snprintf(path, sizeof path, "%s/deps/file", tools);
    write_file(path, "x", OWNER, 0644);
    assert_int_not_equal(signature(), before);
    assert_int_equal(chmod(path, 0666), 0);
    refused(client_ask(&client, "project", "t1 toolchain=1 sign=1", -1), "toolchain_missing", "can write 'file'");
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(chown(path, STRANGER, STRANGER), 0);
    refused(client_ask(&client, "project", "t1 toolchain=1 sign=1", -1), "toolchain_missing", "another user's");
    assert_int_equal(chown(path, OWNER, OWNER), 0);
    signature();
}

/* Sandboxes' ids are names of permissions too, and users choose them. */
static void its_permissions_have_names_of_their_own(void **state) {
    (void)state;
    char other[128];
    snprintf(other, sizeof other, "%s/other", client.directory);
    make_directory(other, STRANGER, 0755);
    assert_true(ask_as(OWNER, "grant", "t2 %s below=%s", tools, home));
    assert_true(ask_as(STRANGER, "grant", "t2 %s", other));
    assert_true(client_ask(&client, "project", "t2 toolchain=1", -1));
    assert_int_equal(faccessat(client.fds[0], "program", F_OK, 0), 0);
    assert_true(client_ask(&client, "project", "t2", -1));
    assert_int_equal(faccessat(client.fds[0], "program", F_OK, 0), -1);
    assert_true(client_ask(&client, "withdraw", "t2", -1));
    assert_true(client_ask(&client, "project", "t2 toolchain=1", -1));
    assert_true(client_ask(&client, "withdraw", "t2 toolchain=1", -1));
    assert_false(client_ask(&client, "project", "t2 toolchain=1", -1));
    assert_true(string_starts(client.message, "forbidden"));
}

/* The options of the mount at that place, as a process of the node sees it. */
static void options_of(pid_t pid, const char *place, char ret[512]) {
    char path[64], line[1024], target[256];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/mounts", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (!found && fgets(line, sizeof line, file))
        found = sscanf(line, "%*s %255s %*s %511s", target, ret) == 2 && strcmp(target, place) == 0;
    fclose(file);
    assert_true(found);
}

static void nodes_see_it_executable_and_read_only(void **state) {
    (void)state;
    char token[64], more[128], options[512], path[96];
    struct stat status;
    assert_true(ask_as(OWNER, "grant", "t3 %s below=%s", tools, home));
    assert_true(client_ask(&client, "project", "t3 toolchain=1", -1));
    snprintf(token, sizeof token, "%.*s", (int)strcspn(strstr(client.message, "token=") + 6, " "),
             strstr(client.message, "token=") + 6);
    snprintf(more, sizeof more, "toolchain %s /tools\n", token);
    if (!client_spawn(&client, "own", more, "wait")) fail_msg("%s", client_detail(&client));
    uid_t uid = (uid_t)client_number(&client, "uid");
    pid_t program_pid = client_program_of((pid_t)client_number(&client, "pid"));
    options_of(program_pid, "/tools", options);
    assert_true(string_starts(options, "ro,") && strstr(options, "nosuid") && strstr(options, "nodev"));
    assert_null(strstr(options, "noexec"));
    snprintf(path, sizeof path, "/proc/%d/root/tools/program", (int)program_pid);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_uid, uid); /* what is its owner's is the node's there */
    assert_true(client_ask(&client, "release", token, -1));
    assert_int_equal(stat(path, &status), 0); /* the node keeps it */
    assert_true(client_ask(&client, "bury", "own", -1));
}

/* A project can't be had as a toolchain, nor one that is not open. */
static void nothing_else_is_executable(void **state) {
    (void)state;
    char more[128];
    assert_true(ask_as(OWNER, "project", "%s", tools));
    const char *token = strstr(client.message, "token=") + 6;
    snprintf(more, sizeof more, "toolchain %.*s /tools\n", (int)strcspn(token, " "), token);
    assert_false(client_spawn(&client, "none", more, "wait"));
    assert_non_null(strstr(client_detail(&client), "no toolchain"));
    assert_false(client_spawn(&client, "none", "toolchain p9999 /tools\n", "wait"));
    assert_false(client_spawn(&client, "none", "toolchain /usr /tools\n", "wait"));
}

/* An earlier daemon's, which this one does not know. */
static void a_daemon_keeps_the_permissions_that_it_names(void **state) {
    (void)state;
    static const char *const names[] = {"kept", "kept2", "kep", "left"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        assert_true(ask_as(OWNER, "grant", "%s %s below=%s", names[i], tools, home));
    assert_true(ask_as(OWNER, "grant", "left %s", tools)); /* a sandbox's */
    assert_true(client_ask(&client, "keep", "\nkept\nkept2\n", -1));
    assert_true(client_ask(&client, "project", "kept toolchain=1", -1));
    assert_true(client_ask(&client, "project", "kept2 toolchain=1", -1));
    refused(client_ask(&client, "project", "kep toolchain=1", -1), "forbidden", "no permission");
    refused(client_ask(&client, "project", "left toolchain=1", -1), "forbidden", "no permission");
    assert_true(client_ask(&client, "project", "left", -1));
    assert_true(client_ask(&client, "keep", "", -1));
    refused(client_ask(&client, "project", "kept toolchain=1", -1), "forbidden", "no permission");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_owner_opens_it_and_no_other),
        cmocka_unit_test(it_lies_below_its_owners_folder),
        cmocka_unit_test(others_must_not_be_able_to_write_it),
        cmocka_unit_test(a_signature_sees_every_file),
        cmocka_unit_test(its_permissions_have_names_of_their_own),
        cmocka_unit_test(nodes_see_it_executable_and_read_only),
        cmocka_unit_test(nothing_else_is_executable),
        cmocka_unit_test(a_daemon_keeps_the_permissions_that_it_names),
    };
    return cmocka_run_group_tests(tests, open_client, close_client);
}
