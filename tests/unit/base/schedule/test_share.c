/* Tests how much of a shared pool one user may hold, by how much all users hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/schedule/share.h"

static bool is_fair(uint64_t all, uint64_t used, uint64_t own) {
    return share_is_fair(&(struct share){all, used, own}, true);
}

/* How many each of so many users has once none may have one more. */
static uint64_t least_of(uint64_t all, size_t users) {
    uint64_t own[64] = {0}, used = 0, least;
    bool has_changed = true;
    while (has_changed) {
        has_changed = false;
        for (size_t i = 0; i < users; i++) {
            if (!is_fair(all, used + 1, own[i] + 1)) continue;
            own[i]++;
            used++;
            has_changed = true;
        }
    }
    least = own[0];
    for (size_t i = 1; i < users; i++) least = own[i] < least ? own[i] : least;
    return least;
}

/* 256: an eighth is kept, 32; another one is spare; 192 are common; 2 are little. */
static void one_alone_has_a_quarter(void **state) {
    (void)state;
    assert_int_equal(least_of(256, 1), 64);
    assert_true(is_fair(256, 64, 64));
    assert_false(is_fair(256, 65, 65));
}

static void the_more_there_are_the_less_each_has(void **state) {
    (void)state;
    assert_int_equal(least_of(256, 2), 48);
    assert_int_equal(least_of(256, 8), 19);
    assert_int_equal(least_of(256, 40), 4);
}

/* Two dozen that take all they can get, one after the other, leave room for one more. */
static void a_newcomer_finds_room(void **state) {
    (void)state;
    uint64_t used = 0;
    for (int i = 0; i < 24; i++) {
        uint64_t own = 0;
        while (is_fair(256, used + 1, own + 1)) used++, own++;
        assert_true(own >= 1);
    }
    assert_true(used <= 224);
    assert_true(is_fair(256, used + 1, 1));
}

static void the_spare_part_is_for_those_with_little(void **state) {
    (void)state;
    assert_true(is_fair(256, 224, 2));
    assert_true(is_fair(256, 224, 0));
    assert_false(is_fair(256, 225, 1));
    assert_false(is_fair(256, 193, 3));
    assert_true(is_fair(256, 186, 3));
    assert_false(is_fair(256, 187, 3));
    assert_true(is_fair(20, 18, 1)); /* one piece is little, of however few */
    assert_false(is_fair(20, 18, 2));
}

static void the_last_eighth_is_kept(void **state) {
    (void)state;
    struct share share = {.all = 80, .used = 71, .own = 1};
    assert_false(share_is_fair(&share, true));
    assert_true(share_is_fair(&share, false));
    share = (struct share){.all = 80, .used = 80, .own = 80};
    assert_true(share_is_fair(&share, false));
    share.used = 81;
    assert_false(share_is_fair(&share, false));
}

static void sums_do_not_wrap(void **state) {
    (void)state;
    assert_false(is_fair(UINT64_MAX, UINT64_MAX, 1));
    assert_false(is_fair(UINT64_MAX, UINT64_MAX / 2, UINT64_MAX / 2));
    assert_true(is_fair(UINT64_MAX, 1, 1));
    assert_false(is_fair(0, 1, 1));
    assert_true(is_fair(0, 0, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_alone_has_a_quarter), cmocka_unit_test(the_more_there_are_the_less_each_has),
        cmocka_unit_test(a_newcomer_finds_room),   cmocka_unit_test(the_spare_part_is_for_those_with_little),
        cmocka_unit_test(the_last_eighth_is_kept), cmocka_unit_test(sums_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
