/* Names of metrics, and empty samples. */
#include "meter/meter.h"

#include <math.h>

#define ROW_OUTSIDE(NAME, field) [METER_##NAME] = {field, true, JAIL_LIMIT_##NAME},
#define ROW_INSIDE(NAME, field) [METER_##NAME] = {field, false, JAIL_LIMIT_##NAME},
#define ROW_NOWHERE(NAME, field)

static const struct {
    const char *name;
    bool is_outside;
    enum jail_limit limit; /* JAIL_LIMIT_COUNT: it has none */
} metrics[METER_METRIC_COUNT] = {
#define X(NAME, name, unit, least, most, zero, holder, policies, policy, metered, ...)                                 \
    ROW_##metered(NAME, JAIL_FIELD_TEXT(name, unit))
    JAIL_LIMIT_LIST(X)
#undef X
        [METER_RUN_QUEUE] = {"run_queue", false, JAIL_LIMIT_COUNT},
    [METER_REDUCTIONS] = {"reductions_per_s", false, JAIL_LIMIT_COUNT},
};

const char *meter_metric_name(enum meter_metric metric) {
    return metrics[metric].name;
}

bool meter_metric_is_outside(enum meter_metric metric) {
    return metrics[metric].is_outside;
}

bool meter_metric_limit(enum meter_metric metric, enum jail_limit *ret) {
    if (metrics[metric].limit == JAIL_LIMIT_COUNT) return false;
    *ret = metrics[metric].limit;
    return true;
}

void meter_sample_clear(struct meter_sample *sample) {
    sample->at_ms = 0;
    for (unsigned i = 0; i < METER_METRIC_COUNT; i++) sample->values[i] = NAN;
}
