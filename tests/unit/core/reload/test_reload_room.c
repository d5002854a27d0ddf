/* Tests how much of the daemon's memory the BEAM files of reloads may take. */
#include "core/stage.h"

#include "core/reload/reload_job.h"

enum { MIB = 1 << 20, RELOADS_MAX = 64, USER = 1000 };

struct rooms {
    struct engine engine;
    struct sandbox sandbox;
    struct request request;
    struct reload_job reloads[RELOADS_MAX];
};

static struct reload_job *reload_of(struct rooms *rooms, size_t i) {
    rooms->sandbox.engine = &rooms->engine;
    rooms->request.caller.uid = USER;
    rooms->reloads[i].job = (struct job){.sandbox = &rooms->sandbox, .request = &rooms->request};
    return &rooms->reloads[i];
}

static struct rooms *open_rooms(void) {
    struct rooms *rooms = calloc(1, sizeof *rooms);
    assert_non_null(rooms);
    return rooms;
}

/* It can't be loaded: nothing goes to a node in pieces. */
static void no_reload_reads_more_than_a_node_takes(void **state) {
    (void)state;
    struct rooms *rooms = open_rooms();
    struct reload_job *reload = reload_of(rooms, 0);
    struct error error;
    assert_int_equal(reload_room_take(reload, &error), 0);
    assert_int_equal(reload_room_count(reload, 30 * MIB, &error), 0);
    reload_room_settle(reload);
    assert_int_equal(reload_room_take(reload, &error), 0); /* for its next path */
    assert_int_equal(reload_room_count(reload, 30 * MIB, &error), 0);
    assert_true(reload_room_count(reload, 1, &error) < 0);
    assert_int_equal(error.code, E_TOO_LARGE);
    reload_room_give(reload);
    assert_null(rooms->engine.with_room);
    free(rooms);
}

static void reloads_share_a_bounded_memory(void **state) {
    (void)state;
    struct rooms *rooms = open_rooms();
    struct error error;
    uint64_t held = 0;
    size_t count = 0;
    while (count < RELOADS_MAX && reload_room_take(reload_of(rooms, count), &error) == 0)
        held += rooms->reloads[count++].room_bytes;
    assert_in_range(count, 4, RELOADS_MAX - 1);
    assert_in_range(held, 200 * MIB, 256 * MIB);
    assert_int_equal(error.code, E_LIMIT);
    struct reload_job *last = &rooms->reloads[count - 1];
    assert_true(reload_room_count(last, last->room_bytes + 1, &error) < 0); /* it has less than a whole share */
    assert_int_equal(error.code, E_LIMIT);
    reload_room_give(&rooms->reloads[0]);
    assert_int_equal(reload_room_take(reload_of(rooms, count), &error), 0);
    for (size_t i = 0; i <= count; i++) reload_room_give(&rooms->reloads[i]);
    assert_null(rooms->engine.with_room);
    free(rooms);
}

static void what_was_not_read_is_free_again(void **state) {
    (void)state;
    struct rooms *rooms = open_rooms();
    struct error error;
    for (size_t i = 0; i < RELOADS_MAX; i++) {
        struct reload_job *reload = reload_of(rooms, i);
        assert_int_equal(reload_room_take(reload, &error), 0);
        assert_int_equal(reload_room_count(reload, 64 << 10, &error), 0);
        reload_room_settle(reload);
        assert_int_equal(reload->room_bytes, 64 << 10);
    }
    for (size_t i = 0; i < RELOADS_MAX; i++) reload_room_give(&rooms->reloads[i]);
    free(rooms);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_reload_reads_more_than_a_node_takes),
        cmocka_unit_test(reloads_share_a_bounded_memory),
        cmocka_unit_test(what_was_not_read_is_free_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
