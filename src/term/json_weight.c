/* How much there is to a JSON value, without looking at more of it than is needed to tell. */
#include "term/term.h"

enum {
    TEXT_BYTES = 32, /* that weigh as much as one value */
    REAL_WEIGHT = 8, /* the library prints each with all its digits */
    DEPTH_MAX = 64,  /* what is deeper counts as heavy */
};

static bool weigh(const json_t *value, size_t depth, int64_t *left);

static bool weigh_array(const json_t *array, size_t depth, int64_t *left) {
    size_t i;
    json_t *value;
    json_array_foreach(array, i, value) {
        if (!weigh(value, depth, left)) return false;
    }
    return true;
}

static bool weigh_object(const json_t *object, size_t depth, int64_t *left) {
    const char *name;
    size_t size;
    json_t *value;
    json_object_keylen_foreach((json_t *)object, name, size, value) {
        *left -= (int64_t)(size / TEXT_BYTES);
        if (!weigh(value, depth, left)) return false;
    }
    return true;
}

static int64_t own_weight(const json_t *value) {
    if (json_is_string(value)) return 1 + (int64_t)json_string_length(value) / TEXT_BYTES;
    return json_is_real(value) ? REAL_WEIGHT : 1;
}

/* False once there is nothing left. */
static bool weigh(const json_t *value, size_t depth, int64_t *left) {
    *left -= own_weight(value);
    if (*left < 0 || depth > DEPTH_MAX) return false;
    if (json_is_array(value)) return weigh_array(value, depth + 1, left);
    return !json_is_object(value) || weigh_object(value, depth + 1, left);
}

bool term_json_is_heavy(const json_t *value, int64_t values_max) {
    return !weigh(value, 0, &values_max);
}
