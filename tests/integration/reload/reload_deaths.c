/* The daemon or the VM killed in the middle of a change: exactly one of the two versions runs afterwards, in every
   process, and the registry says which. */
#include <signal.h>

#include "processes.h"
#include "reload_cases.h"

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

/* Two versions that say which they are. The second runs. */
struct versions {
    int old, new;
};

static int bring(struct world *world, const char *mark) {
    char more[128];
    snprintf(more, sizeof more, "version() -> %s.\ncode_change(_, State, _) -> {ok, State}.", mark);
    tally_write_version(world, mark, more);
    return tally_reload(world);
}

static struct versions bring_two(struct world *world) {
    struct versions ret = {.old = bring(world, "d1")};
    ret.new = bring(world, "d2");
    return ret;
}

static void assert_runs(struct world *world, const char *mark, int version) {
    struct sight sight = {.world = world};
    snprintf(sight.expected, sizeof sight.expected, "%s", mark);
    if (!wait_until(is_seen, &sight, WORLD_DEADLINE_MS)) fail_msg("%s runs, not %s", sight.seen, mark);
    free(sight.seen);
    tally_assert_current(world, version);
}

/* Before anything is loaded: a daemon that went away has changed its mind. */
void the_daemon_dies_while_processes_are_suspended(void **state) {
    struct world *world = ((struct reload_case *)*state)->world;
    struct versions versions = bring_two(world);
    free(world_eval_text(world, "a", NULL, "gen_server:cast(spare, wait)."));
    uint64_t before = world_now(world);
    struct tally_change *change = begin_rollback(world, versions.old, false);
    world_wait_status(world, before, "a", "reloading");
    tally_kill_daemon(world);
    assert_cut_short(change);
    free(world_eval_text(world, "a", NULL, "spare ! go_on."));
    assert_runs(world, "d2", versions.new);
}

/* It goes on without the daemon, and the next one hears of it. */
void the_daemon_dies_while_states_are_migrated(void **state) {
    struct world *world = ((struct reload_case *)*state)->world;
    struct versions versions = bring_two(world);
    struct tally_change *change = begin_rollback(world, versions.old, true);
    tally_wait_output(world, "held ", 3);
    tally_kill_daemon(world);
    assert_cut_short(change);
    free(world_eval_text(world, "a", NULL, LET_GO));
    assert_runs(world, "d1", versions.old);
}

void the_daemon_dies_when_it_has_told(void **state) {
    struct world *world = ((struct reload_case *)*state)->world;
    struct versions versions = bring_two(world);
    uint64_t before = world_now(world);
    struct tally_change *change = begin_rollback(world, versions.old, false);
    json_decref(world_wait_event(world, before, &(struct event_pattern){.kind = "reloaded", .sandbox_id = "a"}));
    tally_kill_daemon(world);
    free(tally_end(change));
    assert_runs(world, "d1", versions.old);
}

/* The registry has the version from before, and a restart runs that. */
void the_vm_dies_while_states_are_migrated(void **state) {
    struct world *world = ((struct reload_case *)*state)->world;
    struct versions versions = bring_two(world);
    uint64_t before = world_now(world);
    json_t *info = world_info(world, "a");
    struct tally_change *change = begin_rollback(world, versions.old, true);
    tally_wait_output(world, "held ", 3); /* the log of an earlier daemon is gone */
    process_end((pid_t)json_integer_value(json_object_get(info, "os_pid")), SIGKILL);
    json_decref(info);
    CLEANUP_FREE char *code = tally_end(change);
    assert_string_equal(code, "node_failed");
    world_wait_status(world, before, "a", "error");
    tally_assert_current(world, versions.new);
    json_t *answer = world_op(world, "restart", "{s:s}", "id", "a");
    assert_string_equal(text_of(json_object_get(answer, "states"), "fresh"), "its VM had ended");
    json_decref(answer);
    assert_runs(world, "d2", versions.new);
}
