/* What the answers of one compilation may hold together, in bytes and in diagnostics. */
#include "compile/answer_budget.h"

const struct diagnostics_budget whole_diagnostics_budget = {.count = DIAGNOSTICS_MAX, .bytes = DIAGNOSTICS_MAX_BYTES};
const struct answer_budget whole_answer_budget = {
    .bytes = ANSWERS_MAX_BYTES,
    .names = DEPENDENCIES_MAX,
    .warnings = {.count = DIAGNOSTICS_MAX, .bytes = DIAGNOSTICS_MAX_BYTES},
};

int budget_take(struct answer_budget *budget, const struct answer_budget *wanted, struct error *reterr) {
    if (wanted->names > budget->names)
        return error_set(reterr, E_TOO_LARGE, "the project's files depend on more than %d modules and files in all",
                         DEPENDENCIES_MAX);
    if (wanted->bytes > budget->bytes)
        return error_set(reterr, E_TOO_LARGE, "what was compiled, with what it depends on, is larger than %d MiB",
                         ANSWERS_MAX_BYTES >> 20);
    if (wanted->warnings.count > budget->warnings.count || wanted->warnings.bytes > budget->warnings.bytes)
        return error_set(reterr, E_TOO_LARGE, "the project has more than %d warnings, or %d MiB of them",
                         DIAGNOSTICS_MAX, DIAGNOSTICS_MAX_BYTES >> 20);
    if (budget->room && room_take(budget->room, wanted->bytes, reterr) < 0) return -E_LIMIT;
    budget->names -= wanted->names;
    budget->bytes -= wanted->bytes;
    budget->warnings.count -= wanted->warnings.count;
    budget->warnings.bytes -= wanted->warnings.bytes;
    return 0;
}

void budget_give(struct answer_budget *budget, struct answer_budget *held) {
    if (budget->room) room_give(budget->room, held->bytes);
    budget->names += held->names;
    budget->bytes += held->bytes;
    budget->warnings.count += held->warnings.count;
    budget->warnings.bytes += held->warnings.bytes;
    *held = (struct answer_budget){0};
}

bool budget_take_diagnostic(struct diagnostics_budget *budget, size_t bytes) {
    if (budget->count == 0 || budget->bytes < bytes) {
        budget->count = 0;
        return false;
    }
    budget->count--;
    budget->bytes -= bytes;
    return true;
}
