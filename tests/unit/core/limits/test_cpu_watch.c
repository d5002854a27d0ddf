/* Tests that a node which works flat out yields to others that work, whatever its agent does. The node is a real one,
   its launcher and its agent are played; a folder stands for its group, and a timer for the work that is counted there.
 */
#include <sys/stat.h>

#include "core/node_scene.h"
#include "core/sandbox/sandbox.h"
#include "steady_clock.h"

enum { WORK_EVERY_MS = 5 };

static void write_number(const char *folder, uint64_t number) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/cpuacct.usage", folder);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fprintf(file, "%llu\n", (unsigned long long)number) > 0);
    assert_int_equal(fclose(file), 0);
}

struct cpu_scene {
    struct scene *scene;
    uv_timer_t work; /* of one core, all the time */
    struct sandbox *neighbour;
    struct node neighbours_node; /* nothing but a group: it is never asked for anything */
    bool is_alone;               /* else the neighbour uses a hundredth of a core */
    bool busy_waits;             /* the other one, all the time */
    uint64_t neighbour_ns;
};

static void on_work(uv_timer_t *timer) {
    struct cpu_scene *cpu = timer->data;
    if (!cpu->is_alone) cpu->neighbour_ns += WORK_EVERY_MS * 10000;
    if (cpu->busy_waits) cpu->scene->sandbox->metering.busy_wait.total_ns = uv_hrtime();
    write_number(cpu->scene->stage->home, uv_hrtime());
    write_number(cpu->scene->sandbox->node->cpu_cgroup, uv_hrtime());
    write_number(cpu->neighbours_node.cpu_cgroup, cpu->neighbour_ns);
}

static void give_group(struct sandbox *sandbox, const char *home, const char *name) {
    snprintf(sandbox->node->cpu_cgroup, PATH_MAX, "%s/%s", home, name);
    assert_int_equal(mkdir(sandbox->node->cpu_cgroup, 0700), 0);
    sandbox->status = STATUS_RUNNING;
    sandbox->metering.next_ms = 1;
}

static int set_up(void **state) {
    struct cpu_scene *cpu = calloc(1, sizeof *cpu);
    struct scene *scene = cpu->scene = scene_open();
    struct error error;
    cpu->neighbour = sandbox_new(&scene->engine, "n", &error);
    cpu->neighbours_node = (struct node){.host = scene->sandbox->node->host, .state = NODE_BOOTING};
    cpu->neighbour->node = &cpu->neighbours_node;
    give_group(scene->sandbox, scene->stage->home, "group");
    give_group(cpu->neighbour, scene->stage->home, "neighbour");
    uv_timer_init(scene->engine.loop, &cpu->work);
    cpu->work.data = cpu;
    uv_timer_start(&cpu->work, on_work, 0, WORK_EVERY_MS);
    cpu_watch_open(&scene->engine);
    cpu_watch_begin(&scene->engine);
    steady_clock_skip_waits(true);
    *state = cpu;
    return 0;
}

static int tear_down(void **state) {
    struct cpu_scene *cpu = *state;
    struct scene *scene = cpu->scene;
    steady_clock_skip_waits(false);
    cpu_watch_stop(&scene->engine);
    uv_close((uv_handle_t *)&scene->engine.cpu_watch.timer, NULL);
    uv_close((uv_handle_t *)&cpu->work, NULL);
    cpu->neighbour->node = NULL;
    sandbox_remove(cpu->neighbour);
    int result = scene_close(scene);
    free(cpu);
    return result;
}

static void who_works_yields(void **state) {
    struct scene *scene = ((struct cpu_scene *)*state)->scene;
    RUN_UNTIL(scene->stage, node_yields(scene->sandbox->node));
    assert_int_equal(scene->stage->yields, 1);
}

static void who_is_alone_does_not(void **state) {
    enum { LOOKS_MS = 300 };
    struct cpu_scene *cpu = *state;
    struct scene *scene = cpu->scene;
    const struct metering *metering = &scene->sandbox->metering;
    cpu->is_alone = true;
    RUN_UNTIL(scene->stage, metering->pace.is_flat_out);
    uint64_t since_ns = metering->cpu_watch_ns;
    RUN_UNTIL(scene->stage, metering->cpu_watch_ns > since_ns + LOOKS_MS * 1000000ULL);
    assert_int_equal(scene->stage->yields, 0);
    cpu->is_alone = false;
    RUN_UNTIL(scene->stage, node_yields(scene->sandbox->node));
    assert_false(node_yields(cpu->neighbour->node));
    cpu->is_alone = true;
    scene->engine.cpu_watch.company.alone_ns = METER_CALM_MS * 1000000ULL; /* as if for long */
    RUN_UNTIL(scene->stage, !scene->engine.cpu_watch.company.is_there && !node_yields(scene->sandbox->node));
}

/* It works, so no other node may busy-wait, but it does not work flat out. */
static void a_node_told_to_busy_wait_does_not(void **state) {
    enum { LOOKS_MS = 300 };
    struct cpu_scene *cpu = *state;
    struct scene *scene = cpu->scene;
    const struct metering *metering = &scene->sandbox->metering;
    cpu->busy_waits = true;
    RUN_UNTIL(scene->stage, metering->cpu_watch_ns != 0);
    uint64_t since_ns = metering->cpu_watch_ns;
    RUN_UNTIL(scene->stage, metering->cpu_watch_ns > since_ns + LOOKS_MS * 1000000ULL);
    assert_false(metering->pace.is_flat_out);
    assert_int_equal(scene->stage->yields, 0);
    assert_int_equal(scene->engine.cpu_watch.workers, 2);
    assert_true(metering->is_counted);
    scene->sandbox->metering.busy_wait.busy_looks = BUSY_WAIT_LOOKS - 1; /* as if for long */
    RUN_UNTIL(scene->stage, metering->busy_wait.is_held_up);
    cpu->busy_waits = false;
    RUN_UNTIL(scene->stage, node_yields(scene->sandbox->node));
}

/* It could choose to have none. */
static void without_an_agent_too(void **state) {
    struct scene *scene = ((struct cpu_scene *)*state)->scene;
    close(take_fd(&scene->agent));
    RUN_UNTIL(scene->stage, !node_is_ready(scene->sandbox->node));
    RUN_UNTIL(scene->stage, node_yields(scene->sandbox->node));
}

static void while_its_code_is_changed_too(void **state) {
    struct scene *scene = ((struct cpu_scene *)*state)->scene;
    scene->sandbox->status = STATUS_RELOADING;
    RUN_UNTIL(scene->stage, node_yields(scene->sandbox->node));
}

/* What it idled with is old: its metering need not wait for the next look, which is seconds away. */
static void what_begins_to_work_is_looked_at_soon(void **state) {
    struct scene *scene = ((struct cpu_scene *)*state)->scene;
    struct metering *metering = &scene->sandbox->metering;
    metering_open(&scene->engine);
    metering->idle_looks = 3;
    metering->next_ms = uv_now(scene->engine.loop) + METER_IDLE_MAX_MS;
    RUN_UNTIL(scene->stage, metering->idle_looks == 0);
    assert_true(metering->now.values[METER_CPU] >= 1);
    metering_stop(&scene->engine);
    uv_close((uv_handle_t *)&scene->engine.meter_timer, NULL);
}

/* A launcher that fails is asked again, but not at each look. */
static void what_fails_is_not_asked_for_at_each_look(void **state) {
    enum { LOOKS_MS = 600 };
    struct scene *scene = ((struct cpu_scene *)*state)->scene;
    scene->stage->fail_yielding = true;
    RUN_UNTIL(scene->stage, scene->stage->yields == 1);
    uint64_t begun_ms = clock_monotonic_ms();
    RUN_UNTIL(scene->stage, clock_monotonic_ms() - begun_ms > LOOKS_MS);
    assert_in_range(scene->stage->yields, 1, 2);
    scene->stage->fail_yielding = false;
    RUN_UNTIL(scene->stage, scene->sandbox->node->yielding.yields);
}

struct full_turns {
    uv_check_t check;
    const struct metering *of[2];
    uint64_t looked_ns[2];     /* at the end of the last turn */
    unsigned looks_in_one_max; /* turn */
};

static void fill_turn(uv_check_t *check) {
    struct full_turns *turns = check->data;
    uint64_t begun_ns = uv_hrtime();
    unsigned looks = 0;
    for (size_t i = 0; i < ARRAY_SIZE(turns->of); i++) {
        looks += turns->looked_ns[i] != turns->of[i]->cpu_watch_ns;
        turns->looked_ns[i] = turns->of[i]->cpu_watch_ns;
    }
    if (looks > turns->looks_in_one_max) turns->looks_in_one_max = looks;
    loop_note(check->loop, "request", NULL);
    while (uv_hrtime() - begun_ns < 2 * LOOP_TURN_FULL_US * 1000ULL) {
    }
}

/* Nodes are many, and each is a file to read. In a full turn there is time for one of them. */
static void a_look_takes_as_many_turns_as_it_needs(void **state) {
    struct cpu_scene *cpu = *state;
    struct scene *scene = cpu->scene;
    struct full_turns turns = {.of = {&scene->sandbox->metering, &cpu->neighbour->metering}};
    struct loop_watch *watch;
    assert_int_equal(loop_watch_open(scene->engine.loop, &watch, NULL), 0);
    uv_check_init(scene->engine.loop, &turns.check);
    turns.check.data = &turns;
    uv_check_start(&turns.check, fill_turn);
    stage_begin_wait(scene->stage);
    while (!node_yields(scene->sandbox->node) && !scene->stage->late)
        uv_run(scene->engine.loop, UV_RUN_NOWAIT); /* one turn, with timers once */
    stage_end_wait(scene->stage);
    assert_false(scene->stage->late);
    assert_int_equal(turns.looks_in_one_max, 1);
    uv_close((uv_handle_t *)&turns.check, NULL);
    uv_run(scene->engine.loop, UV_RUN_NOWAIT);
    loop_watch_close(watch);
}

int main(void) {
#define SET(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        SET(who_works_yields),
        SET(what_begins_to_work_is_looked_at_soon),
        SET(who_is_alone_does_not),
        SET(a_node_told_to_busy_wait_does_not),
        SET(without_an_agent_too),
        SET(while_its_code_is_changed_too),
        SET(what_fails_is_not_asked_for_at_each_look),
        SET(a_look_takes_as_many_turns_as_it_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
