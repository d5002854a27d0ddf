/* How long each step of a create took. */
#include "core/core_internal.h"

static const char *const names[TIMING_STEPS] = {
#define X(name, key) [TIMING_##name] = key,
    TIMING_STEP_LIST(X)
#undef X
};

void timing_begin(struct timing *timing) {
    *timing = (struct timing){.begun_ns = uv_hrtime()};
    timing->last_ns = timing->begun_ns;
}

void timing_mark(struct timing *timing, enum timing_step step) {
    uint64_t now_ns = uv_hrtime();
    timing->step_ns[step] = now_ns - timing->last_ns;
    timing->last_ns = now_ns;
}

json_t *timing_to_json(const struct timing *timing) {
    json_t *object = json_object();
    for (unsigned step = 0; step < TIMING_STEPS; step++)
        json_object_set_new(object, names[step], json_integer((json_int_t)(timing->step_ns[step] / 1000)));
    json_object_set_new(object, "total_us", json_integer((json_int_t)((timing->last_ns - timing->begun_ns) / 1000)));
    return object;
}
