/* Five hundred modules rewritten at once, a thousand saves in a row, saves in the middle of compilations, lost events:
   in the end what runs is what lies on disk, with few compilations. */
#include "watch_stress.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "processes.h"
#include "tally.h"

enum { MODULES = 500, SAVES = 1000, QUEUE_EVENTS = 20000, PATIENCE_MS = 120000 };

static void save(struct world *world, int module, int value) {
    char name[64], text[128];
    snprintf(name, sizeof name, "app/src/m%d.erl", module);
    snprintf(text, sizeof text, "-module(m%d).\n-export([v/0]).\nv() -> %d.\n", module, value);
    world_file(world, name, text);
}

struct expectation {
    struct world *world;
    long sum;
};

static bool runs_what_is_saved(void *data) {
    const struct expectation *expected = data;
    char text[32];
    snprintf(text, sizeof text, "%ld", expected->sum);
    CLEANUP_FREE char *sum =
        world_eval_text(expected->world, "a", NULL,
                        "lists:sum([(list_to_atom(\"m\" ++ integer_to_list(I))):v() || I <- lists:seq(1, 500)])");
    return strcmp(sum, text) == 0;
}

static json_int_t reload_count(struct world *world) {
    json_t *status = world_op(world, "watch", "{s:s, s:s}", "id", "a", "action", "status");
    json_int_t count = json_integer_value(json_object_get(status, "reload_count"));
    assert_true(json_is_null(json_object_get(status, "failure")));
    json_decref(status);
    return count;
}

/* Wait until the sum of all modules is what was saved last; how many reloads that took. */
static void expect_sum(struct world *world, const char *what, long sum, json_int_t before, json_int_t most) {
    struct expectation expected = {world, sum};
    uint64_t began_ms = clock_monotonic_ms();
    if (!wait_until(runs_what_is_saved, &expected, PATIENCE_MS)) fail_msg("%s: not what was saved", what);
    json_int_t took = reload_count(world) - before;
    print_message("%s: %lld reloads, %llu ms after the last save\n", what, (long long)took,
                  (unsigned long long)(clock_monotonic_ms() - began_ms));
    if (took > most) fail_msg("%s: %lld reloads, at most %lld wanted", what, (long long)took, (long long)most);
}

static void a_branch_switch(struct world *world, int value, int most) {
    json_int_t before = reload_count(world);
    for (int i = 1; i <= MODULES; i++) save(world, i, value);
    expect_sum(world, "500 files rewritten", (long)MODULES * value, before, most);
}

static void saves_in_a_row(struct world *world) {
    json_int_t before = reload_count(world);
    for (int i = 1; i <= SAVES; i++) save(world, 1 + i % 10, i);
    long sum = (long)(MODULES - 10) * 3;
    for (int i = SAVES - 9; i <= SAVES; i++) sum += i;
    expect_sum(world, "1000 saves in a row", sum, before, 100);
}

static void saves_while_it_compiles(struct world *world) {
    json_int_t before = reload_count(world);
    for (int i = 0; i < 20; i++) {
        uint64_t now = world_now(world);
        save(world, 1, 5000 + 2 * i);
        json_decref(world_wait_event(
            world, now,
            &(struct event_pattern){.kind = "status", .sandbox_id = "a", .field = "to", .value = "reloading"}));
        save(world, 1, 5001 + 2 * i); /* in the middle */
        save(world, 2, 7000 + i);
    }
    long sum = 5001 + 2 * 19 + 7000 + 19 + (long)(MODULES - 10) * 3;
    for (int i = SAVES - 9; i <= SAVES; i++) sum += 1 + i % 10 > 2 ? i : 0;
    expect_sum(world, "saves in the middle of 20 reloads", sum, before, 45);
}

/* So many events that the kernel throws some away, and a save among them. */
static void lost_events(struct world *world) {
    json_int_t before = reload_count(world);
    char first[256], second[256];
    snprintf(first, sizeof first, "%s", world_path(world, "app/src/m3.erl"));
    snprintf(second, sizeof second, "%s", world_path(world, "app/src/m4.erl"));
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < QUEUE_EVENTS; i++) assert_int_equal(chmod(i % 2 ? first : second, i % 4 ? 0644 : 0600), 0);
        for (int i = 1; i <= MODULES; i++) save(world, i, 10 + round);
    }
    expect_sum(world, "five times 20000 events and 500 saves", (long)MODULES * 14, before, 30);
}

void many_saves_at_once(void **state) {
    struct world *world = world_open(NULL);
    (void)state;
    tally_write_version(world, "one", NULL);
    for (int i = 1; i <= MODULES; i++) save(world, i, 1);
    world_do(world, "create", "{s:s, s:s, s:b}", "id", "a", "source", world_path(world, "app"), "watch", 1);
    a_branch_switch(world, 2, 3);
    a_branch_switch(world, 3, 3);
    saves_in_a_row(world);
    saves_while_it_compiles(world);
    lost_events(world);
    world_destroy(world, "a");
    world_close(world);
}
