/* Interprets samples: threshold levels, trends, and the time of the next sample. */
#include <math.h>

#include "meter/meter.h"

/* ---- thresholds ---- */

static const char *const level_names[] = {
#define X(name, text) [METER_##name] = text,
    METER_LEVEL_LIST(X)
#undef X
};

const char *meter_level_name(enum meter_level level) {
    return level_names[level];
}

static enum meter_level level_of(double percent, const struct meter_thresholds *thresholds) {
    if (percent >= thresholds->critical_percent) return METER_CRITICAL;
    return percent >= thresholds->warning_percent ? METER_WARNING : METER_NORMAL;
}

/* Rises at once. Falls only when the value plus the hysteresis is below the threshold. */
enum meter_level meter_level_next(enum meter_level now, double percent, const struct meter_thresholds *thresholds) {
    if (isnan(percent)) return now;
    enum meter_level up = level_of(percent, thresholds);
    enum meter_level down = level_of(percent + thresholds->hysteresis_percent, thresholds);
    return up > now ? up : down < now ? down : now;
}

/* ---- trends ---- */

enum {
    TREND_POINTS_MIN = 4,
    TREND_SPAN_MIN_MS = 1500,
    TREND_HORIZON_MS = 24 * 3600 * 1000, /* anything later counts as never */
};

/* Least squares over the last points; times are in seconds before the newest. */
struct sums {
    double n, t, v, tt, tv;
};

static struct sums sum_recent(const struct meter_history *history, enum meter_metric metric) {
    size_t count = meter_history_count(history, METER_RECENT);
    struct sums sums = {0};
    for (size_t i = 0; i < count; i++) {
        const struct meter_point *point = meter_history_at(history, METER_RECENT, i);
        double t = (double)(point->at_ms - history->last.at_ms) / 1000, v = (double)point->averages[metric];
        if (isnan(v) || t * 1000 < -METER_TREND_MS) continue;
        sums.n++;
        sums.t += t;
        sums.v += v;
        sums.tt += t * t;
        sums.tv += t * v;
    }
    return sums;
}

static double slope_of(const struct sums *sums) {
    double variance = sums->n * sums->tt - sums->t * sums->t;
    double deviation_ms = variance > 0 ? sqrt(variance) / sums->n * 1000 : 0;
    if (sums->n < TREND_POINTS_MIN || deviation_ms * 2 < TREND_SPAN_MIN_MS) return NAN;
    return (sums->n * sums->tv - sums->t * sums->v) / variance;
}

struct meter_trend meter_trend(const struct meter_history *history, enum meter_metric metric, double limit) {
    struct sums sums = sum_recent(history, metric);
    struct meter_trend trend = {.per_s = slope_of(&sums), .reached_in_ms = NAN};
    double value = history->last.values[metric];
    if (isnan(trend.per_s) || isnan(value) || isnan(limit)) return trend;
    double left_ms = trend.per_s > 0 ? (limit - value) / trend.per_s * 1000 : (double)INFINITY;
    if (value >= limit) left_ms = 0;
    trend.reached_in_ms = left_ms > TREND_HORIZON_MS ? (double)INFINITY : left_ms;
    return trend;
}

/* ---- sampling interval ---- */

enum { NEAR_PERCENT = 75, SOON_MS = 60000, IDLE_DOUBLINGS_MAX = 8 };

/* An idle sandbox is sampled rarely, however near it is to a limit. */
uint64_t meter_next_reading_ms(const struct meter_situation *situation) {
    bool is_near = situation->nearest_percent >= NEAR_PERCENT || situation->soonest_ms < SOON_MS;
    if (situation->is_busy) return is_near ? METER_NEAR_MS : METER_BUSY_MS;
    unsigned doublings = situation->idle_looks < IDLE_DOUBLINGS_MAX ? situation->idle_looks : IDLE_DOUBLINGS_MAX;
    uint64_t wait_ms = (uint64_t)METER_BUSY_MS << doublings;
    return wait_ms < METER_IDLE_MAX_MS ? wait_ms : METER_IDLE_MAX_MS;
}
