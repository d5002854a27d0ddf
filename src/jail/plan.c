/* Plans as lists of lines, that grow and are searched. */
#include <string.h>

#include "jail/plan.h"

bool plan_name_is_valid(const char *name) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = strspn(name, allowed);
    return length > 0 && length < JAIL_NAME_BYTES && !name[length] && name[0] != '.' && name[0] != '-';
}

/* Room for one more: the array doubles whenever the count is a power of two. */
static bool reserve_op(struct jail_plan *plan) {
    if (plan->count & (plan->count - 1)) return true;
    struct jail_plan_op *ops = reallocarray(plan->ops, plan->count ? plan->count * 2 : 1, sizeof *ops);
    if (!ops) return false;
    plan->ops = ops;
    return true;
}

static void op_free(struct jail_plan_op *op) {
    for (size_t i = 0; i < ARRAY_SIZE(op->words); i++) free(op->words[i]);
}

int plan_add(struct jail_plan *plan, enum jail_plan_verb verb, const char *first, const char *second, uint64_t number,
             struct error *reterr) {
    if (plan->count == PLAN_OPS_MAX) return error_set(reterr, E_TOO_LARGE, "a plan has at most %d lines", PLAN_OPS_MAX);
    struct jail_plan_op op = {
        .verb = verb, .words = {first ? strdup(first) : NULL, second ? strdup(second) : NULL}, .number = number};
    if ((first && !op.words[0]) || (second && !op.words[1]) || !reserve_op(plan)) {
        op_free(&op);
        return error_set(reterr, E_NO_MEMORY, "no memory for a plan");
    }
    plan->ops[plan->count++] = op;
    return 0;
}

int plan_add_limits(struct jail_plan *plan, const struct jail_limits *limits, struct error *reterr) {
    int result = 0;
    for (unsigned i = 0; result == 0 && i < JAIL_LIMIT_COUNT; i++) {
        const struct jail_limit_kind *kind = jail_limit_kind(i);
        uint64_t value = jail_limit_value(limits, i);
        if (kind->holder == JAIL_HELD_BY_KERNEL && value)
            result = plan_add(plan, JAIL_PLAN_LIMIT, kind->name, NULL, value, reterr);
    }
    return result;
}

void jail_plan_free(struct jail_plan *plan) {
    for (size_t i = 0; i < plan->count; i++) op_free(&plan->ops[i]);
    free(plan->ops);
    *plan = (struct jail_plan){0};
}

static const struct jail_plan_op *find(const struct jail_plan *plan, enum jail_plan_verb verb, size_t index) {
    for (size_t i = 0; i < plan->count; i++)
        if (plan->ops[i].verb == verb && index-- == 0) return &plan->ops[i];
    return NULL;
}

const char *jail_plan_word(const struct jail_plan *plan, enum jail_plan_verb verb, size_t index) {
    const struct jail_plan_op *op = find(plan, verb, index);
    return op ? op->words[0] : NULL;
}

bool jail_plan_number(const struct jail_plan *plan, enum jail_plan_verb verb, uint64_t *ret) {
    const struct jail_plan_op *op = find(plan, verb, 0);
    if (op) *ret = op->number;
    return op != NULL;
}
