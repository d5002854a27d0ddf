/* The daemon or the VM killed in the middle of a change: exactly one of the two versions runs afterwards, in every
   process, and the registry says which. */
#include <signal.h>

#include "processes.h"
#include "tally.h"

/* Each state's migration waits for a message. */
#define HELD "fun(N, _, _) -> io:format(\\\"held \\\"), receive go_on -> N end end"
#define LET_GO "[P ! go_on || P <- [tally, spare, third]]."

static struct tally_change *begin_rollback(struct world *world, int to, bool is_held) {
    char params[512];
    snprintf(params, sizeof params,
             "{\"id\": \"a\", \"module\": \"tally\", \"to\": %d, \"suspend_timeout_ms\": 20000, "
             "\"migrate_timeout_ms\": 20000%s}",
             to, is_held ? ", \"migrate\": [\"" HELD "\"]" : "");
    return tally_begin(world, "rollback", params);
}

static void assert_cut_short(struct tally_change *change) {
    CLEANUP_FREE char *code = tally_end(change);
    assert_string_not_equal(code, "");
}

struct sight {
    struct world *world;
    char expected[32];
    char *seen;
};

static bool is_seen(void *data) {
    struct sight *sight = data;
    free(sight->seen);
    sight->seen =
        world_try_eval(sight->world, "a", NULL,
                       "[gen_server:call(P, add) || P <- [tally, spare, third]], tally:version().", WORLD_DEADLINE_MS);
    return strcmp(sight->seen, sight->expected) == 0;
}

static void assert_runs(struct world *world, int version) {
    struct sight sight = {.world = world};
    snprintf(sight.expected, sizeof sight.expected, "%d", version);
    if (!wait_until(is_seen, &sight, WORLD_DEADLINE_MS)) fail_msg("%s runs, not %d", sight.seen, version);
    free(sight.seen);
    tally_assert_current(world, version);
}

/* Before anything is loaded: a daemon that went away has changed its mind. */
static void killed_while_processes_are_stopped(struct world *world, int version) {
    free(world_eval_text(world, "a", NULL, "gen_server:cast(spare, wait)."));
    uint64_t before = world_now(world);
    struct tally_change *change = begin_rollback(world, version - 1, false);
    world_wait_status(world, before, "a", "reloading");
    tally_kill_daemon(world);
    assert_cut_short(change);
    free(world_eval_text(world, "a", NULL, "spare ! go_on."));
    assert_runs(world, version);
}

/* It goes on without the daemon, and the next one hears of it. */
static void killed_while_states_are_migrated(struct world *world, int version) {
    struct tally_change *change = begin_rollback(world, version - 1, true);
    tally_wait_output(world, "held ", 3);
    tally_kill_daemon(world);
    assert_cut_short(change);
    free(world_eval_text(world, "a", NULL, LET_GO));
    assert_runs(world, version - 1);
}

static void killed_when_it_is_told(struct world *world, int version) {
    uint64_t before = world_now(world);
    struct tally_change *change = begin_rollback(world, version, false);
    json_decref(world_wait_event(world, before, &(struct event_pattern){.kind = "reloaded", .sandbox_id = "a"}));
    tally_kill_daemon(world);
    free(tally_end(change));
    assert_runs(world, version);
}

static void the_vm_is_killed(struct world *world, int version) {
    uint64_t before = world_now(world);
    json_t *info = world_info(world, "a");
    struct tally_change *change = begin_rollback(world, version - 1, true);
    tally_wait_output(world, "held ", 3); /* what the daemon before has heard is forgotten */
    process_end((pid_t)json_integer_value(json_object_get(info, "os_pid")), SIGKILL);
    json_decref(info);
    CLEANUP_FREE char *code = tally_end(change);
    assert_string_equal(code, "node_failed");
    world_wait_status(world, before, "a", "error");
    tally_assert_current(world, version);
    json_t *answer = world_op(world, "restart", "{s:s}", "id", "a");
    assert_string_equal(text_of(json_object_get(answer, "states"), "fresh"), "its VM had ended");
    json_decref(answer);
    assert_runs(world, version);
}

void deaths_leave_one_version(struct world *world, int version) {
    killed_while_processes_are_stopped(world, version);
    killed_while_states_are_migrated(world, version);
    killed_when_it_is_told(world, version);
    the_vm_is_killed(world, version);
}
