/* The pool on a stage: nodes that the test boots by hand, taken, dying, doubted. */
#include "node/stage.h"

#include <signal.h>

#include "node/pool.h"

struct keeper {
    struct stage *stage;
    struct pool *pool;
    unsigned woken;
    bool closed;
};

static void on_wake(void *data) {
    ((struct keeper *)data)->woken++;
}

static void on_closed(void *data) {
    ((struct keeper *)data)->closed = true;
}

static void open_pool(struct stage *stage, struct keeper *keeper, uint32_t nodes_max) {
    struct pool_settings settings = {.nodes_max = nodes_max};
    struct error error;
    *keeper = (struct keeper){.stage = stage};
    assert_int_equal(pool_open(&stage->host, &settings, on_wake, keeper, &keeper->pool, &error), 0);
    pool_begin(keeper->pool, &stage_toolchain);
}

static void close_pool(struct keeper *keeper) {
    struct stage *stage = keeper->stage;
    pool_quiesce(keeper->pool);
    RUN_UNTIL(stage, pool_is_quiet(keeper->pool));
    pool_close(keeper->pool, on_closed, keeper);
    RUN_UNTIL(stage, keeper->closed);
}

static const struct node_app app = {"counter", "/builds/x/counter"};

static struct node_spec spec_of(const char *profile) {
    const struct jail_profile *found = jail_profile_find(profile);
    return (struct node_spec){.kind = NODE_APPLICATION,
                              .toolchain = &stage_toolchain,
                              .profile = found,
                              .limits = found->limits,
                              .apps = &app,
                              .app_count = 1};
}

static struct node *start(struct keeper *keeper, const struct node_spec *spec, bool *ret_is_warm) {
    struct node *node;
    struct error error;
    if (pool_start_node(keeper->pool, spec, &stage_handler, keeper->stage, &node, ret_is_warm, &error) < 0)
        fail_msg("%s", error.detail);
    return node;
}

static struct node *newest(struct stage *stage, struct node *const *others, size_t count) {
    size_t at = 0;
    void *node;
    while (map_next(&stage->host.nodes, &at, NULL, &node)) {
        bool is_other = false;
        for (size_t i = 0; i < count; i++) is_other |= others[i] == node;
        if (!is_other) return node;
    }
    return NULL;
}

/* The first demand is served by a node that boots for it; another is booted to wait, and says hello. */
static struct node *make_one_wait(struct keeper *keeper, const struct node_spec *spec, struct node **ret_first,
                                  int *ret_agent) {
    struct stage *stage = keeper->stage;
    bool is_warm = true;
    *ret_first = start(keeper, spec, &is_warm);
    assert_false(is_warm);
    RUN_UNTIL(stage, stage->spawns == 2);
    struct node *waiting = newest(stage, ret_first, 1);
    RUN_UNTIL(stage, node_os_pid(waiting) != 0);
    *ret_agent = agent_dial(stage, waiting);
    agent_hello(*ret_agent, PROTOCOL_VERSION, node_secret(waiting));
    RUN_UNTIL(stage, pool_ready(keeper->pool) == 1);
    stage_expect(stage, ""); /* it is not reported */
    return waiting;
}

static void one_that_waits_is_taken_once(void **state) {
    struct stage *stage = *state;
    struct keeper keeper;
    struct node *first;
    bool is_warm;
    int agent;
    struct node_spec spec = spec_of("medium");
    open_pool(stage, &keeper, 1);
    struct node *waiting = make_one_wait(&keeper, &spec, &first, &agent);
    struct node *taken = start(&keeper, &spec, &is_warm);
    assert_true(is_warm);
    assert_ptr_equal(taken, waiting);
    assert_int_equal(pool_ready(keeper.pool), 0);
    stage_expect(stage, ""); /* never from inside */
    struct node *third = start(&keeper, &spec, &is_warm);
    assert_false(is_warm);
    assert_ptr_not_equal(third, taken);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "ready ");
    assert_non_null(strstr(stage->equipped, node_name(taken)));
    assert_non_null(strstr(stage->equipped, "\nlimit memory 134217728\n"));
    assert_non_null(strstr(stage->equipped, "\nlimit os_tasks 128\n"));
    assert_non_null(strstr(stage->equipped, "\nbind /builds/x/counter /app/counter\n"));
    close_pool(&keeper);
    assert_ptr_equal(node_find(&stage->host, node_name(taken)), taken); /* it is not the pool's any more */
    close(agent);
}

static void one_that_boots_is_taken_too(void **state) {
    struct stage *stage = *state;
    struct keeper keeper;
    bool is_warm;
    struct node_spec spec = spec_of("low");
    open_pool(stage, &keeper, 1);
    struct node *first = start(&keeper, &spec, &is_warm);
    RUN_UNTIL(stage, stage->spawns == 2);
    struct node *booting = newest(stage, &first, 1);
    RUN_UNTIL(stage, node_os_pid(booting) != 0);
    assert_ptr_equal(start(&keeper, &spec, &is_warm), booting);
    assert_true(is_warm);
    RUN_UNTIL(stage, stage->equipped[0]);
    assert_non_null(strstr(stage->equipped, "\nbind-exec /builds/x/counter /app/counter\n"));
    RUN_UNTIL(stage, !booting->is_being_equipped);
    stage_expect(stage, "");
    int agent = agent_dial(stage, booting);
    agent_hello(agent, PROTOCOL_VERSION, node_secret(booting));
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "ready ");
    close_pool(&keeper);
    close(agent);
}

static void other_kinds_do_not_fit(void **state) {
    struct stage *stage = *state;
    struct keeper keeper;
    struct node *first;
    bool is_warm = true;
    int agent;
    struct node_spec spec = spec_of("low");
    open_pool(stage, &keeper, 1);
    make_one_wait(&keeper, &spec, &first, &agent);
    struct node_spec other = spec;
    other.env = json_pack("{s:s}", "A", "b"); /* native code would not see it */
    start(&keeper, &other, &is_warm);
    assert_false(is_warm);
    json_decref(other.env);
    other = spec_of("high");
    is_warm = true;
    start(&keeper, &other, &is_warm);
    assert_false(is_warm);
    assert_int_equal(pool_ready(keeper.pool), 1);
    close_pool(&keeper);
    close(agent);
}

/* Whatever is heard of one that waits is a reason not to hand it out. */
static void one_that_does_anything_is_ended(void **state) {
    struct stage *stage = *state;
    struct keeper keeper;
    struct node *first;
    int agent;
    struct node_spec spec = spec_of("medium");
    open_pool(stage, &keeper, 1);
    make_one_wait(&keeper, &spec, &first, &agent);
    struct buf event = BUF_INIT;
    term_put_version(&event);
    term_put_tuple(&event, 3);
    term_put_atom(&event, "event");
    term_put_atom(&event, "output");
    term_put_string(&event, "boo");
    agent_send(agent, &event);
    RUN_UNTIL(stage, pool_ready(keeper.pool) == 0 && stage->burials == 1);
    RUN_UNTIL(stage, pool_is_quiet(keeper.pool));
    assert_int_equal(keeper.woken, 1);
    assert_int_equal(stage->spawns, 2); /* the next one waits for a while */
    stage_expect(stage, "");
    close_pool(&keeper);
    close(agent);
}

static void one_that_dies_is_replaced_later(void **state) {
    struct stage *stage = *state;
    struct keeper keeper;
    struct node *first;
    int agent;
    struct node_spec spec = spec_of("medium");
    open_pool(stage, &keeper, 1);
    struct node *waiting = make_one_wait(&keeper, &spec, &first, &agent);
    uint64_t died_ms = uv_now(&stage->loop);
    kill(node_os_pid(waiting), SIGKILL);
    RUN_UNTIL(stage, pool_is_quiet(keeper.pool));
    RUN_UNTIL(stage, stage->spawns == 3);
    assert_true(uv_now(&stage->loop) - died_ms >= POOL_BACKOFF_MIN_MS);
    stage_expect(stage, "");
    close_pool(&keeper);
    close(agent);
}

/* Its taker hears of it as of any node that ends. */
static void one_that_can_not_be_equipped_is_ended(void **state) {
    struct stage *stage = *state;
    struct keeper keeper;
    struct node *first;
    bool is_warm;
    int agent;
    struct node_spec spec = spec_of("medium");
    open_pool(stage, &keeper, 1);
    make_one_wait(&keeper, &spec, &first, &agent);
    stage->refuse_equipping = true;
    start(&keeper, &spec, &is_warm);
    assert_true(is_warm);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "gone:killed/node_failed ");
    close_pool(&keeper);
    close(agent);
}

static void without_room_none_waits(void **state) {
    struct stage *stage = *state;
    struct keeper keeper;
    bool is_warm = true;
    struct node_spec spec = spec_of("medium");
    open_pool(stage, &keeper, 0);
    struct node *node = start(&keeper, &spec, &is_warm);
    assert_false(is_warm);
    RUN_UNTIL(stage, node_os_pid(node) != 0);
    assert_int_equal(stage->spawns, 1);
    assert_true(pool_is_quiet(keeper.pool));
    close_pool(&keeper);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_STAGE(one_that_waits_is_taken_once),    ON_STAGE(one_that_boots_is_taken_too),
        ON_STAGE(other_kinds_do_not_fit),          ON_STAGE(one_that_does_anything_is_ended),
        ON_STAGE(one_that_dies_is_replaced_later), ON_STAGE(one_that_can_not_be_equipped_is_ended),
        ON_STAGE(without_room_none_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
