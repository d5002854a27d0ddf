/* Keys take turns; within a key the first comes first. */
#include "loop_test.h"

#include <string.h>

struct named {
    struct fair_item item;
    char name;
};

static void put(struct fair *fair, uint64_t key, struct named *named, char name) {
    named->name = name;
    assert_true(fair_put(fair, key, &named->item));
}

static char take(struct fair *fair) {
    struct fair_item *item = fair_take(fair, NULL, NULL);
    return item ? ((struct named *)item)->name : '-';
}

static void keys_take_turns(void **state) {
    (void)state;
    struct fair fair;
    struct named items[7];
    char order[9] = "";
    fair_init(&fair);
    for (size_t i = 0; i < 5; i++) put(&fair, 1, &items[i], (char)('a' + i));
    put(&fair, 2, &items[5], 'x');
    put(&fair, 3, &items[6], 'y');
    assert_int_equal(fair.count, 7);
    assert_int_equal(fair_count(&fair, 1), 5);
    assert_int_equal(fair_count(&fair, 3), 1);
    assert_int_equal(fair_count(&fair, 4), 0);
    for (size_t i = 0; i < 8; i++) order[i] = take(&fair);
    assert_string_equal(order, "axybcde-");
    assert_int_equal(fair.count, 0);
    assert_int_equal(fair_count(&fair, 1), 0);
}

/* A key that comes back goes behind those who wait. */
static void coming_back_is_no_way_ahead(void **state) {
    (void)state;
    struct fair fair;
    struct named items[4];
    fair_init(&fair);
    put(&fair, 1, &items[0], 'a');
    put(&fair, 2, &items[1], 'x');
    assert_int_equal(take(&fair), 'a');
    put(&fair, 1, &items[2], 'b');
    assert_int_equal(take(&fair), 'x');
    assert_int_equal(take(&fair), 'b');
}

static void what_is_removed_does_not_come(void **state) {
    (void)state;
    struct fair fair;
    struct named items[3];
    fair_init(&fair);
    put(&fair, 1, &items[0], 'a');
    put(&fair, 1, &items[1], 'b');
    put(&fair, 2, &items[2], 'x');
    fair_remove(&fair, &items[0].item);
    fair_remove(&fair, &items[2].item);
    fair_remove(&fair, &items[2].item);
    assert_int_equal(fair.count, 1);
    assert_int_equal(take(&fair), 'b');
    assert_int_equal(take(&fair), '-');
}

static bool is_even(const void *data, uint64_t key) {
    (void)data;
    return key % 2 == 0;
}

static void keys_that_may_not_wait_on(void **state) {
    (void)state;
    struct fair fair;
    struct named items[2];
    fair_init(&fair);
    put(&fair, 1, &items[0], 'a');
    put(&fair, 2, &items[1], 'x');
    assert_ptr_equal(fair_take(&fair, is_even, NULL), &items[1].item);
    assert_null(fair_take(&fair, is_even, NULL));
    assert_int_equal(take(&fair), 'a');
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_take_turns),
        cmocka_unit_test(coming_back_is_no_way_ahead),
        cmocka_unit_test(what_is_removed_does_not_come),
        cmocka_unit_test(keys_that_may_not_wait_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
