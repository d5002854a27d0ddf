/* How much work an answer is. Most are small, a few hold millions of values. */
#include "api/outcome.h"

#include "term/term.h"

enum { WEIGHT_MAX = 4000 }; /* of values: they take about a third of a millisecond */

bool outcome_is_heavy(const struct outcome *outcome) {
    return term_json_is_heavy(outcome->value, WEIGHT_MAX);
}
