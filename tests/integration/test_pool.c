/* Nodes that are booted ahead of time: taken by sandboxes, gone with a killed daemon, never left behind. */
#include <signal.h>
#include <stdlib.h>

#include "processes.h"
#include "support.h"

static bool one_waits(void *data) {
    json_t *health = world_op(data, "health", NULL);
    bool waits = json_integer_value(json_object_get(health, "warm_nodes")) == 1;
    json_decref(health);
    return waits;
}

static void wait_for_one(struct world *world) {
    assert_true(wait_until(one_waits, world, WORLD_DEADLINE_MS));
}

static void assert_evaluates(struct world *world, const char *code, const char *expected) {
    CLEANUP_FREE char *text = world_eval_text(world, "a", "erlang", code);
    assert_string_equal(text, expected);
}

static void assert_total_is_the_sum(json_t *timing) {
    static const char *const steps[] = {"opened_us", "compiled_us", "scanned_us", "node_us", "started_us", "saved_us"};
    json_int_t sum = 0, total = json_integer_value(json_object_get(timing, "total_us"));
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        json_int_t step = json_integer_value(json_object_get(timing, steps[i]));
        assert_true(step > 0);
        sum += step;
    }
    assert_true(sum <= total && total - sum < (json_int_t)ARRAY_SIZE(steps));
}

/* Which it had while it waited, with the profile's bounds. */
static void assert_has_egress(json_t *sandbox) {
    json_t *used = json_object_get(json_object_get(sandbox, "usage"), "network_in_bytes");
    json_t *rate = json_object_get(json_object_get(sandbox, "limits"), "network_rate_bytes");
    assert_true(json_is_integer(used));
    assert_int_equal(json_integer_value(rate), 1 << 20);
}

/* Its rule over what is written is on the root, since its /data came later. All else is read-only still. */
static void assert_nothing_else_is_writable(struct world *world) {
    assert_evaluates(world,
                     "[P || P <- [\"/x\", \"/app/x\", \"/mnt/x\", \"/dev/x\", \"/dev/urandom/x\", \"/sandbox/x\", "
                     "\"/sandbox/control/x\", \"/sandbox/boot/x\", \"/proc/x\", \"/proc/self/comm\", "
                     "\"/proc/self/mem\", \"/proc/self/oom_score_adj\", \"/proc/1/mem\", "
                     "code:which(lists), code:which(counter)], element(1, file:open(P, [read, write, raw])) =:= ok "
                     "orelse file:make_dir(P ++ \"d\") =:= ok]",
                     "[]");
    assert_evaluates(world, "[file:list_dir(\"/proc/1/root\"), file:list_dir(\"/proc/1/fd\")]",
                     "[{error,eacces},{error,eacces}]");
}

/* As good as one that was booted for it: files, variables, limits, and the wall. */
static void a_sandbox_takes_it(struct world *world) {
    json_t *sandbox =
        world_op(world, "create", "{s:s, s:s, s:b, s:{s:s}, s:{s:s}, s:I, s:I}", "id", "a", "source",
                 EXAMPLES "/counter_erl", "timing", 1, "env", "COLOUR", "gr\xc3\xbcn", "limit", "network_rate", "1M",
                 "disk_bytes", (json_int_t)(1 << 20), "memory_bytes", (json_int_t)(48 << 20));
    json_t *timing = json_object_get(sandbox, "timing");
    assert_string_equal(json_string_value(json_object_get(timing, "node")), "warm");
    assert_total_is_the_sum(timing);
    assert_has_egress(sandbox);
    json_decref(sandbox);
    assert_evaluates(world, "os:getenv(\"COLOUR\")", "\"gr\xc3\xbcn\"");
    assert_evaluates(world, "counter:increment(7)", "7");
    assert_evaluates(world, "element(2, file:write_file(\"/tmp/x\", binary:copy(<<0>>, 1048577)))", "enospc");
    assert_evaluates(world, "element(2, file:write_file(\"/data/x\", binary:copy(<<0>>, 16777216)))", "enospc");
    assert_evaluates(world, "file:write_file(\"kept\", <<\"1\">>)", "ok");
    assert_evaluates(world, "file:delete(\"/data/x\")", "ok");
    assert_evaluates(world, "element(2, file:write_file(\"/app/counter_erl/x\", <<>>))", "erofs");
    assert_nothing_else_is_writable(world);
    uint64_t before = world_now(world);
    free(world_try_eval(world, "a", "erlang", "os:cmd(\"id\")", 2000));
    json_decref(world_wait_event(world, before, &(struct event_pattern){"violation", "a", "what", "execve"}));
}

static void nodes_wait_for_sandboxes(void **state) {
    struct world *world = world_open(NULL);
    (void)state;
    wait_for_one(world);
    a_sandbox_takes_it(world);
    wait_for_one(world);
    /* The next daemon knows the sandbox, and nothing of the node that waits: it ends that one and boots another. */
    process_end(world_pid(world, "daemon.lock"), SIGKILL);
    wait_for_one(world);
    assert_evaluates(world, "counter:value()", "7");
    json_decref(world_op(world, "restart", "{s:s}", "id", "a"));
    assert_evaluates(world, "{counter:value(), os:getenv(\"COLOUR\")}", "{7,\"gr\xc3\xbcn\"}");
    assert_evaluates(world, "{file:read_file(\"/data/kept\"), file:get_cwd()}", "{{ok,<<\"1\">>},{ok,\"/data\"}}");
    world_close(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nodes_wait_for_sandboxes)};
    setenv("SANDBOX_WARM_NODES", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
