/* The history of a sandbox's use: a day in at most 23 KB, in rings with longer and longer spans. A sample counts for
   the time since the last one, since an idle sandbox is sampled rarely. */
#include <math.h>
#include <string.h>

#include "meter/meter.h"

enum { RING_BEGINNING = 8 };

static const struct {
    const char *name;
    int64_t length_ms;
    size_t kept;
} spans[METER_SPAN_COUNT] = {
#define X(name, text, length_ms, kept) [METER_##name] = {text, length_ms, kept},
    METER_SPAN_LIST(X)
#undef X
};

const char *meter_span_name(enum meter_span span) {
    return spans[span].name;
}

/* ---- rings: they grow as they fill, since most sandboxes are young ---- */

static bool ring_grow(struct meter_ring *ring, size_t kept) {
    size_t capacity = ring->capacity ? 2 * ring->capacity : RING_BEGINNING;
    if (capacity > kept) capacity = kept;
    struct meter_point *points = realloc(ring->points, capacity * sizeof *points);
    if (!points) return false;
    ring->points = points; /* nothing was dropped so far: the first point is still in front */
    ring->capacity = capacity;
    return true;
}

/* Without memory for a new point the oldest is dropped, as in a full ring. */
static void ring_add(struct meter_ring *ring, size_t kept, const struct meter_point *point) {
    bool is_full = ring->count == ring->capacity;
    if (is_full && ring->capacity < kept && ring->first == 0 && ring_grow(ring, kept)) is_full = false;
    if (ring->capacity == 0) return;
    ring->points[(ring->first + ring->count) % ring->capacity] = *point;
    if (is_full)
        ring->first = (ring->first + 1) % ring->capacity;
    else
        ring->count++;
}

/* ---- open spans ---- */

static void filling_begin(struct meter_filling *filling, int64_t at_ms) {
    *filling = (struct meter_filling){.at_ms = at_ms};
    for (unsigned i = 0; i < METER_METRIC_COUNT; i++) filling->peaks[i] = NAN;
}

static void filling_add(struct meter_filling *filling, const struct meter_sample *sample, double weight_ms) {
    for (unsigned i = 0; i < METER_METRIC_COUNT; i++) {
        if (isnan(sample->values[i])) continue;
        filling->sums[i] += sample->values[i] * weight_ms;
        filling->weights_ms[i] += weight_ms;
        filling->peaks[i] = fmaxf(filling->peaks[i], (float)sample->values[i]);
    }
}

static struct meter_point filling_end(const struct meter_filling *filling) {
    struct meter_point point = {.at_ms = filling->at_ms};
    for (unsigned i = 0; i < METER_METRIC_COUNT; i++) {
        bool known = filling->weights_ms[i] > 0;
        point.averages[i] = known ? (float)(filling->sums[i] / filling->weights_ms[i]) : NAN;
        point.peaks[i] = filling->peaks[i];
    }
    return point;
}

/* ---- histories ---- */

void meter_history_init(struct meter_history *history) {
    *history = (struct meter_history){0};
    meter_sample_clear(&history->last);
}

void meter_history_free(struct meter_history *history) {
    for (unsigned span = 0; span < METER_SPAN_COUNT; span++) free(history->rings[span].points);
    meter_history_init(history);
}

static void add_recent(struct meter_history *history, const struct meter_sample *sample) {
    struct meter_point point = {.at_ms = sample->at_ms};
    for (unsigned i = 0; i < METER_METRIC_COUNT; i++) point.averages[i] = point.peaks[i] = (float)sample->values[i];
    ring_add(&history->rings[METER_RECENT], spans[METER_RECENT].kept, &point);
}

/* Returns true when a span has ended and became a point. */
static bool fill(struct meter_history *history, enum meter_span span, const struct meter_sample *sample,
                 double weight_ms) {
    struct meter_filling *filling = &history->fillings[span];
    int64_t begins_ms = sample->at_ms - sample->at_ms % spans[span].length_ms;
    bool is_over = filling->at_ms != 0 && filling->at_ms != begins_ms;
    if (is_over) {
        struct meter_point point = filling_end(filling);
        ring_add(&history->rings[span], spans[span].kept, &point);
    }
    if (is_over || filling->at_ms == 0) filling_begin(filling, begins_ms);
    filling_add(filling, sample, weight_ms);
    return is_over;
}

bool meter_history_add(struct meter_history *history, const struct meter_sample *sample) {
    int64_t before_ms = history->last.at_ms;
    if (sample->at_ms <= before_ms) return false;
    double weight_ms = before_ms ? (double)(sample->at_ms - before_ms) : 1;
    add_recent(history, sample);
    fill(history, METER_MINUTES, sample, weight_ms);
    history->last = *sample;
    return fill(history, METER_DAY, sample, weight_ms);
}

void meter_history_step(struct meter_history *history, int64_t step_ms) {
    struct meter_ring *recent = &history->rings[METER_RECENT];
    if (history->last.at_ms == 0) return;
    for (size_t i = 0; i < recent->count; i++) recent->points[(recent->first + i) % recent->capacity].at_ms += step_ms;
    history->last.at_ms += step_ms;
}

void meter_history_restore(struct meter_history *history, const struct meter_point *point) {
    ring_add(&history->rings[METER_DAY], spans[METER_DAY].kept, point);
}

size_t meter_history_count(const struct meter_history *history, enum meter_span span) {
    return history->rings[span].count;
}

const struct meter_point *meter_history_at(const struct meter_history *history, enum meter_span span, size_t index) {
    const struct meter_ring *ring = &history->rings[span];
    return &ring->points[(ring->first + index) % ring->capacity];
}
