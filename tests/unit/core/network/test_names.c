/* Tests when the service asks what names stand for. No server is asked for these: one name is an address, so it needs
   no list of hosts either, and the other can't exist. */
#include "core/network/names.h"

#include "core/sandbox/sandbox.h"
#include "core/stage.h"

enum {
    STARTS_MS = 30,
    ASKED_AGAIN_MS = 5000, /* while a name has no address at all */
    AWAITED_MS = 2000,     /* an answer, by a start */
    DEADLINE_MS = 10000,
    POOL_THREADS = 2,
};

#define NOBODYS "a-label-that-is-longer-than-the-sixty-three-bytes-which-a-label-may-have-and-so-is-never-sent.invalid"

struct scene {
    void *stage;
    struct engine *engine;
    struct guard_profile profile;
    struct sandbox *sandbox;
    bool closed;
};

static int set_up(void **state) {
    static struct scene scene;
    struct error error;
    scene = (struct scene){
        .profile.jail = {.network = JAIL_NETWORK_OUTGOING,
                         .egress = {.names = {{.name = "127.0.0.1"}, {.name = NOBODYS}}, .name_count = 2}}};
    stage_setup(&scene.stage);
    scene.engine = &((struct stage *)scene.stage)->engine;
    scene.engine->profiles = (struct guard_profiles){&scene.profile, 1};
    scene.engine->host.features.guarantees = 1u << JAIL_GUARANTEE_EGRESS;
    scene.sandbox = sandbox_new(scene.engine, "s", &error);
    scene.sandbox->config.profile = &scene.profile;
    assert_int_equal(names_take(scene.engine, &scene.engine->profiles, &error), 0);
    *state = &scene;
    return 0;
}

static void on_closed(void *data) {
    *(bool *)data = true;
}

static int tear_down(void **state) {
    struct scene *scene = *state;
    names_close(scene->engine->names, on_closed, &scene->closed);
    sandbox_remove(scene->sandbox);
    int result = stage_teardown(&scene->stage);
    assert_true(scene->closed);
    return result;
}

static void answer_all(struct scene *scene) {
    do {
        uv_run(scene->engine->loop, UV_RUN_ONCE);
    } while (scene->engine->loop->active_reqs.count > 0);
}

static void find_last_timer(uv_handle_t *handle, void *data) {
    uint64_t *last_ms = data;
    if (handle->type != UV_TIMER || !uv_is_active(handle)) return;
    uint64_t due_ms = uv_now(handle->loop) + uv_timer_get_due_in((uv_timer_t *)handle);
    if (due_ms > *last_ms) *last_ms = due_ms;
}

/* Nothing else waits for longer. */
static uint64_t asked_again_at_ms(struct scene *scene) {
    uint64_t last_ms = 0;
    uv_walk(scene->engine->loop, find_last_timer, &last_ms);
    return last_ms;
}

static void names_are_asked_for_again_however_many_start(void **state) {
    struct scene *scene = *state;
    answer_all(scene);
    uint64_t begun_ms = uv_now(scene->engine->loop), due_ms = asked_again_at_ms(scene);
    assert_in_range(due_ms - begun_ms, ASKED_AGAIN_MS / 2, ASKED_AGAIN_MS);
    while (uv_now(scene->engine->loop) < begun_ms + STARTS_MS) {
        assert_true(names_await(scene->sandbox));
        names_forgo(scene->sandbox);
        answer_all(scene);
        assert_int_equal(asked_again_at_ms(scene), due_ms);
    }
}

static void what_is_known_is_not_waited_for(void **state) {
    struct scene *scene = *state;
    struct jail_host hosts[JAIL_RESOLVED_MAX];
    answer_all(scene);
    assert_true(names_addresses(scene->sandbox, hosts) >= 1);
    scene->profile.jail.egress.name_count = 1;
    assert_false(names_await(scene->sandbox));
    scene->engine->host.features.guarantees = 0; /* where there is no egress, no name matters */
    assert_int_equal(names_addresses(scene->sandbox, hosts), 0);
}

/* ---- without an answer ---- */

struct jam {
    uv_work_t works[POOL_THREADS];
    uv_sem_t gate;
};

static void wait_at_gate(uv_work_t *work) {
    uv_sem_wait(&((struct jam *)work->data)->gate);
}

static void on_gate_passed(uv_work_t *work, int status) {
    (void)work, (void)status;
}

/* Questions are asked on the pool, whose threads are all busy. */
static void jam_pool(struct scene *scene, struct jam *jam) {
    assert_int_equal(uv_sem_init(&jam->gate, 0), 0);
    for (size_t i = 0; i < POOL_THREADS; i++) {
        jam->works[i].data = jam;
        assert_int_equal(uv_queue_work(scene->engine->loop, &jam->works[i], wait_at_gate, on_gate_passed), 0);
    }
}

static void free_pool(struct scene *scene, struct jam *jam) {
    for (size_t i = 0; i < POOL_THREADS; i++) uv_sem_post(&jam->gate);
    answer_all(scene);
    uv_sem_destroy(&jam->gate);
}

static void on_started(void *data, const struct error *error) {
    struct sandbox *sandbox = data;
    assert_int_equal(error->code, E_INVALID); /* it has no build */
    sandbox->queue.is_held = true;
}

static void a_start_does_not_wait_for_ever(void **state) {
    struct scene *scene = *state;
    struct jam jam;
    answer_all(scene);
    jam_pool(scene, &jam);
    scene->sandbox->tree.started = on_started;
    scene->sandbox->tree.started_data = scene->sandbox;
    assert_true(names_await(scene->sandbox));
    uint64_t begun_ms = clock_monotonic_ms();
    while (!scene->sandbox->queue.is_held && clock_monotonic_ms() - begun_ms < DEADLINE_MS)
        uv_run(scene->engine->loop, UV_RUN_ONCE);
    assert_true(scene->sandbox->queue.is_held);
    assert_in_range(clock_monotonic_ms() - begun_ms, AWAITED_MS - 10, DEADLINE_MS);
    assert_int_equal(scene->sandbox->network.names_due_ms, 0);
    free_pool(scene, &jam);
}

int main(void) {
    setenv("UV_THREADPOOL_SIZE", "2", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_are_asked_for_again_however_many_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_known_is_not_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_start_does_not_wait_for_ever, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
