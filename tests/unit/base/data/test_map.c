/* Tests the hash map: entries, copied keys, its size after many removals, and removal while walking. */
#include "base/base_test.h"

#include <stdio.h>

static void test_entries_are_set_replaced_and_removed(void **state) {
    (void)state;
    struct map map = MAP_INIT;
    int a = 1, b = 2;
    assert_null(map_get(&map, "k"));
    assert_null(map_remove(&map, "k"));
    assert_true(map_set(&map, "k", &a));
    assert_ptr_equal(map_get(&map, "k"), &a);
    assert_true(map_set(&map, "k", &b));
    assert_int_equal(map.count, 1);
    assert_ptr_equal(map_remove(&map, "k"), &b);
    assert_null(map_get(&map, "k"));
    assert_int_equal(map.count, 0);
    assert_false(map_set(&map, "k", NULL));
    assert_int_equal(map.count, 0);
    map_free(&map);
}

static void test_keys_are_copied(void **state) {
    (void)state;
    struct map map = MAP_INIT;
    int value;
    char key[] = "key";
    assert_true(map_set(&map, key, &value));
    key[0] = 'x';
    assert_ptr_equal(map_get(&map, "key"), &value);
    assert_null(map_get(&map, "xey"));
    map_free(&map);
}

enum { MANY = 5000 };

static void name_key(int number, char ret[16]) {
    snprintf(ret, 16, "key-%d", number);
}

static void test_many_entries_are_found(void **state) {
    (void)state;
    struct map map = MAP_INIT;
    static int values[MANY];
    char key[16];
    for (int i = 0; i < MANY; i++) {
        name_key(i, key);
        assert_true(map_set(&map, key, &values[i]));
    }
    for (int i = 0; i < MANY; i += 2) {
        name_key(i, key);
        assert_ptr_equal(map_remove(&map, key), &values[i]);
    }
    assert_int_equal(map.count, MANY / 2);
    for (int i = 0; i < MANY; i++) {
        name_key(i, key);
        assert_ptr_equal(map_get(&map, key), i % 2 ? &values[i] : NULL);
    }
    map_free(&map);
}

/* A map that only ever holds one entry stays small, however many came and went. */
static void test_removed_entries_leave_no_trace(void **state) {
    (void)state;
    struct map map = MAP_INIT;
    int value;
    char key[16];
    for (int i = 0; i < MANY; i++) {
        name_key(i, key);
        assert_true(map_set(&map, key, &value));
        assert_ptr_equal(map_remove(&map, key), &value);
    }
    assert_int_equal(map.count, 0);
    assert_true(map.capacity <= 64);
    map_free(&map);
}

static void test_walking_may_remove(void **state) {
    (void)state;
    struct map map = MAP_INIT;
    static int values[100];
    bool seen[100] = {false};
    char key[16];
    for (int i = 0; i < 100; i++) {
        name_key(i, key);
        assert_true(map_set(&map, key, &values[i]));
    }
    size_t at = 0, visits = 0;
    const char *name;
    void *value;
    while (map_next(&map, &at, &name, &value)) {
        size_t index = (size_t)((int *)value - values);
        assert_false(seen[index]);
        seen[index] = true;
        visits++;
        assert_ptr_equal(map_remove(&map, name), value);
    }
    assert_int_equal(visits, 100);
    assert_int_equal(map.count, 0);
    at = 0;
    assert_false(map_next(&map, &at, NULL, NULL));
    map_free(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries_are_set_replaced_and_removed),
        cmocka_unit_test(test_keys_are_copied),
        cmocka_unit_test(test_many_entries_are_found),
        cmocka_unit_test(test_removed_entries_leave_no_trace),
        cmocka_unit_test(test_walking_may_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
