/* What one user of the host may take: as a user without rights, beside root. Takes root. */
#include <endian.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "processes.h"
#include "support.h"

enum {
    STRANGER = 65534,
    QUOTA = 64, /* of connections, as nothing else is said */
    FLOOD = 1024,
    CALL_MAX_MS = 45000, /* a compilation among them, on a machine that is busy */
};

#define SETTINGS                                                                                                       \
    "spare-compilers = 0\n[quota user 65534]\nsandboxes = %d\nmemory = 1G\ncompilers = %d\ndisk = "                    \
    "64M\nlog = 64K\n"                                                                                                 \
    "[access low]\nusers = root\n"

/* ---- as another user ---- */

static void become_stranger(void) {
    if (setgroups(0, NULL) < 0 || setgid(STRANGER) < 0 || setuid(STRANGER) < 0) _exit(126);
}

struct call {
    pid_t child;
    int outcome_fd;
};

static void call_and_tell(const struct world *world, const char *op, const char *params, int outcome_fd) {
    struct sbx_options how = SBX_OPTIONS_INIT;
    struct sbx *client = NULL;
    struct sbx_error error;
    how.home = world_home(world);
    how.flags = SBX_NO_AUTOSTART;
    how.timeout_ms = CALL_MAX_MS;
    int result = sbx_open_with(&how, &client, &error);
    if (result == 0) result = sbx_op(client, op, params, NULL, &error);
    dprintf(outcome_fd, "%s", result == 0 ? "ok" : error.detail);
    _exit(0);
}

static struct call begin_call(const struct world *world, const char *op, const char *params) {
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        become_stranger();
        call_and_tell(world, op, params, ends[1]);
    }
    close(ends[1]);
    return (struct call){child, ends[0]};
}

/* "ok", or why not. To be freed. */
static char *end_call(const struct call *call) {
    struct buf text = {.max = 4096};
    char chunk[1024];
    ssize_t got;
    while ((got = read(call->outcome_fd, chunk, sizeof chunk)) > 0) buf_append(&text, chunk, (size_t)got);
    close(call->outcome_fd);
    waitpid(call->child, NULL, 0);
    return buf_take_string(&text);
}

static void expect(const struct world *world, const char *op, const char *params, const char *outcome) {
    struct call call = begin_call(world, op, params);
    CLEANUP_FREE char *said = end_call(&call);
    if (!said || !strstr(said, outcome)) fail_msg("%s %s: \"%s\", not \"%s\"", op, params, said ? said : "", outcome);
}

/* What the service says that the stranger holds of a quota. */
static json_int_t held(struct world *world, const char *quota) {
    json_t *rows = world_op(world, "quotas", "{s:s}", "user", "65534"), *row;
    json_int_t used = -1;
    size_t index;
    json_array_foreach(rows, index, row) {
        if (strcmp(json_string_value(json_object_get(row, "quota")), quota) == 0)
            used = json_integer_value(json_object_get(row, "used"));
    }
    json_decref(rows);
    return used;
}

/* ---- connections ---- */

static int dial(const char *home, const char *text) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/api.sock", home);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) _exit(1);
    if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0) return fd; /* hung up on already */
    return fd;
}

static void tell_and_wait(int parent_fd) {
    char byte;
    if (write(parent_fd, "+", 1) != 1 || read(parent_fd, &byte, 1) != 1) _exit(1);
}

/* Silent ones, half-open ones and streams without end: as many as the quota, and then all the others. */
static void flood(const struct world *world, int parent_fd) {
    static const char *const texts[] = {"", "GET /health HTTP/1.1\r\nHo",
                                        "GET /api/v1/events?follow=true HTTP/1.1\r\nHost: h\r\n\r\n"};
    struct rlimit limit = {4096, 4096};
    setrlimit(RLIMIT_NOFILE, &limit);
    become_stranger();
    for (unsigned i = 0; i < FLOOD; i++) {
        dial(world_home(world), texts[i % ARRAY_SIZE(texts)]);
        if (i == QUOTA - 1 || i == FLOOD - 1) tell_and_wait(parent_fd);
    }
    _exit(0);
}

static void await_byte(int fd) {
    char byte;
    assert_int_equal(read(fd, &byte, 1), 1);
}

static bool has_all(void *world) {
    return held(world, "connections") == QUOTA;
}

static bool has_none(void *world) {
    return held(world, "connections") == 0;
}

static void connections_of_one_user_leave_room(void **state) {
    struct world *world = *state;
    struct sbx *client;
    struct sbx_error error;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]); /* the end of the test is the child's */
        flood(world, ends[1]);
    }
    close(ends[1]);
    await_byte(ends[0]);
    assert_true(wait_until(has_all, world, WORLD_DEADLINE_MS));
    expect(world, "list", "{}", "quota \"connections\" is used up: 64 of 64");
    assert_int_equal(write(ends[0], "+", 1), 1);
    await_byte(ends[0]);
    /* One more, not the one that was there before. */
    if (sbx_open(world_home(world), &client, &error) < 0) fail_msg("root is not served: %s", error.detail);
    if (sbx_op(client, "list", NULL, NULL, &error) < 0) fail_msg("root is not served: %s", error.detail);
    sbx_close(client);
    assert_true(held(world, "connections") <= QUOTA);
    close(ends[0]);
    waitpid(child, NULL, 0);
    assert_true(wait_until(has_none, world, WORLD_DEADLINE_MS));
    assert_int_equal(held(world, "streams"), 0);
    assert_int_equal(held(world, "requests"), 0);
}

/* ---- compilations ---- */

static bool first_compiles(void *world) {
    return held(world, "compilers") == 1;
}

static bool none_compiles(void *world) {
    return held(world, "compilers") == 0;
}

static bool second_waits(void *world) {
    return held(world, "projects") == 2;
}

static bool third_waits(void *world) {
    return held(world, "projects") == 3;
}

#define QUICK "{\"file\": \"quick.erl\", \"code\": \"-module(quick).\\n\"}"

static void compilations_wait_their_turn(void **state) {
    struct world *world = *state;
    struct call first = begin_call(world, "compile", "{\"file\": \"slow.ex\", \"code\": \"Process.sleep(:infinity)\"}");
    assert_true(wait_until(first_compiles, world, WORLD_DEADLINE_MS));
    struct call second = begin_call(world, "compile", QUICK);
    assert_true(wait_until(second_waits, world, WORLD_DEADLINE_MS));
    struct call impatient = begin_call(world, "compile", QUICK);
    assert_true(wait_until(third_waits, world, WORLD_DEADLINE_MS));
    kill(impatient.child, SIGKILL);
    free(end_call(&impatient));
    assert_true(wait_until(second_waits, world, WORLD_DEADLINE_MS));
    assert_int_equal(held(world, "compilers"), 1);
    kill(first.child, SIGKILL);
    free(end_call(&first));
    CLEANUP_FREE char *outcome = end_call(&second);
    assert_string_equal(outcome, "ok");
    assert_int_equal(held(world, "compilers"), 0);
    assert_int_equal(held(world, "projects"), 0);
}

/* ---- builds ---- */

enum { PRIV_BYTES = 20 << 20, BUILDS_THAT_FIT = 3 }; /* of 64 MiB */

static void write_project(struct world *world, unsigned number) {
    char name[64], text[96];
    snprintf(name, sizeof name, "room/src/r%u.erl", number);
    snprintf(text, sizeof text, "-module(r%u).\n-export([f/0]).\nf() -> ok.\n", number);
    world_file(world, name, text);
    assert_int_equal(truncate(world_file(world, "room/priv/data", ""), PRIV_BYTES), 0);
}

static void compile_room(struct world *world, unsigned number, const char *outcome) {
    char params[512];
    write_project(world, number);
    snprintf(params, sizeof params, "{\"source\": \"%s\"}", world_path(world, "room"));
    expect(world, "compile", params, outcome);
}

static bool is_there_room(void *world) {
    return held(world, "disk") == 0;
}

/* They are counted by the next daemon too, and make room when the user has no more of it. */
static void builds_take_room(void **state) {
    struct world *world = *state;
    for (unsigned i = 0; i < BUILDS_THAT_FIT; i++) compile_room(world, i, "ok");
    json_int_t used = held(world, "disk");
    assert_true(used > BUILDS_THAT_FIT * PRIV_BYTES && used < 64 << 20);
    process_end(world_pid(world, "daemon.lock"), SIGKILL);
    assert_int_equal(held(world, "disk"), used);
    compile_room(world, BUILDS_THAT_FIT, "quota \"disk\" is used up");
    assert_true(wait_until(is_there_room, world, WORLD_DEADLINE_MS));
    compile_room(world, BUILDS_THAT_FIT, "ok");
    assert_true(held(world, "disk") > PRIV_BYTES);
}

/* ---- sandboxes ---- */

static const char *params_with(struct world *world, const char *id, const char *folder, const char *more) {
    static char text[512];
    snprintf(text, sizeof text, "{\"id\": \"%s\", \"source\": \"%s\"%s}", id, world_path(world, folder), more);
    return text;
}

static const char *params_of(struct world *world, const char *id, const char *more) {
    return params_with(world, id, "own", more);
}

static void give_project(struct world *world, const char *folder) {
    char file[64];
    snprintf(file, sizeof file, "%s/compiled.beam", folder);
    world_copy(world, file, COMPILED "/compiled.beam", SIZE_MAX);
    assert_int_equal(chown(world_path(world, file), STRANGER, STRANGER), 0);
    assert_int_equal(chown(world_path(world, folder), STRANGER, STRANGER), 0);
}

enum { SOCKETS_MIB = 16 }; /* of the default profile, which count as memory */

static void a_user_may_ask_for_so_much(void **state) {
    struct world *world = *state;
    give_project(world, "own");
    expect(world, "create", params_of(world, "large", ", \"memory_bytes\": \"1000G\""),
           "quota \"memory\" is used up: 0 of 1G (user 65534), and 1024016M more are asked for");
    expect(world, "create", params_of(world, "large", ", \"disk_bytes\": \"1000G\""), "quota \"disk\" is used up");
    expect(world, "create", params_of(world, "trusted", ", \"profile\": \"low\""),
           "the profile 'low' is for certain users and groups");
    expect(world, "create", params_of(world, "mine", ""), "ok");
    assert_int_equal(held(world, "memory"), (128 + SOCKETS_MIB) << 20);
    expect(world, "limits", "{\"id\": \"mine\", \"set\": {\"memory\": \"2G\"}}", "quota \"memory\" is used up");
    expect(world, "limits", "{\"id\": \"mine\", \"set\": {\"socket_memory\": \"1000G\"}}",
           "quota \"memory\" is used up");
    expect(world, "limits", "{\"id\": \"mine\", \"set\": {\"memory\": \"512M\"}}", "ok");
    assert_int_equal(held(world, "memory"), (512 + SOCKETS_MIB) << 20);
    expect(world, "create", params_of(world, "other", ", \"memory_bytes\": \"600M\""), "quota \"memory\" is used up");
    expect(world, "limits", "{\"id\": \"mine\", \"set\": {\"memory\": \"64M\"}}", "ok");
    assert_int_equal(held(world, "memory"), (64 + SOCKETS_MIB) << 20);
    expect(world, "quotas", "{\"user\": \"0\"}", "only an admin");
}

enum { JUNK_BYTES = 4 << 20, RELOADS_MAX = 17 }; /* more than 64 MiB in all */

static uint32_t big_endian_at(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return be32toh(value);
}

static void put_big_endian(struct buf *file, size_t value) {
    uint32_t bytes = htobe32((uint32_t)value);
    buf_append(file, &bytes, sizeof bytes);
}

/* The module of the project, with a string table that no other reload has and that its code does not use. */
static void write_large_beam(struct world *world, uint32_t number) {
    static uint8_t junk[JUNK_BYTES];
    enum { HEAD = 12, CHUNK_HEAD = 8 };
    CLEANUP(buf_free) struct buf file = {.max = 2 * JUNK_BYTES};
    CLEANUP_FREE uint8_t *module = NULL;
    size_t size, chunk;
    assert_int_equal(file_load(COMPILED "/compiled.beam", JUNK_BYTES, &module, &size, NULL), 0);
    buf_append(&file, module, HEAD);
    for (size_t at = HEAD; at < size; at += CHUNK_HEAD + chunk) {
        chunk = (big_endian_at(module + at + 4) + 3) & ~(size_t)3;
        if (memcmp(module + at, "StrT", 4) != 0) buf_append(&file, module + at, CHUNK_HEAD + chunk);
    }
    memcpy(junk, &number, sizeof number);
    buf_append(&file, "StrT", 4);
    put_big_endian(&file, JUNK_BYTES);
    buf_append(&file, junk, JUNK_BYTES);
    uint32_t length = htobe32((uint32_t)file.size - 8);
    memcpy(file.data + 4, &length, sizeof length);
    CLEANUP_FD int fd = open(world_file(world, "large/compiled.beam", ""), O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(file_write_all(fd, file.data, file.size), 0);
}

/* "ok", or why not. To be freed. */
static char *reload_large(struct world *world, uint32_t number, bool is_dry) {
    char params[512];
    write_large_beam(world, number);
    snprintf(params, sizeof params, "{\"id\": \"mine\", \"paths\": [\"%s\"], \"dry_run\": %s}",
             world_path(world, "large/compiled.beam"), is_dry ? "true" : "false");
    struct call call = begin_call(world, "reload", params);
    return end_call(&call);
}

static bool is_room_for_a_reload(void *world) {
    return held(world, "disk") < (64 << 20) - 4 * JUNK_BYTES;
}

/* Builds that a reload composes, and the bytes of versions. A dry run keeps none of them. */
static void reloads_take_room(void **state) {
    struct world *world = *state;
    json_int_t before = held(world, "disk");
    uint32_t number = 0;
    while (number < RELOADS_MAX) {
        CLEANUP_FREE char *said = reload_large(world, number++, true);
        assert_string_equal(said, "ok");
    }
    assert_int_equal(held(world, "disk"), before);
    CLEANUP_FREE char *refused = NULL;
    while (number < 2 * RELOADS_MAX && !refused) {
        CLEANUP_FREE char *said = reload_large(world, number++, false);
        if (strcmp(said, "ok") != 0) refused = take_ptr(said);
    }
    assert_non_null(refused);
    assert_non_null(strstr(refused, "quota \"disk\" is used up"));
    assert_true(wait_until(is_room_for_a_reload, world, WORLD_DEADLINE_MS));
    CLEANUP_FREE char *again = reload_large(world, number, false);
    assert_string_equal(again, "ok");
}

/* So it takes none of the launcher's entries, which all users share: the project may even come later than the wish. */
static void what_waits_to_be_compiled_is_not_open(void **state) {
    struct world *world = *state;
    char params[512];
    struct call first = begin_call(world, "compile", "{\"file\": \"slow.ex\", \"code\": \"Process.sleep(:infinity)\"}");
    assert_true(wait_until(first_compiles, world, WORLD_DEADLINE_MS));
    struct call create = begin_call(world, "create", params_with(world, "late", "later", ""));
    assert_true(wait_until(second_waits, world, WORLD_DEADLINE_MS));
    snprintf(params, sizeof params, "{\"source\": \"%s\"}", world_path(world, "later"));
    struct call compile = begin_call(world, "compile", params);
    assert_true(wait_until(third_waits, world, WORLD_DEADLINE_MS));
    give_project(world, "later");
    kill(first.child, SIGKILL);
    free(end_call(&first));
    CLEANUP_FREE char *created = end_call(&create);
    CLEANUP_FREE char *compiled = end_call(&compile);
    assert_string_equal(created, "ok");
    assert_string_equal(compiled, "ok");
    assert_int_equal(held(world, "compilers"), 0);
    assert_int_equal(held(world, "projects"), 0);
    /* One that is called off while it waits leaves nothing. */
    first = begin_call(world, "compile", "{\"file\": \"slow.ex\", \"code\": \"Process.sleep(:infinity)\"}");
    assert_true(wait_until(first_compiles, world, WORLD_DEADLINE_MS));
    expect(world, "destroy", "{\"id\": \"late\"}", "ok");
    create = begin_call(world, "create", params_with(world, "late", "later", ""));
    assert_true(wait_until(second_waits, world, WORLD_DEADLINE_MS));
    expect(world, "destroy", "{\"id\": \"late\"}", "ok");
    free(end_call(&create));
    kill(first.child, SIGKILL);
    free(end_call(&first));
    assert_true(wait_until(none_compiles, world, WORLD_DEADLINE_MS));
    assert_int_equal(held(world, "projects"), 0);
}

/* Root is bound by none of it, and may raise what is another's. */
static void root_is_not_bound(void **state) {
    struct world *world = *state;
    json_decref(world_op(world, "create", "{s:s, s:s, s:s, s:s}", "id", "roots", "source", world_path(world, "own"),
                         "profile", "low", "memory_bytes", "2G"));
    world_do(world, "limits", "{s:s, s:{s:s}}", "id", "mine", "set", "memory", "2G");
    assert_int_equal(held(world, "memory"), (json_int_t)(2048 + SOCKETS_MIB) << 20);
    world_destroy(world, "roots");
}

/* ---- the log ---- */

enum { REFUSED_MAX = 1000 };

/* Until the service says that it writes no more of this user. */
static void fill_log(const struct world *world, int outcome_fd) {
    struct sbx *client;
    struct sbx_error error;
    become_stranger();
    if (sbx_open(world_home(world), &client, &error) < 0) _exit(1);
    for (unsigned i = 0; i < REFUSED_MAX; i++) {
        if (sbx_op(client, "thaw", "{\"id\": \"nowhere\"}", NULL, &error) == 0 || strstr(error.detail, "quota")) break;
        sbx_error_clear(&error);
    }
    dprintf(outcome_fd, "%s", error.detail);
    _exit(0);
}

static void what_can_not_be_audited_is_refused(void **state) {
    struct world *world = *state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct call call = {fork(), ends[0]};
    if (call.child == 0) fill_log(world, ends[1]);
    close(ends[1]);
    CLEANUP_FREE char *outcome = end_call(&call);
    if (!strstr(outcome, "quota \"log\" is used up")) fail_msg("%s", outcome);
    /* What ends something may overdraw. */
    expect(world, "destroy", "{\"id\": \"nowhere\"}", "there is no sandbox 'nowhere'");
}

static void write_settings(const struct world *world, int sandboxes, int compilers) {
    char path[128];
    snprintf(path, sizeof path, "%s/sandbox.conf", world_home(world));
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, SETTINGS, sandboxes, compilers);
    assert_int_equal(fclose(file), 0);
}

static void a_lowered_quota_ends_nothing(void **state) {
    struct world *world = *state;
    json_t *before = world_info(world, "mine");
    write_settings(world, 0, 0);
    process_end(world_pid(world, "daemon.lock"), SIGKILL);
    json_t *after = world_info(world, "mine");
    assert_string_equal(json_string_value(json_object_get(after, "status")), "running");
    assert_int_equal(json_integer_value(json_object_get(after, "os_pid")),
                     json_integer_value(json_object_get(before, "os_pid")));
    json_decref(before);
    json_decref(after);
    assert_int_equal(held(world, "sandboxes"), 1);
    assert_int_equal(held(world, "memory"), (json_int_t)(2048 + SOCKETS_MIB) << 20);
    expect(world, "create", params_of(world, "another", ""), "quota \"sandboxes\" is used up: 1 of 0 (user 65534)");
    expect(world, "compile", QUICK, "quota \"compilers\" is used up: 0 of 0 (user 65534)"); /* it would wait for ever */
    expect(world, "destroy", "{\"id\": \"mine\"}", "ok");
    assert_int_equal(held(world, "sandboxes"), 0);
    assert_int_equal(held(world, "memory"), 0);
    assert_int_equal(held(world, "cpu"), 0);
}

static int open_world(void **state) {
    char settings[512];
    snprintf(settings, sizeof settings, SETTINGS, 2, 1);
    *state = world_open(settings);
    return 0;
}

static int close_world(void **state) {
    world_close(*state);
    return 0;
}

int main(void) {
    const struct test_case cases[] = {
        LONG_CASE(builds_take_room),
        CASE(a_user_may_ask_for_so_much),
        LONG_CASE(reloads_take_room),
        LONG_CASE(what_waits_to_be_compiled_is_not_open),
        CASE(root_is_not_bound),
        CASE(connections_of_one_user_leave_room),
        CASE(compilations_wait_their_turn),
        CASE(what_can_not_be_audited_is_refused),
        CASE(a_lowered_quota_ends_nothing),
    };
    if (getuid() != 0) return 77; /* no other user to be */
    return cases_run(cases, ARRAY_SIZE(cases), open_world, close_world);
}
