/* Tests the addresses known for a host name: how long they are kept, and which are dropped first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/network/names.h"

static struct jail_host host(uint8_t last) {
    return (struct jail_host){.bits = 32, .address = {1, 2, 3, last}};
}

static bool told(struct known_addresses *known, uint8_t last, uint64_t now_ms) {
    struct jail_host one = host(last);
    return known_addresses_update(known, &one, 1, now_ms);
}

static void what_is_told_is_known(void **state) {
    struct known_addresses known = {0};
    struct jail_host both[] = {host(1), host(2)};
    (void)state;
    assert_false(known_addresses_update(&known, NULL, 0, 5));
    assert_true(known_addresses_update(&known, both, 2, 5));
    assert_int_equal(known.count, 2);
    assert_false(told(&known, 2, 6));
    assert_int_equal(known.count, 2);
    both[1].is_v6 = true; /* another one, though its first bytes are the same */
    assert_true(known_addresses_update(&known, both, 2, 7));
    assert_int_equal(known.count, 3);
}

static void what_was_told_long_ago_is_forgotten(void **state) {
    struct known_addresses known = {0};
    (void)state;
    told(&known, 1, 1000);
    told(&known, 2, 1000 + NAME_KEPT_MS / 2);
    assert_false(told(&known, 2, 1000 + NAME_KEPT_MS));
    assert_true(told(&known, 2, 1001 + NAME_KEPT_MS));
    assert_int_equal(known.count, 1);
    assert_int_equal(known.hosts[0].address[3], 2);
}

static void the_oldest_give_way(void **state) {
    struct known_addresses known = {0};
    struct jail_host many[NAME_ADDRESSES_MAX + 4];
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(many); i++) many[i] = host((uint8_t)i);
    for (uint8_t i = 0; i < NAME_ADDRESSES_MAX; i++) told(&known, i, 100u + i);
    assert_true(told(&known, 200, 300));
    assert_int_equal(known.count, NAME_ADDRESSES_MAX);
    assert_false(told(&known, 1, 301));
    assert_true(told(&known, 0, 302)); /* which had gone */
    assert_true(known_addresses_update(&known, many, ARRAY_SIZE(many), 400));
    assert_int_equal(known.count, NAME_ADDRESSES_MAX);
}

static void the_newest_are_chosen(void **state) {
    struct known_addresses known = {0};
    struct jail_host newest[NAME_ADDRESSES_MAX];
    (void)state;
    for (uint8_t i = 0; i < 6; i++) told(&known, i, 100u + i);
    told(&known, 0, 200);
    assert_int_equal(known_addresses_newest(&known, 2, newest), 2);
    assert_true(newest[0].address[3] + newest[1].address[3] == 5); /* the first, told again, and the last */
    assert_int_equal(known_addresses_newest(&known, 16, newest), 6);
    assert_int_equal(known_addresses_newest(&known, 0, newest), 0);
}

/* A name that stands for many addresses leaves the others theirs. */
static void each_name_has_its_part(void **state) {
    size_t parts[5];
    (void)state;
    names_share((const size_t[]){16, 16, 16, 16, 16}, 5, 64, parts);
    assert_memory_equal(parts, ((const size_t[]){16, 12, 12, 12, 12}), sizeof parts);
    names_share((const size_t[]){16, 1, 0, 2, 16}, 5, 24, parts);
    assert_memory_equal(parts, ((const size_t[]){16, 1, 0, 2, 5}), sizeof parts);
    names_share((const size_t[]){3}, 1, 64, parts);
    assert_int_equal(parts[0], 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_told_is_known),  cmocka_unit_test(what_was_told_long_ago_is_forgotten),
        cmocka_unit_test(the_oldest_give_way),    cmocka_unit_test(the_newest_are_chosen),
        cmocka_unit_test(each_name_has_its_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
