/* Any text at all: what parses as a plan must print, and parse again to the same plan. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/harness/fuzz.h"
#include "jail/plan.h"

static void check(bool holds) {
    if (!holds) abort();
}

static void check_same(const struct jail_plan *a, const struct jail_plan *b) {
    check(a->count == b->count);
    for (size_t i = 0; i < a->count; i++) {
        check(a->ops[i].verb == b->ops[i].verb && a->ops[i].number == b->ops[i].number);
        for (size_t word = 0; word < ARRAY_SIZE(a->ops[i].words); word++)
            check(string_equal(a->ops[i].words[word], b->ops[i].words[word]));
    }
}

static void print_and_parse(const struct jail_plan *plan) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(jail_plan_free) struct jail_plan again = {0};
    jail_plan_print(plan, &text);
    check(!text.failed);
    /* Encoding may make it longer than what was read. */
    if (text.size > JAIL_MESSAGE_BYTES) return;
    check(jail_plan_parse((const char *)text.data, text.size, &again, NULL) == 0);
    check_same(plan, &again);
}

void fuzz_one(const uint8_t *data, size_t size) {
    struct error error = {0};
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    if (jail_plan_parse((const char *)data, size, &plan, &error) < 0) {
        check(plan.count == 0 && (error.code == E_FORMAT || error.code == E_TOO_LARGE));
        return;
    }
    check(plan.count > 0 && plan.count <= PLAN_OPS_MAX && plan.ops[0].verb == JAIL_PLAN_NODE);
    print_and_parse(&plan);
}
