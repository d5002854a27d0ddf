/* Tests the turns of owners on a thread pool: one at a time for each owner, in order. */
#include "base/base_test.h"

struct piece {
    struct turn turn;
    bool has_begun;
};

static struct turns turns;

static void on_begin(struct turn *turn) {
    ((struct piece *)turn)->has_begun = true;
}

static void take(struct piece *piece, uint32_t owner) {
    *piece = (struct piece){.turn = {.owner = owner, .begin = on_begin}};
    turns_take(&turns, &piece->turn);
}

static void one_owner_has_one(void **state) {
    (void)state;
    struct piece first, second, third, other;
    turns = (struct turns){.service = 7};
    take(&first, 1000);
    take(&second, 1000);
    take(&third, 1000);
    assert_true(first.has_begun);
    assert_false(second.has_begun || third.has_begun);
    take(&other, 1001);
    assert_true(other.has_begun); /* it waits for no other owner */
    turns_give_back(&turns, &other.turn);
    assert_false(second.has_begun);
    turns_give_back(&turns, &first.turn);
    assert_true(second.has_begun);
    assert_false(third.has_begun);
    turns_give_back(&turns, &second.turn);
    assert_true(third.has_begun);
    turns_give_back(&turns, &third.turn);
    assert_null(turns.running);
    assert_null(turns.waiting);
}

static void root_and_the_service_are_not_bound(void **state) {
    (void)state;
    static const uint32_t owners[] = {0, 7};
    for (size_t i = 0; i < ARRAY_SIZE(owners); i++) {
        struct piece pieces[8];
        turns = (struct turns){.service = 7};
        for (size_t j = 0; j < ARRAY_SIZE(pieces); j++) {
            take(&pieces[j], owners[i]);
            assert_true(pieces[j].has_begun);
        }
        for (size_t j = 0; j < ARRAY_SIZE(pieces); j++) turns_give_back(&turns, &pieces[j].turn);
        assert_null(turns.running);
    }
}

/* An owner that ends in the middle of the list leaves the others as they were. */
static void order_is_kept(void **state) {
    (void)state;
    struct piece of[3][3];
    turns = (struct turns){.service = 7};
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t owner = 0; owner < 3; owner++) take(&of[owner][round], 1000 + owner);
    for (size_t owner = 0; owner < 3; owner++)
        assert_true(of[owner][0].has_begun && !of[owner][1].has_begun && !of[owner][2].has_begun);
    turns_give_back(&turns, &of[1][0].turn);
    assert_true(of[1][1].has_begun);
    assert_false(of[0][1].has_begun || of[2][1].has_begun || of[1][2].has_begun);
    turns_give_back(&turns, &of[2][0].turn);
    turns_give_back(&turns, &of[0][0].turn);
    assert_true(of[0][1].has_begun && of[2][1].has_begun);
    for (size_t owner = 0; owner < 3; owner++) turns_give_back(&turns, &of[owner][1].turn);
    for (size_t owner = 0; owner < 3; owner++) turns_give_back(&turns, &of[owner][2].turn);
    assert_null(turns.running);
    assert_null(turns.waiting);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_owner_has_one),
        cmocka_unit_test(root_and_the_service_are_not_bound),
        cmocka_unit_test(order_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
