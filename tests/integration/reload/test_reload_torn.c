/* What takes too long for every run: programs and VMs killed at random moments of reloads, rollbacks and restarts, and
   ten versions of twelve modules up and down again. */
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "circle.h"
#include "processes.h"
#include "tally.h"

enum { ROUNDS = 60, MARKS_MAX = ROUNDS + 5, ROLLBACK_US = 20000 };

struct course {
    struct world *world;
    unsigned seed;
    int mark;                /* of the code that runs */
    int next;                /* that no code had yet */
    int numbers[MARKS_MAX];  /* the version that each mark is; 0: none yet */
    int previous[MARKS_MAX]; /* the mark that ran before it */
    uint64_t reload_us;      /* how long an undisturbed one takes */
};

static const char *write_mark(struct course *course, int mark) {
    char more[512];
    course->previous[mark] = course->mark;
    snprintf(more, sizeof more,
             "version() -> %d.\n"
             "code_change({down, _}, _, _) -> {ok, {mark, %d}};\n"
             "code_change(_, _, _) -> {ok, {mark, %d}}.",
             mark, course->mark, mark);
    return tally_write(course->world, &(struct tally){.version = "0", .init = "{ok, {mark, version()}}", .more = more});
}

static int current_version(struct world *world) {
    json_t *list = world_op(world, "versions", "{s:s, s:s}", "id", "a", "module", "tally"), *item;
    int found = 0;
    size_t i;
    json_array_foreach(list, i, item) {
        if (json_is_true(json_object_get(item, "current")))
            found = (int)json_integer_value(json_object_get(item, "version"));
    }
    json_decref(list);
    return found;
}

/* ---- one of the two, in every process, and the registry says which ---- */

struct outcome {
    struct course *course;
    int wanted; /* the mark that the change was to bring */
    int mark;   /* that runs */
    char text[512];
};

static int highest(const struct course *course) {
    int number = 0;
    for (int i = 0; i < course->next; i++)
        if (course->numbers[i] > number) number = course->numbers[i];
    return number;
}

static int expected_number(const struct course *course, int mark) {
    return course->numbers[mark] ? course->numbers[mark] : highest(course) + 1;
}

static bool fits(struct outcome *outcome, int mark) {
    char expected[128];
    snprintf(expected, sizeof expected, "[%d,{mark,%d},{mark,%d},{mark,%d}]", mark, mark, mark, mark);
    if (strcmp(outcome->text, expected) != 0) return false;
    outcome->mark = mark;
    return current_version(outcome->course->world) == expected_number(outcome->course, mark);
}

static bool is_settled(void *data) {
    struct outcome *outcome = data;
    CLEANUP_FREE char *seen =
        world_try_eval(outcome->course->world, "a", NULL,
                       "[tally:version() | [sys:get_state(P) || P <- [tally, spare, third]]].", WORLD_DEADLINE_MS);
    snprintf(outcome->text, sizeof outcome->text, "%s", seen);
    return fits(outcome, outcome->course->mark) || fits(outcome, outcome->wanted);
}

static void assert_one_of_two(struct course *course, int wanted) {
    struct outcome outcome = {.course = course, .wanted = wanted};
    if (!wait_until(is_settled, &outcome, WORLD_DEADLINE_MS))
        fail_msg("from %d to %d: %s runs, version %d is current", course->mark, wanted, outcome.text,
                 current_version(course->world));
    course->numbers[outcome.mark] = expected_number(course, outcome.mark);
    print_message(" → %s\n", outcome.mark == wanted ? "new" : "old");
    course->mark = outcome.mark;
}

/* ---- who is killed ---- */

static void kill_service(struct course *course) {
    pid_t daemon = world_pid(course->world, "daemon.lock");
    process_end(world_pid(course->world, "launcher.lock"), SIGKILL);
    process_end(daemon, SIGKILL);
}

static void kill_daemon(struct course *course) {
    tally_kill_daemon(course->world);
}

static void kill_vm(struct course *course) {
    json_t *info = world_info(course->world, "a");
    process_end((pid_t)json_integer_value(json_object_get(info, "os_pid")), SIGKILL);
    json_decref(info);
}

struct victim {
    const char *name;
    void (*kill)(struct course *course);
};

static const struct victim victims[] = {{"daemon", kill_daemon}, {"service", kill_service}, {"VM", kill_vm}};

/* ---- rounds ---- */

/* A rollback compiles nothing: it is over before long, so that most moments are in the middle of it. */
static struct tally_change *begin_change(struct course *course, int *ret_wanted, uint64_t *ret_longest_us) {
    char params[128];
    bool goes_back = course->previous[course->mark] != course->mark && rand_r(&course->seed) % 3 != 0;
    if (!goes_back) {
        *ret_wanted = course->next++;
        *ret_longest_us = course->reload_us * 3 / 2;
        write_mark(course, *ret_wanted);
        return tally_begin(course->world, "reload", "{\"id\": \"a\", \"probation_ms\": 100}");
    }
    *ret_wanted = course->previous[course->mark];
    *ret_longest_us = ROLLBACK_US;
    snprintf(params, sizeof params, "{\"id\": \"a\", \"module\": \"tally\", \"to\": %d, \"probation_ms\": 100}",
             course->numbers[*ret_wanted]);
    return tally_begin(course->world, "rollback", params);
}

static bool has_ended(void *data) {
    json_t *info = world_info(data, "a");
    bool ended = strcmp(text_of(info, "status"), "error") == 0;
    json_decref(info);
    return ended;
}

static void run_round(struct course *course, const struct victim *victim) {
    int wanted;
    uint64_t longest_us;
    struct tally_change *change = begin_change(course, &wanted, &longest_us);
    uint64_t moment_us = (uint64_t)rand_r(&course->seed) % longest_us;
    print_message("%d to %d, %s killed after %llu us", course->mark, wanted, victim->name,
                  (unsigned long long)moment_us);
    ppoll(NULL, 0,
          &(struct timespec){.tv_sec = (time_t)(moment_us / 1000000), .tv_nsec = (long)(moment_us % 1000000 * 1000)},
          NULL);
    victim->kill(course);
    free(tally_end(change));
    if (victim->kill == kill_vm) {
        assert_true(wait_until(has_ended, course->world, WORLD_DEADLINE_MS));
        world_do(course->world, "restart", "{s:s}", "id", "a");
    }
    assert_one_of_two(course, wanted);
}

/* What the next daemon reads in the registry may be older than what was answered: the node knows. */
static void a_restart_begins_with_what_was_loaded(struct course *course) {
    for (int i = 0; i < 3; i++) {
        int wanted = course->next++;
        write_mark(course, wanted);
        world_do(course->world, "reload", "{s:s}", "id", "a");
        tally_kill_daemon(course->world);
        world_do(course->world, "restart", "{s:s}", "id", "a");
        assert_one_of_two(course, wanted);
        assert_int_equal(course->mark, wanted);
    }
}

static void one_version_at_any_moment(void **state) {
    struct world *world = world_open(NULL);
    struct course course = {.world = world, .next = 1, .seed = (unsigned)(clock_monotonic_ms() ^ (uint64_t)getpid())};
    (void)state;
    json_decref(world_create(world, "a", write_mark(&course, 0), "medium"));
    course.numbers[0] = 1;
    uint64_t began_ms = clock_monotonic_ms();
    uint64_t longest_us;
    int wanted;
    CLEANUP_FREE char *code = tally_end(begin_change(&course, &wanted, &longest_us));
    assert_string_equal(code, "");
    course.reload_us = (clock_monotonic_ms() - began_ms) * 1000;
    assert_one_of_two(&course, wanted);
    for (int i = 0; i < ROUNDS; i++) run_round(&course, &victims[i % (int)ARRAY_SIZE(victims)]);
    a_restart_begins_with_what_was_loaded(&course);
    world_destroy(world, "a");
    world_close(world);
}

/* ---- restarts ---- */

/* One that is busy keeps the states from being had for a while. */
static struct tally_change *begin_slow_restart(struct world *world) {
    free(world_eval_text(world, "a", NULL, "gen_server:call(tally, add), gen_server:cast(spare, wait)."));
    uint64_t before = world_now(world);
    struct tally_change *change = tally_begin(world, "restart", "{\"id\": \"a\"}");
    world_wait_status(world, before, "a", "stopping");
    return change;
}

static void restarts_survive_deaths(void **state) {
    struct world *world = world_open(NULL);
    (void)state;
    json_decref(world_create(world, "a", tally_write_version(world, "one", NULL), "medium"));
    uint64_t before = world_now(world);
    struct tally_change *change = begin_slow_restart(world);
    tally_kill_daemon(world);
    free(tally_end(change));
    world_do(world, "list", NULL); /* by then there is another */
    json_decref(world_wait_event(world, before, &(struct event_pattern){.kind = "restarted", .sandbox_id = "a"}));
    tally_assert_answers(world, "{one,2}"); /* the next daemon went on, with the states */

    change = begin_slow_restart(world);
    kill_vm(&(struct course){.world = world});
    CLEANUP_FREE char *code = tally_end(change);
    assert_string_equal(code, "");
    tally_assert_answers(world, "{one,1}");

    /* Files that are no code count from the next start on, whichever daemon that has. */
    tally_write_version(world, "two", NULL);
    world_do(world, "reload", "{s:s}", "id", "a");
    world_file(world, "app/priv/colour", "blue");
    json_t *result = world_op(world, "reload", "{s:s}", "id", "a");
    assert_string_equal(text_of(result, "status"), "no_change");
    json_decref(result);
    tally_kill_daemon(world);
    tally_assert_answers(world, "{two,2}");
    world_do(world, "restart", "{s:s}", "id", "a");
    tally_assert_eval(world, "file:read_file(code:priv_dir(app) ++ \"/colour\").", "{ok,<<\"blue\">>}");
    tally_assert_answers(world, "{two,3}");
    world_destroy(world, "a");
    world_close(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restarts_survive_deaths),
        cmocka_unit_test(ten_versions_up_and_down),
        cmocka_unit_test(one_version_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
