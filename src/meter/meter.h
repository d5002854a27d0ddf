/* meter: the resource use of sandboxes. It keeps samples as histories that grow coarser with age, and computes
   thresholds with hysteresis, trends, sampling intervals and CPU yielding. Everything is pure: times and values come
   from the caller. It knows nothing of policy. */
#ifndef METER_METER_H
#define METER_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "jail/limits.h"

/* ---- metrics ---- */

/* The limits that are metered, each by its field's name, and what has no limit. */
#define METER_OF_OUTSIDE(NAME) METER_##NAME,
#define METER_OF_INSIDE(NAME) METER_##NAME,
#define METER_OF_NOWHERE(NAME)

enum meter_metric {
#define X(NAME, name, unit, least, most, zero, holder, policies, policy, metered, ...) METER_OF_##metered(NAME)
    JAIL_LIMIT_LIST(X)
#undef X
        METER_RUN_QUEUE,
    METER_REDUCTIONS,
    METER_METRIC_COUNT
};

const char *meter_metric_name(enum meter_metric metric);
bool meter_metric_is_outside(enum meter_metric metric);                  /* it is measured without asking the VM */
bool meter_metric_limit(enum meter_metric metric, enum jail_limit *ret); /* false: it has none */

struct meter_sample {
    int64_t at_ms;                     /* wall clock */
    double values[METER_METRIC_COUNT]; /* NAN: unknown */
};

void meter_sample_clear(struct meter_sample *sample); /* sets all to unknown */

/* ---- history: the last samples, then averages and peaks over longer and longer spans ---- */

#define METER_SPAN_LIST(X)                                                                                             \
    X(RECENT, "recent", 0, 60)                                                                                         \
    X(MINUTES, "minutes", 60000, 60)                                                                                   \
    X(DAY, "day", 600000, 144)

enum meter_span {
#define X(name, text, length_ms, kept) METER_##name,
    METER_SPAN_LIST(X)
#undef X
        METER_SPAN_COUNT
};

const char *meter_span_name(enum meter_span span);

struct meter_point {
    int64_t at_ms; /* the beginning of its span */
    float averages[METER_METRIC_COUNT], peaks[METER_METRIC_COUNT];
};

struct meter_ring {
    struct meter_point *points;
    size_t capacity, first, count;
};

struct meter_filling { /* an open span */
    int64_t at_ms;     /* 0: none has begun */
    double sums[METER_METRIC_COUNT], weights_ms[METER_METRIC_COUNT];
    float peaks[METER_METRIC_COUNT];
};

struct meter_history {
    struct meter_ring rings[METER_SPAN_COUNT];
    struct meter_filling fillings[METER_SPAN_COUNT];
    struct meter_sample last;
};

void meter_history_init(struct meter_history *history);
void meter_history_free(struct meter_history *history);
/* Samples come in order of time; others are dropped. Returns true when a point of the longest span is complete, which
   should be saved to disk. */
bool meter_history_add(struct meter_history *history, const struct meter_sample *sample);
/* The wall clock was stepped by step_ms since the last sample. Open spans continue as if it had always been so.
   Complete points keep their times. */
void meter_history_step(struct meter_history *history, int64_t step_ms);
/* Restores a point of the longest span from disk; oldest first, before any sample. */
void meter_history_restore(struct meter_history *history, const struct meter_point *point);
size_t meter_history_count(const struct meter_history *history, enum meter_span span);
const struct meter_point *meter_history_at(const struct meter_history *history, enum meter_span span,
                                           size_t index); /* oldest first */

/* ---- thresholds ---- */

#define METER_LEVEL_LIST(X) X(NORMAL, "normal") X(WARNING, "warning") X(CRITICAL, "critical")

enum meter_level {
#define X(name, text) METER_##name,
    METER_LEVEL_LIST(X)
#undef X
};

struct meter_thresholds {
    double warning_percent, critical_percent;
    double hysteresis_percent; /* a level ends only this far below its threshold */
};

const char *meter_level_name(enum meter_level level);
enum meter_level meter_level_next(enum meter_level now, double percent, const struct meter_thresholds *thresholds);

/* ---- trends ---- */

struct meter_trend {
    double per_s;         /* growth; negative when it falls */
    double reached_in_ms; /* at this rate; INFINITY: never, NAN: unknown */
};

/* Computed from samples of the last METER_TREND_MS; limit NAN: none. */
enum { METER_TREND_MS = 300000 };
struct meter_trend meter_trend(const struct meter_history *history, enum meter_metric metric, double limit);

/* ---- sampling interval ---- */

struct meter_situation {
    bool is_busy;           /* it used CPU time since the last sample */
    double nearest_percent; /* of the nearest limit */
    double soonest_ms;      /* until a limit is reached; INFINITY: never */
    unsigned idle_looks;    /* in a row before this one */
};

enum {
    METER_NEAR_MS = 500,
    METER_BUSY_MS = 2000,
    METER_IDLE_MAX_MS = 15000,
};

uint64_t meter_next_reading_ms(const struct meter_situation *situation);

/* ---- CPU yielding ---- */

enum {
    METER_FLAT_OUT_PERCENT = 75, /* of a core */
    METER_STIR_PER_MILLE = 1,    /* of a core: more than an idle sandbox uses */
    METER_STIRS = 2,             /* samples in a row with activity; one alone may be the daemon's beat */
    METER_CALM_MS = 3000, /* after this long without full load, or without other active sandboxes, no sandbox yields */
};

struct meter_work {
    uint64_t span_ns, cpu_ns; /* the time in which it could run, and the CPU time it used */
    bool is_machine_full;     /* no sandbox could use more without another using less */
    bool is_brief;            /* the span is too short for anything but full load */
};

/* The activity of one sandbox. */
struct meter_pace {
    bool is_flat_out; /* now or a moment ago: it yields if others are active */
    uint64_t calm_ns; /* how long it was below that */
    unsigned stirs;   /* samples in a row with activity below full load */
};

void meter_pace(struct meter_pace *pace, const struct meter_work *work);
bool meter_is_company(const struct meter_pace *pace); /* counts as active for those at full load */

/* Whether any other sandbox is active. */
struct meter_company {
    bool is_there; /* or was a moment ago */
    uint64_t alone_ns;
};

void meter_company(struct meter_company *company, uint64_t span_ns, bool is_any);

#endif
