/* Plans as text: printed by the daemon, parsed by the launcher. */
#include <string.h>

#include "jail/plan.h"
#include "jail/wire.h"

static void print_op(const struct jail_plan_op *op, struct buf *ret) {
    const struct plan_verb *verb = plan_verb(op->verb);
    buf_append_string(ret, verb->word);
    for (size_t i = 0; i < ARRAY_SIZE(verb->operands) && verb->operands[i]; i++) {
        buf_append_byte(ret, ' ');
        wire_put_word(ret, op->words[i]);
    }
    if (verb->most) {
        buf_append_byte(ret, ' ');
        buf_append_decimal(ret, op->number);
    }
    buf_append_byte(ret, '\n');
}

void jail_plan_print(const struct jail_plan *plan, struct buf *ret) {
    for (size_t i = 0; i < plan->count; i++) print_op(&plan->ops[i], ret);
}

static bool find_verb(const char *word, enum jail_plan_verb *ret) {
    for (unsigned verb = 0; verb < JAIL_PLAN_VERB_COUNT; verb++)
        if (strcmp(plan_verb(verb)->word, word) == 0) {
            *ret = verb;
            return true;
        }
    return false;
}

static int parse_operands(char *at, struct jail_plan_op *ret, struct error *reterr) {
    const struct plan_verb *verb = plan_verb(ret->verb);
    const char *number = "0";
    bool is_whole = true;
    for (size_t i = 0; i < ARRAY_SIZE(verb->operands) && verb->operands[i]; i++)
        is_whole = is_whole && (ret->words[i] = wire_next_word(&at));
    if (verb->most) is_whole = is_whole && (number = wire_next_word(&at));
    if (!is_whole) return error_set(reterr, E_FORMAT, "%s lacks an operand, or it is badly encoded", verb->word);
    if (!parse_u64(number, &ret->number)) return error_set(reterr, E_FORMAT, "%s wants a number", verb->word);
    return *at ? error_set(reterr, E_FORMAT, "%s has too many operands", verb->word) : 0;
}

/* The words of the result point into the line. */
static int parse_line(char *line, struct jail_plan_op *ret, struct error *reterr) {
    char *at = line;
    struct jail_plan_op op = {0};
    char *word = wire_next_word(&at);
    if (!word || !find_verb(word, &op.verb)) return error_set(reterr, E_FORMAT, "there is no such verb");
    if (parse_operands(at, &op, reterr) < 0) return -1;
    *ret = op;
    return 0;
}

static int check_place(const struct jail_plan *plan, const struct jail_plan_op *op, struct error *reterr) {
    bool is_first = plan->count == 0;
    if (is_first != (op->verb == JAIL_PLAN_NODE))
        return error_set(reterr, E_FORMAT, "a plan starts with its one node line");
    if (is_first && !plan_name_is_valid(op->words[0]))
        return error_set(reterr, E_FORMAT, "the node's name is not a name");
    if (plan_verb(op->verb)->times == 1)
        for (size_t i = 0; i < plan->count; i++)
            if (plan->ops[i].verb == op->verb)
                return error_set(reterr, E_FORMAT, "%s is given twice", plan_verb(op->verb)->word);
    return 0;
}

static int parse_into(struct jail_plan *plan, char *text, struct error *reterr) {
    for (char *line; (line = wire_next_line(&text));) {
        struct jail_plan_op op = {0};
        if (parse_line(line, &op, reterr) < 0 || check_place(plan, &op, reterr) < 0) return -1;
        if (plan_add(plan, op.verb, op.words[0], op.words[1], op.number, reterr) < 0) return -1;
    }
    return plan->count ? 0 : error_set(reterr, E_FORMAT, "the plan is empty");
}

int jail_plan_parse(const char *text, size_t size, struct jail_plan *ret, struct error *reterr) {
    if (size > JAIL_MESSAGE_BYTES)
        return error_set(reterr, E_TOO_LARGE, "the plan is longer than %d bytes", JAIL_MESSAGE_BYTES);
    if (memchr(text, '\0', size)) return error_set(reterr, E_FORMAT, "the plan has a zero byte");
    CLEANUP_FREE char *copy = strndup(text, size);
    if (!copy) return error_set(reterr, E_NO_MEMORY, "no memory for a plan");
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    struct error failure = {0};
    if (parse_into(&plan, copy, &failure) < 0)
        return error_set(reterr, failure.code, "line %zu: %s", plan.count + 1, failure.detail);
    *ret = plan;
    plan = (struct jail_plan){0};
    return 0;
}
