/* Tests which sandboxes yield the CPU, alone and on a simulated machine with many of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "meter/meter.h"

#define MS 1000000ULL

enum { LOOK_MS = 100 };

/* Whether it works flat out. */
static bool look(struct meter_pace *pace, unsigned percent, bool is_full) {
    meter_pace(pace, &(struct meter_work){
                         .span_ns = LOOK_MS * MS, .cpu_ns = LOOK_MS * MS * percent / 100, .is_machine_full = is_full});
    return pace->is_flat_out;
}

static void who_works_flat_out_is_known_at_once(void **state) {
    (void)state;
    struct meter_pace pace = {0};
    assert_false(look(&pace, 0, false));
    assert_false(look(&pace, METER_FLAT_OUT_PERCENT - 1, false));
    assert_false(look(&pace, METER_FLAT_OUT_PERCENT - 1, true));
    assert_true(look(&pace, METER_FLAT_OUT_PERCENT, false));
    assert_true(look(&pace, 200, true));
}

/* A node that pauses for a moment does not begin anew. */
static void it_is_taken_back_once_it_was_calm_for_long(void **state) {
    (void)state;
    struct meter_pace pace = {0};
    look(&pace, 100, false);
    for (int i = 1; i < METER_CALM_MS / LOOK_MS; i++) assert_true(look(&pace, 1, false));
    assert_true(look(&pace, 100, false)); /* all over again */
    for (int i = 1; i < METER_CALM_MS / LOOK_MS; i++) assert_true(look(&pace, 1, false));
    assert_false(look(&pace, 1, false));
    assert_true(look(&pace, 100, false));
}

/* It would use more if it could. */
static void who_gets_little_of_a_full_machine_is_taken_back_at_once(void **state) {
    (void)state;
    struct meter_pace pace = {0};
    look(&pace, 100, false);
    assert_true(look(&pace, METER_FLAT_OUT_PERCENT / 2, true)); /* enough */
    assert_false(look(&pace, METER_FLAT_OUT_PERCENT / 2 - 1, true));
}

static void no_time_is_no_work(void **state) {
    (void)state;
    struct meter_pace pace = {0};
    meter_pace(&pace, &(struct meter_work){0});
    assert_false(pace.is_flat_out || pace.stirs);
    look(&pace, 100, false);
    meter_pace(&pace, &(struct meter_work){0});
    assert_true(pace.is_flat_out);
}

/* Once may be a beat. */
static void who_works_a_little_is_company_the_second_time(void **state) {
    (void)state;
    struct meter_pace pace = {0};
    look(&pace, 1, false);
    assert_false(meter_is_company(&pace));
    look(&pace, 0, false);
    look(&pace, 1, false);
    assert_false(meter_is_company(&pace));
    look(&pace, 1, false);
    assert_true(meter_is_company(&pace));
    look(&pace, 0, false);
    assert_false(meter_is_company(&pace));
}

/* It may be a beat that is answered then; nor is it taken back by one. */
static void a_brief_look_tells_nothing_of_it(void **state) {
    (void)state;
    struct meter_work some = {.span_ns = 25 * MS, .cpu_ns = 1 * MS, .is_brief = true};
    struct meter_work nothing = {.span_ns = 25 * MS, .is_brief = true};
    struct meter_pace pace = {0};
    look(&pace, 1, false);
    meter_pace(&pace, &some);
    assert_false(meter_is_company(&pace));
    look(&pace, 1, false);
    meter_pace(&pace, &nothing);
    assert_true(meter_is_company(&pace));
    meter_pace(&pace, &(struct meter_work){.span_ns = 25 * MS, .cpu_ns = 25 * MS, .is_brief = true});
    assert_true(pace.is_flat_out && !meter_is_company(&pace));
}

/* Nor who begins to: it would have those who did before stand back, and not itself. */
static void who_works_flat_out_is_no_company(void **state) {
    (void)state;
    struct meter_pace pace = {0};
    look(&pace, 10, false);
    for (int i = 1; i < METER_CALM_MS / LOOK_MS; i++) {
        look(&pace, i % 2 ? 100 : 50, false);
        assert_false(meter_is_company(&pace));
    }
}

static void company_counts_at_once_and_stays_for_a_while(void **state) {
    (void)state;
    struct meter_company company = {0};
    meter_company(&company, LOOK_MS * MS, false);
    assert_false(company.is_there);
    for (int round = 0; round < 2; round++) {
        meter_company(&company, LOOK_MS * MS, true);
        assert_true(company.is_there);
        for (int i = 1; i < METER_CALM_MS / LOOK_MS; i++) {
            meter_company(&company, LOOK_MS * MS, false);
            assert_true(company.is_there);
        }
    }
    meter_company(&company, LOOK_MS * MS, false);
    assert_false(company.is_there);
}

/* ---- a machine ---- */

struct member {
    unsigned wants; /* percent of a core */
    double gets, sum;
    struct meter_pace pace;
    bool yields;
};

static bool goes_now(const struct member *member, bool yielding) {
    return member->yields == yielding && member->gets < (double)member->wants;
}

/* Equal parts of what is left, to each member of this kind that wants more. */
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

static void look_at_machine(struct member *members, size_t count, struct meter_company *company, bool is_full) {
    bool is_company = false;
    for (size_t i = 0; i < count; i++) {
        look(&members[i].pace, (unsigned)members[i].gets, is_full);
        is_company |= meter_is_company(&members[i].pace);
    }
    meter_company(company, LOOK_MS * MS, is_company);
    for (size_t i = 0; i < count; i++) members[i].yields = members[i].pace.is_flat_out && company->is_there;
}

static void run_machine(struct member *members, size_t count, unsigned cores, unsigned looks) {
    struct meter_company company = {0};
    for (unsigned at = 0; at < looks; at++) {
        double left = cores * 100;
        for (size_t i = 0; i < count; i++) members[i].gets = 0;
        left = share_out(members, count, false, left);
        left = share_out(members, count, true, left);
        for (size_t i = 0; i < count; i++) members[i].sum += members[i].gets / looks;
        look_at_machine(members, count, &company, left < 20);
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
        cmocka_unit_test(who_works_flat_out_is_known_at_once),
        cmocka_unit_test(it_is_taken_back_once_it_was_calm_for_long),
        cmocka_unit_test(who_gets_little_of_a_full_machine_is_taken_back_at_once),
        cmocka_unit_test(no_time_is_no_work),
        cmocka_unit_test(who_works_a_little_is_company_the_second_time),
        cmocka_unit_test(a_brief_look_tells_nothing_of_it),
        cmocka_unit_test(who_works_flat_out_is_no_company),
        cmocka_unit_test(company_counts_at_once_and_stays_for_a_while),
        cmocka_unit_test(nobody_starves),
        cmocka_unit_test(who_wants_little_has_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
