/* Between the files that measure: what is known of a sandbox's use, and when it is looked at again. */
#ifndef CORE_LIMITS_METERING_H
#define CORE_LIMITS_METERING_H

#include "core/limits/busy_wait.h"
#include "meter/meter.h"
#include "node/node.h"

struct engine;
struct sandbox;

struct metering {
    struct meter_history history;
    struct meter_sample now; /* of which a look from outside renews a part only */
    enum meter_level levels[METER_METRIC_COUNT];
    uint64_t next_ms;           /* on the loop's clock; 0: never, nothing runs */
    int64_t wall_offset_ms;     /* of the wall clock from the machine's own, at the last sample; 0: none was */
    uint64_t looked_ms, cpu_ns; /* at the last look from outside */
    uint64_t cpu_watch_ns, cpu_watch_used_ns; /* at the last one that was for CPU time alone; 0: none to go by */
    uint64_t cpu_watch_round;                 /* the last one that came by */
    bool is_working;                          /* by that look */
    bool is_counted;                          /* among the engine's workers */
    struct busy_wait busy_wait;
    uint64_t cpu_watch_busy_wait_ns, busy_wait_ns; /* as far as the CPU watch and the other looks have counted it */
    struct meter_pace pace;
    uint64_t asked_ms, asked_cpu_ns, reductions; /* at the agent's last word; 0: it has told nothing yet */
    double steady_cpu_percent;                   /* over several looks: a burst is no alert */
    double fullest_percent[METER_METRIC_COUNT];  /* of the fullest place, where one is full before all are; NAN */
    double most[METER_METRIC_COUNT];             /* what all its places have room for; NAN */
    struct node_traffic traffic;                 /* of its egress, at the last look */
    struct node_traffic counted;                 /* of that by the one it has now: another one counts from 0 */
    bool has_traffic;
    unsigned idle_looks;
    uint64_t tasks_refused, files_refused;     /* as far as was told */
    uint64_t cpu_watch_refused, forks_told_ms; /* tasks, at the last CPU watch; when they were last told of */
    bool is_asking, is_renewing;
    json_t *vm;    /* what else the agent told, or NULL */
    json_t *tasks; /* as stats has last shown them, or NULL */
    uint64_t tasks_ms;
};

/* The look at all nodes for CPU time alone, which finds those that begin to work. */
struct cpu_watch {
    uv_timer_t timer;
    uint64_t looked_ns, used_ns; /* when the nodes were last looked at; the sum of their CPU time then */
    struct meter_company company;
    unsigned workers; /* sandboxes that worked at the last look */
    uint64_t round;   /* of visits to the nodes: one takes several turns of the loop where they are many */
    unsigned counted; /* workers, in the look that is under way */
    bool has_company; /* in that look */
    bool looks_again; /* soon, for a sandbox that works */
    bool is_machine_full;
    uint64_t machine_ns, machine_idle_ns; /* when the machine was looked at; how long its cores had been idle then */
};

int metering_open(struct engine *engine);
void metering_stop(struct engine *engine); /* look no more; the timer stays to be closed */

void metering_init(struct sandbox *sandbox);
void metering_free(struct sandbox *sandbox);
void metering_begin(struct sandbox *sandbox); /* a VM has started, or is known again */
/* It was looked at rarely, since it idled, and has begun to work. */
void metering_hasten(struct sandbox *sandbox);
void metering_end(struct sandbox *sandbox); /* it is gone */

/* What the kernel tells: memory, CPU, disk, descriptors. Cheap. */
void metering_look(struct sandbox *sandbox);
/* The rest from the agent; done is called in any case, with NULL when the sandbox is gone. Not from inside, unless
   there is no agent to ask or its last word is recent. */
typedef void (*metering_done_fn)(void *data, struct sandbox *sandbox);
void metering_ask(struct sandbox *sandbox, metering_done_fn done, void *data);
/* The same for callers that ask many times a second: where the agent's last word is good enough they have it at once,
   and the agent is asked for the next caller. */
void metering_ask_recent(struct sandbox *sandbox, metering_done_fn done, void *data);

/* What a metric may be; NAN: anything. */
double metering_limit(const struct sandbox *sandbox, enum meter_metric metric);

void metering_put_traffic(const struct sandbox *sandbox, json_t *object); /* how much went in and out */
json_t *metering_value_json(enum meter_metric metric, double value);
/* Averages or peaks of a point by the metrics' names; unknown ones are left out. */
json_t *metering_values_json(const float *values);
void metering_restore(struct engine *engine, const char *sandbox_id, int64_t at_ms, const char *text);

/* ---- cpu_watch.c: finds nodes that begin to work ---- */

void cpu_watch_open(struct engine *engine);
void cpu_watch_begin(struct engine *engine); /* there is a node to watch */
void cpu_watch_stop(struct engine *engine);  /* as metering_stop */

#endif
