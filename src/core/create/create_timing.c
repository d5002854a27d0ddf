/* How long each step of a create took. */
#include "core/core_internal.h"

static const char *const names[CREATE_STEPS] = {
#define X(name, key) [CREATE_##name] = key,
    CREATE_STEP_LIST(X)
#undef X
};

void create_timing_begin(struct create_timing *timing) {
    *timing = (struct create_timing){.begun_ns = uv_hrtime()};
    timing->last_ns = timing->begun_ns;
}

void create_timing_mark(struct create_timing *timing, enum create_step step) {
    uint64_t now_ns = uv_hrtime();
    timing->step_ns[step] = now_ns - timing->last_ns;
    timing->last_ns = now_ns;
}

json_t *create_timing_to_json(const struct create_timing *timing) {
    json_t *object = json_object();
    for (unsigned step = 0; step < CREATE_STEPS; step++)
        json_object_set_new(object, names[step], json_integer((json_int_t)(timing->step_ns[step] / 1000)));
    json_object_set_new(object, "total_us", json_integer((json_int_t)((timing->last_ns - timing->begun_ns) / 1000)));
    return object;
}
