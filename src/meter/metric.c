/* Names of metrics, and empty samples. */
#include "meter/meter.h"

#include <math.h>

static const struct {
    const char *name;
    bool is_outside;
} metrics[METER_METRIC_COUNT] = {
#define X(name, text, outside) [METER_##name] = {text, outside},
    METER_METRIC_LIST(X)
#undef X
};

const char *meter_metric_name(enum meter_metric metric) {
    return metrics[metric].name;
}

bool meter_metric_is_outside(enum meter_metric metric) {
    return metrics[metric].is_outside;
}

void meter_sample_clear(struct meter_sample *sample) {
    sample->at_ms = 0;
    for (unsigned i = 0; i < METER_METRIC_COUNT; i++) sample->values[i] = NAN;
}
