/* How much of the daemon's memory the states of restarts may take. */
#include "core/stage.h"

#include "core/policy/states_room.h"

enum { PARTS = 40, USER = 1000, OTHER = 1001 };

struct rooms {
    struct engine engine;
    struct states_room parts[PARTS];
    unsigned granted;
};

static void on_granted(void *data) {
    ((struct rooms *)data)->granted++;
}

static struct rooms *open_rooms(void) {
    struct rooms *rooms = calloc(1, sizeof *rooms);
    assert_non_null(rooms);
    return rooms;
}

static void take(struct rooms *rooms, size_t i, uid_t owner) {
    states_room_take(&rooms->engine, &rooms->parts[i], owner, on_granted, rooms);
}

static void close_rooms(struct rooms *rooms) {
    for (size_t i = PARTS; i-- > 0;) states_room_give(&rooms->parts[i]);
    assert_null(rooms->engine.with_states);
    free(rooms);
}

/* Without quotas, a user is bound by all there is. */
static void restarts_wait_for_room(void **state) {
    (void)state;
    struct rooms *rooms = open_rooms();
    const unsigned max = STATES_ROOM_BYTES / STATES_MAX_BYTES;
    for (size_t i = 0; i < PARTS; i++) take(rooms, i, USER);
    assert_in_range(rooms->granted, 1, max);
    unsigned before = rooms->granted;
    states_room_give(&rooms->parts[0]);
    assert_int_equal(rooms->granted, before + 1);
    states_room_give(&rooms->parts[PARTS - 1]); /* which only waits */
    assert_int_equal(rooms->granted, before + 1);
    states_room_settle(&rooms->parts[1], 0);
    assert_int_equal(rooms->granted, before + 2);
    close_rooms(rooms);
}

static void a_user_leaves_room_for_others(void **state) {
    (void)state;
    struct rooms *rooms = open_rooms();
    struct quota_rules *rules = calloc(1, sizeof *rules);
    assert_non_null(rules);
    quota_rules_init(rules, UINT64_C(4) << 30);
    const struct quotas_config config = {.rules = rules, .service_uid = 900};
    assert_int_equal(quotas_open(&config, &rooms->engine.config.quotas, NULL), 0);
    for (size_t i = 0; i < PARTS - 1; i++) take(rooms, i, USER);
    assert_int_equal(rooms->granted, STATES_ROOM_BYTES / 4 / STATES_MAX_BYTES);
    take(rooms, PARTS - 1, OTHER);
    assert_false(rooms->parts[PARTS - 1].is_waiting);
    struct quotas *quotas = rooms->engine.config.quotas;
    close_rooms(rooms);
    quotas_close(quotas);
    free(rules);
}

/* Restarts of what has little to keep are not held up by one another. */
static void little_takes_little(void **state) {
    (void)state;
    struct rooms *rooms = open_rooms();
    for (size_t i = 0; i < PARTS; i++) {
        take(rooms, i, USER);
        states_room_settle(&rooms->parts[i], 100000);
    }
    assert_int_equal(rooms->granted, PARTS);
    close_rooms(rooms);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restarts_wait_for_room),
        cmocka_unit_test(a_user_leaves_room_for_others),
        cmocka_unit_test(little_takes_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
