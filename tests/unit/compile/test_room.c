/* How much of the daemon's memory compilations may hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "compile/compile_internal.h"

enum { MIB = 1 << 20, USERS = 40 };

static void users_share_a_bounded_memory(void **state) {
    (void)state;
    struct room_part parts[USERS] = {0}, root = {0};
    struct compile_room *room = room_open();
    struct error error;
    uint64_t held = 0;
    for (size_t i = 0; i < USERS; i++) {
        room_begin(room, &parts[i], (uid_t)(1000 + i), true);
        while (room_take(&parts[i], 4 * MIB, &error) == 0) continue;
        assert_int_equal(error.code, E_LIMIT);
        held += parts[i].bytes;
    }
    assert_int_equal(parts[0].bytes, COMPILE_ROOM_BYTES / 4);
    assert_in_range(parts[1].bytes, COMPILE_ROOM_BYTES / 8, COMPILE_ROOM_BYTES / 4);
    assert_in_range(held, COMPILE_ROOM_BYTES / 2, COMPILE_ROOM_BYTES - COMPILE_ROOM_BYTES / 8);
    room_begin(room, &root, 0, false);
    assert_int_equal(room_take(&root, COMPILE_ROOM_BYTES / 8, &error), 0);
    room_end(&root);
    for (size_t i = 0; i < USERS; i++) room_end(&parts[i]);
    room_close(room);
}

static void compilations_of_a_user_share_its_part(void **state) {
    (void)state;
    struct room_part first = {0}, second = {0};
    struct compile_room *room = room_open();
    struct error error;
    room_begin(room, &first, 1000, true);
    room_begin(room, &second, 1000, true);
    assert_int_equal(room_take(&first, COMPILE_ROOM_BYTES / 4, &error), 0);
    assert_true(room_take(&second, 1, &error) < 0);
    assert_int_equal(second.bytes, 0);
    room_give(&first, 10 * MIB);
    assert_int_equal(room_take(&second, 10 * MIB, &error), 0);
    room_end(&first);
    assert_int_equal(room_take(&second, 100 * MIB, &error), 0);
    room_close(room); /* its parts may outlive it */
    room_end(&second);
    room_end(&second); /* which is no part any more */
}

static void files_of_a_build_take_room(void **state) {
    (void)state;
    struct room_part part = {0};
    struct compile_room *room = room_open();
    struct file_list list = {.room = &part};
    struct error error;
    room_begin(room, &part, 1000, true);
    assert_int_equal(file_list_add_copy(&list, "a/priv/one", "one", 3, &error), 0);
    assert_int_equal(part.bytes, 3);
    assert_int_equal(room_take(&part, COMPILE_ROOM_BYTES / 4 - 4, &error), 0);
    assert_true(file_list_add_copy(&list, "a/priv/two", "two", 3, &error) < 0);
    assert_int_equal(error.code, E_LIMIT);
    assert_int_equal(list.count, 1);
    file_list_free(&list);
    room_end(&part);
    room_close(room);
}

static void answers_take_room_and_give_it_back(void **state) {
    (void)state;
    struct room_part part = {0};
    struct compile_room *room = room_open();
    struct answer_budget budget = whole_answer_budget, wanted = {.bytes = 20 * MIB, .names = 3};
    struct error error;
    room_begin(room, &part, 1000, true);
    budget.room = &part;
    assert_int_equal(budget_take(&budget, &wanted, &error), 0);
    assert_int_equal(part.bytes, 20 * MIB);
    assert_int_equal(room_take(&part, COMPILE_ROOM_BYTES / 4 - 30 * MIB, &error), 0);
    assert_true(budget_take(&budget, &wanted, &error) < 0);
    assert_int_equal(error.code, E_LIMIT);
    assert_int_equal(budget.names, whole_answer_budget.names - 3);
    budget_give(&budget, &wanted);
    assert_int_equal(part.bytes, COMPILE_ROOM_BYTES / 4 - 30 * MIB);
    room_end(&part);
    room_close(room);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users_share_a_bounded_memory),
        cmocka_unit_test(compilations_of_a_user_share_its_part),
        cmocka_unit_test(files_of_a_build_take_room),
        cmocka_unit_test(answers_take_room_and_give_it_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
