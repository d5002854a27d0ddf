#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "meter/meter.h"

#define MS 1000000ULL

enum { LOOK_MS = 100 };

static bool look(struct meter_yield *yield, unsigned percent, bool is_full) {
    struct meter_work work = {
        .span_ns = LOOK_MS * MS, .cpu_ns = LOOK_MS * MS * percent / 100, .is_machine_full = is_full};
    return meter_yields(yield, &work);
}

static void who_works_flat_out_yields_at_once(void **state) {
    (void)state;
    struct meter_yield yield = {0};
    assert_false(look(&yield, 0, false));
    assert_false(look(&yield, METER_FLAT_OUT_PERCENT - 1, false));
    assert_false(look(&yield, METER_FLAT_OUT_PERCENT - 1, true));
    assert_true(look(&yield, METER_FLAT_OUT_PERCENT, false));
    assert_true(look(&yield, 200, true));
}

/* Whoever pauses for a moment is not to begin as if nothing had been. */
static void it_is_taken_back_once_it_was_calm_for_long(void **state) {
    (void)state;
    struct meter_yield yield = {0};
    look(&yield, 100, false);
    for (int i = 1; i < METER_CALM_MS / LOOK_MS; i++) assert_true(look(&yield, 1, false));
    assert_true(look(&yield, 100, false)); /* all over again */
    for (int i = 1; i < METER_CALM_MS / LOOK_MS; i++) assert_true(look(&yield, 1, false));
    assert_false(look(&yield, 1, false));
    assert_true(look(&yield, 100, false));
}

/* It would use more if it could. */
static void who_gets_little_of_a_full_machine_is_taken_back_at_once(void **state) {
    (void)state;
    struct meter_yield yield = {0};
    look(&yield, 100, false);
    assert_true(look(&yield, METER_FLAT_OUT_PERCENT / 2, true)); /* enough */
    assert_false(look(&yield, METER_FLAT_OUT_PERCENT / 2 - 1, true));
}

static void no_time_is_no_work(void **state) {
    (void)state;
    struct meter_yield yield = {0};
    assert_false(meter_yields(&yield, &(struct meter_work){0}));
    look(&yield, 100, false);
    assert_true(meter_yields(&yield, &(struct meter_work){.is_machine_full = false}));
}

/* ---- a machine ---- */

struct member {
    unsigned wants; /* percent of a core */
    double gets, sum;
    struct meter_yield yield;
};

static bool goes_now(const struct member *member, bool yielding) {
    return member->yield.yields == yielding && member->gets < (double)member->wants;
}

/* Equal parts of what is left, to whoever wants more and is of this kind. */
static double share_out(struct member *members, size_t count, bool yielding, double left) {
    for (size_t rounds = 0; rounds <= count; rounds++) {
        size_t takers = 0;
        for (size_t i = 0; i < count; i++) takers += goes_now(&members[i], yielding);
        if (takers == 0 || left < 0.001) break;
        double part = left / (double)takers;
        for (size_t i = 0; i < count; i++) {
            if (!goes_now(&members[i], yielding)) continue;
            double room = (double)members[i].wants - members[i].gets, taken = part < room ? part : room;
            members[i].gets += taken;
            left -= taken;
        }
    }
    return left;
}

static void run_machine(struct member *members, size_t count, unsigned cores, unsigned looks) {
    for (unsigned at = 0; at < looks; at++) {
        double left = cores * 100;
        for (size_t i = 0; i < count; i++) members[i].gets = 0;
        left = share_out(members, count, false, left);
        left = share_out(members, count, true, left);
        for (size_t i = 0; i < count; i++) {
            members[i].sum += members[i].gets / looks;
            look(&members[i].yield, (unsigned)members[i].gets, left < 20);
        }
    }
}

/* What each would get were there no yielding. */
static double fair_share(const struct member *members, size_t count, unsigned cores, size_t whose) {
    struct member plain[64] = {0};
    for (size_t i = 0; i < count; i++) plain[i].wants = members[i].wants;
    share_out(plain, count, false, cores * 100);
    return plain[whose].gets;
}

/* The first wants all of a core, the others some of theirs, up to more than there is. */
static void nobody_starves(void **state) {
    (void)state;
    for (unsigned cores = 1; cores <= 8; cores *= 2)
        for (unsigned wants = 5; wants <= 100; wants += 10)
            for (size_t count = 2; count <= 40; count += 1 + count / 4) {
                struct member members[64] = {{.wants = 100}};
                for (size_t i = 1; i < count; i++) members[i].wants = wants;
                run_machine(members, count, cores, 100);
                for (size_t i = 0; i < count; i++) {
                    double fair = fair_share(members, count, cores, i);
                    if (members[i].sum < fair * 0.48)
                        fail_msg("%zu want %u %% of %u cores: number %zu gets %.1f instead of %.1f", count, wants,
                                 cores, i, members[i].sum, fair);
                }
            }
}

/* Those who want little get it all while others burn what there is. */
static void who_wants_little_has_it(void **state) {
    (void)state;
    struct member members[5] = {{.wants = 100}, {.wants = 100}, {.wants = 20}, {.wants = 30}, {.wants = 40}};
    run_machine(members, 5, 2, 200);
    for (size_t i = 2; i < 5; i++) assert_true(members[i].sum > members[i].wants * 0.98);
    assert_true(members[0].sum > 50 && members[1].sum > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_works_flat_out_yields_at_once),
        cmocka_unit_test(it_is_taken_back_once_it_was_calm_for_long),
        cmocka_unit_test(who_gets_little_of_a_full_machine_is_taken_back_at_once),
        cmocka_unit_test(no_time_is_no_work),
        cmocka_unit_test(nobody_starves),
        cmocka_unit_test(who_wants_little_has_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
