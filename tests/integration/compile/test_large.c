/* Every operation on a project of thousands of modules, and on one whose modules call thousands of others: none of them
   keeps the loop busy for long. `make stress` runs it. */
#include "processes.h"
#include "support.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { MODULES = 2000, CALLERS = 2, CALLS = 4000, CALLED_NAME_BYTES = 200 };

/* ---- projects ---- */

static void write_modules(struct world *world, unsigned version) {
    for (unsigned i = 0; i < MODULES; i++) {
        char name[64], text[160];
        snprintf(name, sizeof name, "many/src/m%u.erl", i);
        snprintf(text, sizeof text, "-module(m%u).\n-export([f/0]).\nf() -> {%u, m%u:f()}.\n", i, version, i / 2);
        world_file(world, name, text);
    }
}

static void write_callers(struct world *world) {
    for (unsigned i = 0; i < CALLERS; i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        char name[64];
        snprintf(name, sizeof name, "calls/src/c%u.erl", i);
        buf_printf(&text, "-module(c%u).\n-export([f/0]).\nf() ->\n", i);
        for (unsigned k = 0; k < CALLS; k++) buf_printf(&text, "  d%0*u_%u:f(),\n", CALLED_NAME_BYTES, k, i);
        buf_append_string(&text, "  ok.\n");
        world_file(world, name, buf_string(&text));
    }
}

/* ---- the loop's turns ---- */

static json_t *loop_of(struct world *world, json_t **ret_health) {
    *ret_health = world_op(world, "health", "{}");
    return json_object_get(*ret_health, "loop");
}

/* Of this daemon, since it began. */
static void assert_no_long_turn(struct world *world, const char *after) {
    json_t *health, *loop = loop_of(world, &health);
    json_int_t count = json_integer_value(json_object_get(loop, "turns_over_5ms"));
    if (count > 0) {
        CLEANUP_FREE char *worst = json_dumps(json_object_get(loop, "worst"), JSON_COMPACT);
        fail_msg("%lld turns of the loop took over 5 ms, after %s: %s", (long long)count, after, worst);
    }
    json_decref(health);
}

static void do_all_of_these(struct world *world, const char *id, const char *source) {
    static const char *const of_id[] = {"info", "versions", "stats", "reload", "list", "restart"};
    static const char *const of_source[] = {"compile", "compile", "scan", "deps"};
    world_do(world, "create", "{s:s, s:s, s:i, s:{s:s}}", "id", id, "source", source, "memory_bytes", 1 << 30, "limit",
             "atoms", "1000000");
    assert_no_long_turn(world, "create");
    for (size_t i = 0; i < ARRAY_SIZE(of_id); i++) {
        bool is_of_all = strcmp(of_id[i], "list") == 0;
        world_do(world, of_id[i], is_of_all ? "{}" : "{s:s}", "id", id);
        assert_no_long_turn(world, of_id[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(of_source); i++) {
        const char *name = i < 2 ? "source" : i == 2 ? "path" : "target";
        world_do(world, of_source[i], "{s:s}", name, source);
        assert_no_long_turn(world, of_source[i]);
    }
}

static void change_all_of_it(struct world *world) {
    write_modules(world, 2);
    world_do(world, "reload", "{s:s, s:b}", "id", "many", "dry_run", 1);
    assert_no_long_turn(world, "a dry reload");
    world_do(world, "reload", "{s:s, s:b, s:i}", "id", "many", "wait", 1, "probation_ms", 100);
    assert_no_long_turn(world, "a reload");
    world_do(world, "versions", "{s:s}", "id", "many");
    world_do(world, "versions", "{s:s, s:b}", "id", "many", "summary", 1);
    world_do(world, "export", "{s:s, s:s}", "id", "many", "module", "m1");
    assert_no_long_turn(world, "versions");
    world_do(world, "rollback", "{s:s, s:s}", "id", "many", "module", "m1");
    assert_no_long_turn(world, "a rollback");
}

/* What the next one has restored is as large. */
static void restart_daemon(struct world *world) {
    process_end(world_pid(world, "daemon.lock"), SIGKILL);
    world_do(world, "info", "{s:s}", "id", "many");
    assert_no_long_turn(world, "a daemon's start");
}

static void no_operation_keeps_the_loop_busy(void **state) {
    struct world *world = *state;
    char many[PATH_MAX], calls[PATH_MAX];
    write_modules(world, 1);
    write_callers(world);
    snprintf(many, sizeof many, "%s", world_path(world, "many"));
    snprintf(calls, sizeof calls, "%s", world_path(world, "calls"));
    do_all_of_these(world, "many", many);
    do_all_of_these(world, "calls", calls);
    change_all_of_it(world);
    restart_daemon(world);
    world_destroy(world, "many");
    world_destroy(world, "calls");
    assert_no_long_turn(world, "destroy");
}

static int open_world(void **state) {
    *state = world_open(NULL);
    return 0;
}

static int close_world(void **state) {
    world_close(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_operation_keeps_the_loop_busy)};
    return cmocka_run_group_tests(tests, open_world, close_world);
}
