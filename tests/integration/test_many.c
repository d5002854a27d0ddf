/* A hundred sandboxes at once, and two whose modules have the same names. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "leftovers.h"
#include "support.h"

/* Each create and each restart boots a virtual machine, a seventh of a second of one core: `make stress` sets
   MANY_SANDBOXES to 100. */
enum { SANDBOXES = 3, MARKED = 3, CLIENTS = 8, ID_BYTES = 16 };

/* ---- the same for all of them, by clients that take the next one each ---- */

struct batch {
    struct world *world;
    int (*act)(struct world *world, const char *id, struct sbx_error *reterr);
    int count; /* of the first ones */
    atomic_int next;
    atomic_int failures;
    char first_failure[256]; /* of the client that failed first */
};

static void name_of(int number, char ret[ID_BYTES]) {
    snprintf(ret, ID_BYTES, "s%03d", number);
}

static void *run_client(void *data) {
    struct batch *batch = data;
    for (int i; (i = atomic_fetch_add(&batch->next, 1)) < batch->count;) {
        char id[ID_BYTES];
        struct sbx_error error = {0};
        name_of(i, id);
        if (batch->act(batch->world, id, &error) == 0) continue;
        if (atomic_fetch_add(&batch->failures, 1) == 0)
            snprintf(batch->first_failure, sizeof batch->first_failure, "%s: %.200s", id, error.detail);
        sbx_error_clear(&error);
    }
    return NULL;
}

static void for_first(struct world *world, int count, const char *what,
                      int (*act)(struct world *world, const char *id, struct sbx_error *reterr)) {
    struct batch batch = {.world = world, .act = act, .count = count};
    pthread_t threads[CLIENTS];
    uint64_t begun_ms = clock_monotonic_ms();
    for (int i = 0; i < CLIENTS; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_client, &batch), 0);
    for (int i = 0; i < CLIENTS; i++) pthread_join(threads[i], NULL);
    if (batch.failures) fail_msg("%d of %d not %s: %s", batch.failures, count, what, batch.first_failure);
    print_message("%d %s in %llu ms\n", count, what, (unsigned long long)(clock_monotonic_ms() - begun_ms));
}

static int create(struct world *world, const char *id, struct sbx_error *reterr) {
    return sbx_create(world_client(world), id, EXAMPLES "/counter_erl", NULL, NULL, reterr);
}

static int mark(struct world *world, const char *id, struct sbx_error *reterr) {
    char code[64];
    snprintf(code, sizeof code, "counter:increment(%d)", atoi(id + 1) + 1);
    return sbx_eval(world_client(world), id, code, NULL, NULL, reterr);
}

static int restart(struct world *world, const char *id, struct sbx_error *reterr) {
    return sbx_restart(world_client(world), id, true, NULL, reterr);
}

static int destroy(struct world *world, const char *id, struct sbx_error *reterr) {
    return sbx_destroy(world_client(world), id, reterr);
}

/* ---- the registry ---- */

/* Lists are in the order of ids, so that each is there once or the order breaks. */
static void assert_listed(struct world *world, int count, int restarted) {
    json_t *list = world_op(world, "list", NULL), *sandbox;
    size_t i;
    assert_int_equal(json_array_size(list), count);
    json_array_foreach(list, i, sandbox) {
        char id[ID_BYTES];
        name_of((int)i, id);
        assert_string_equal(json_string_value(json_object_get(sandbox, "id")), id);
        assert_string_equal(json_string_value(json_object_get(sandbox, "status")), "running");
        assert_int_equal(json_integer_value(json_object_get(sandbox, "restart_count")), (int)i < restarted);
    }
    json_decref(list);
    struct footprint *footprint = footprint_take(world_home(world));
    assert_int_equal(footprint_node_count(footprint), count);
    footprint_free(footprint);
}

/* Each has counted for itself. */
static void assert_apart(struct world *world) {
    for (int i = 0; i < MARKED; i++) {
        char id[ID_BYTES], expected[16];
        name_of(i, id);
        snprintf(expected, sizeof expected, "%d", i + 1);
        CLEANUP_FREE char *value = world_eval_text(world, id, NULL, "counter:value()");
        assert_string_equal(value, expected);
    }
}

static void many_live_at_once(void **state) {
    struct world *world = *state;
    const char *wanted = getenv("MANY_SANDBOXES");
    int count = wanted ? atoi(wanted) : SANDBOXES, restarted = wanted ? count : (count + 1) / 2;
    assert_true(count >= MARKED);
    for_first(world, count, "created", create);
    assert_listed(world, count, 0);
    for_first(world, MARKED, "evaluated", mark);
    assert_apart(world);
    for_first(world, restarted, "restarted", restart);
    assert_listed(world, count, restarted);
    for_first(world, count, "destroyed", destroy);
    assert_listed(world, 0, 0);
}

static int open_world(void **state) {
    *state = world_open("warm-nodes = 0\nspare-compilers = 0\ncompilers-kept = 0\n"); /* nodes are counted */
    return 0;
}

static int close_world(void **state) {
    world_close(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_live_at_once),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
