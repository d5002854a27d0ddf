/* Restarts with and without the states of the tree's processes. */
#include "reload_cases.h"

/* The lost state at a place, by how its reason begins. */
static void assert_lost(const json_t *states, const char *path, const char *reason) {
    json_t *lost = json_object_get(states, "lost"), *one;
    size_t i;
    json_array_foreach(lost, i, one) {
        if (string_equal(text_of(one, "path"), path) && string_starts(text_of(one, "reason"), reason)) return;
    }
    CLEANUP_FREE char *shown = json_dumps(states, JSON_COMPACT);
    fail_msg("%s was not lost because '%s': %s", path, reason, shown);
}

static json_t *restart(struct world *world, int kept) {
    json_t *answer = world_op(world, "restart", "{s:s}", "id", "a");
    json_t *states = json_incref(json_object_get(answer, "states"));
    assert_string_equal(text_of(answer, "status"), "running");
    assert_int_equal(json_integer_value(json_object_get(states, "kept")), kept);
    json_decref(answer);
    return states;
}

/* What each process has after its state has come is handled at once, so that a state it can't live with shows. */
static const struct tally careful = {
    .version = "careful",
    .init = "{ok, 0, {continue, look}}",
    .more = "handle_continue(look, N) ->\n"
            "    receive {system, _, {replace_state, _}} = Put -> self() ! Put, self() ! look\n"
            "    after 1000 -> ok end, {noreply, N}.\n"
            "handle_info(look, N) when is_number(N) -> {noreply, N}.\n"
            "code_change(_, State, _) -> {ok, State}.",
};

static void set_states(struct world *world, const char *spare, const char *third) {
    char code[512];
    snprintf(code, sizeof code,
             "[sys:replace_state(P, fun(_) -> S end) || {P, S} <- [{tally, 7}, {spare, %s}, {third, %s}]], ok.", spare,
             third);
    tally_assert_eval(world, code, "ok");
}

static struct world *bring_careful(struct reload_case *test) {
    tally_write(test->world, &careful);
    tally_reload(test->world);
    return test->world;
}

void some_states_are_kept(void **state) {
    struct world *world = bring_careful(*state);
    set_states(world, "poison", "self()");
    json_t *states = restart(world, 1);
    assert_lost(states, "third", "its state holds a process identifier");
    assert_lost(states, "spare", "the process ended with it");
    assert_true(json_is_null(json_object_get(states, "fresh")));
    json_decref(states);
    tally_assert_answers(world, "{careful,8}");
    tally_assert_eval(world, "[sys:get_state(P) || P <- [spare, third]].", "[0,0]");
}

/* Two that crash are more than their supervisor bears. */
void a_tree_that_does_not_start_starts_fresh(void **state) {
    struct world *world = bring_careful(*state);
    set_states(world, "poison", "poison");
    json_t *states = restart(world, 0);
    assert_true(string_starts(text_of(states, "fresh"), "the application did not start with the states: "));
    json_decref(states);
    tally_assert_answers(world, "{careful,1}");
}
