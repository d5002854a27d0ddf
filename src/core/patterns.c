/* Failures that repeat: counted by kind, as JSON. Pure. */
#include "core/patterns.h"

#include <string.h>

static struct breaker_policy policy_of(enum error_code code) {
    return (struct breaker_policy){
        .trips = error_kind(code)->trips, .within_ms = PATTERN_WITHIN_MS, .rest_ms = PATTERN_REST_MS};
}

bool patterns_failed(struct patterns *patterns, const char *op, enum error_code code, uint64_t now_ms) {
    struct breaker_policy policy = policy_of(code);
    struct pattern *pattern = &patterns->of[code];
    pattern->op = op;
    return breaker_failed(&pattern->breaker, &policy, now_ms);
}

enum error_code patterns_worked(struct patterns *patterns, const char *op) {
    for (int code = E_NONE + 1; code < E_COUNT; code++) {
        struct pattern *pattern = &patterns->of[code];
        bool is_noted = pattern->op && string_equal(pattern->op, op);
        if (is_noted && breaker_worked(&pattern->breaker)) return (enum error_code)code;
    }
    return E_NONE;
}

uint64_t patterns_rest_ms(const struct patterns *patterns, const char *op, uint64_t now_ms) {
    uint64_t longest_ms = 0;
    for (int code = E_NONE + 1; code < E_COUNT; code++) {
        const struct pattern *pattern = &patterns->of[code];
        struct breaker_policy policy = policy_of((enum error_code)code);
        uint64_t rest_ms = string_equal(pattern->op, op) ? breaker_rest_ms(&pattern->breaker, &policy, now_ms) : 0;
        if (rest_ms > longest_ms) longest_ms = rest_ms;
    }
    return longest_ms;
}

json_t *pattern_to_json(const struct patterns *patterns, enum error_code code, uint64_t now_ms) {
    const struct pattern *pattern = &patterns->of[code];
    const struct error_kind *kind = error_kind(code);
    struct breaker_policy policy = policy_of(code);
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:s}", "code", kind->slug, "op", pattern->op, "count",
                     (json_int_t)pattern->breaker.count, "since_ms", (json_int_t)(now_ms - pattern->breaker.began_ms),
                     "rest_ms", (json_int_t)breaker_rest_ms(&pattern->breaker, &policy, now_ms), "category",
                     error_category_name(kind->category), "recovery", error_recovery_name(kind->recovery), "advice",
                     kind->advice);
}

json_t *patterns_to_json(const struct patterns *patterns, uint64_t now_ms) {
    json_t *list = json_array();
    for (int code = E_NONE + 1; code < E_COUNT; code++) {
        struct breaker_policy policy = policy_of((enum error_code)code);
        if (breaker_is_open(&patterns->of[code].breaker, &policy, now_ms))
            json_array_append_new(list, pattern_to_json(patterns, (enum error_code)code, now_ms));
    }
    return list;
}
