/* Checks of plans in the launcher: a plan comes from the process that reads strangers' input, so each line of it is
   checked. */
#include "jail/plan.h"

static int check_op(const struct jail_plan_op *op, struct error *reterr) {
    const struct plan_verb *verb = plan_verb(op->verb);
    for (size_t i = 0; i < ARRAY_SIZE(op->words); i++)
        if (verb->operands[i] && (!op->words[i] || !verb->operands[i](op->words[i])))
            return error_set(reterr, E_INVALID, "the plan's %s has a bad operand '%s'", verb->word,
                             op->words[i] ? op->words[i] : "");
    if (verb->most && (op->number < verb->least || op->number > verb->most))
        return error_set(reterr, E_INVALID, "the plan's %s of %llu is out of bounds", verb->word,
                         (unsigned long long)op->number);
    return 0;
}

static int read_limit(const struct jail_plan_op *op, struct jail_limits *limits, struct error *reterr) {
    enum jail_limit limit;
    if (!jail_limit_find(op->words[0], &limit) || jail_limit_kind(limit)->holder != JAIL_HELD_BY_KERNEL)
        return error_set(reterr, E_INVALID, "the kernel holds no limit '%s'", op->words[0]);
    if (jail_limit_get(limits, limit))
        return error_set(reterr, E_INVALID, "the plan has the limit %s twice", op->words[0]);
    if (!jail_limit_is_within(limit, op->number))
        return error_set(reterr, E_INVALID, "the plan's limit %s of %llu is out of bounds", op->words[0],
                         (unsigned long long)op->number);
    jail_limit_set(limits, limit, op->number);
    return 0;
}

int plan_limits(const struct jail_plan *plan, struct jail_limits *ret, struct error *reterr) {
    struct jail_limits limits = {0};
    for (size_t i = 0; i < plan->count; i++)
        if (plan->ops[i].verb == JAIL_PLAN_LIMIT && read_limit(&plan->ops[i], &limits, reterr) < 0) return -1;
    jail_plan_number(plan, JAIL_PLAN_WEIGHT, &limits.cpu_weight_percent);
    *ret = limits;
    return 0;
}

/* times gets how often each verb is there. */
static int check_ops(const struct jail_plan *plan, size_t times[JAIL_PLAN_VERB_COUNT], struct error *reterr) {
    for (size_t i = 0; i < plan->count; i++) {
        const struct jail_plan_op *op = &plan->ops[i];
        if (op->verb >= JAIL_PLAN_VERB_COUNT) return error_set(reterr, E_INVALID, "the plan has an unknown verb");
        if (check_op(op, reterr) < 0) return -1;
        const struct plan_verb *verb = plan_verb(op->verb);
        if (++times[op->verb] > verb->times)
            return error_set(reterr, E_INVALID, "the plan has more than %zu %s", verb->times, verb->word);
    }
    /* They are mounted together, whichever verb they came by. */
    if (times[JAIL_PLAN_BIND] + times[JAIL_PLAN_BIND_EXEC] > PLAN_BINDS_MAX)
        return error_set(reterr, E_INVALID, "the plan has more than %d binds", PLAN_BINDS_MAX);
    return plan_limits(plan, &(struct jail_limits){0}, reterr);
}

int plan_check(const struct jail_plan *plan, struct error *reterr) {
    size_t times[JAIL_PLAN_VERB_COUNT] = {0};
    if (check_ops(plan, times, reterr) < 0) return -1;
    for (unsigned i = 0; i < JAIL_PLAN_VERB_COUNT; i++)
        if (plan_verb(i)->is_needed && times[i] == 0)
            return error_set(reterr, E_INVALID, "the plan has no %s", plan_verb(i)->word);
    return 0;
}

int plan_check_equipment(const struct jail_plan *plan, struct error *reterr) {
    /* First: it also tells whether a verb is one. */
    if (check_ops(plan, (size_t[JAIL_PLAN_VERB_COUNT]){0}, reterr) < 0) return -1;
    for (size_t i = 0; i < plan->count; i++) {
        const struct plan_verb *verb = plan_verb(plan->ops[i].verb);
        if (!verb->can_be_given) return error_set(reterr, E_INVALID, "a running node can't be given %s", verb->word);
    }
    return 0;
}
