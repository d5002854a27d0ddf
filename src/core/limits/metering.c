/* Looking at what sandboxes use: from outside through their cgroups, which is cheap, and by asking the agent, which is
   not. One timer serves all; one that idles is hardly looked at, and its agent not asked at all. */
#include <math.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/sandbox/sandbox.h"

enum {
    TICK_MIN_MS = 100,  /* looks that are due together are done together */
    RATE_MIN_MS = 50,   /* too short to tell a rate, and no caller looks more often than this */
    ASK_FRESH_MS = 250, /* an agent is not asked more often than this */
    ASK_DEADLINE_MS = 1000,
    WORD_GOOD_MS = 1000, /* an agent's word as old as this will do for callers that ask often */
    STEADY_MS = 10000,   /* over which CPU time is smoothed */
    WORK_NS = 20000000,  /* so much CPU time may have changed what an agent told; an idle VM takes half a minute */
    BUSY_PERCENT = 1,    /* of a core: more than an idle VM and its agent use */
};

static const struct meter_thresholds thresholds = {80, 95, 5};

/* ---- what is measured ---- */

double metering_limit(const struct sandbox *sandbox, enum meter_metric metric) {
    enum jail_limit limit;
    double most = sandbox->metering.most[metric];
    if (sandbox->config.data_size_bytes && !isnan(most)) return most; /* the volume is /data's, the limit is /tmp's */
    uint64_t value = meter_metric_limit(metric, &limit) ? jail_limit_value(&sandbox->config.limits, limit) : 0;
    return value ? (double)value : (double)NAN;
}

static double judged_value(const struct metering *metering, enum meter_metric metric) {
    return metric == METER_CPU ? metering->steady_cpu_percent : metering->now.values[metric];
}

static double percent_of_limit(const struct sandbox *sandbox, enum meter_metric metric) {
    double fullest = sandbox->metering.fullest_percent[metric];
    return isnan(fullest) ? judged_value(&sandbox->metering, metric) * 100 / metering_limit(sandbox, metric) : fullest;
}

static double cpu_percent(uint64_t cpu_ns, uint64_t passed_ms) {
    return (double)cpu_ns / 10000.0 / (double)passed_ms;
}

static void take_cpu(struct metering *metering, uint64_t cpu_ns, uint64_t now_ms) {
    uint64_t passed_ms = now_ms - metering->looked_ms;
    if (metering->looked_ms && cpu_ns >= metering->cpu_ns) {
        uint64_t used_ns = cpu_ns - metering->cpu_ns;
        uint64_t own_ns = busy_wait_own_ns(&metering->busy_wait, used_ns, &metering->busy_wait_ns);
        double share = passed_ms < STEADY_MS ? (double)passed_ms / STEADY_MS : 1;
        metering->now.values[METER_CPU] = cpu_percent(used_ns, passed_ms);
        metering->steady_cpu_percent += (cpu_percent(own_ns, passed_ms) - metering->steady_cpu_percent) * share;
    }
    metering->cpu_ns = cpu_ns;
    metering->looked_ms = now_ms;
}

static double known(uint64_t value) {
    return value == NODE_UNKNOWN ? (double)NAN : (double)value;
}

static void take_traffic(struct metering *metering, const struct node *node) {
    struct node_traffic now, *all = &metering->traffic, *before = &metering->counted;
    if (node_traffic(node, &now)) {
        bool is_another = now.in_bytes < before->in_bytes || now.out_bytes < before->out_bytes;
        if (is_another) *before = (struct node_traffic){0};
        all->in_bytes += now.in_bytes - before->in_bytes;
        all->out_bytes += now.out_bytes - before->out_bytes;
        *before = now;
        metering->has_traffic = true;
    }
    metering->now.values[METER_NETWORK_TOTAL] =
        metering->has_traffic ? (double)(metering->traffic.in_bytes + metering->traffic.out_bytes) : (double)NAN;
}

void metering_look(struct sandbox *sandbox) {
    struct node_usage usage;
    struct metering *metering = &sandbox->metering;
    uint64_t now_ms = clock_monotonic_ms();
    if (metering->looked_ms && now_ms - metering->looked_ms < RATE_MIN_MS) return;
    if (!sandbox->node) return;
    node_watch_disk(sandbox->node);
    node_usage(sandbox->node, &usage);
    for (unsigned i = 0; i < METER_METRIC_COUNT; i++) {
        enum jail_limit limit;
        /* CPU time and the network's bytes are computed from what was known before. */
        if (!meter_metric_is_outside(i) || i == METER_CPU || i == METER_NETWORK_TOTAL || !meter_metric_limit(i, &limit))
            continue;
        metering->now.values[i] = known(jail_limit_get(&usage.used, limit));
        metering->fullest_percent[i] = known(jail_limit_get(&usage.fullest_percent, limit));
        metering->most[i] = known(jail_limit_get(&usage.most, limit));
    }
    if (usage.cpu_ns != NODE_UNKNOWN) take_cpu(metering, usage.cpu_ns, now_ms);
    take_traffic(metering, sandbox->node);
}

/* ---- what the agent tells ---- */

static bool number_at(const struct term *map, const char *key, uint64_t *ret) {
    const struct term *term = term_map_get(map, key);
    return term && term_to_uint64(term, ret);
}

static void take_reductions(struct metering *metering, uint64_t reductions, uint64_t now_ms) {
    uint64_t passed_ms = now_ms - metering->asked_ms;
    if (metering->asked_ms && passed_ms >= RATE_MIN_MS && reductions >= metering->reductions)
        metering->now.values[METER_REDUCTIONS] = (double)(reductions - metering->reductions) * 1000 / (double)passed_ms;
    metering->reductions = reductions;
}

/* The members of `names` that are numbers; a node may tell anything. */
static json_t *numbers_json(const struct term *map, const char *const *names, size_t count) {
    json_t *object = json_object();
    for (size_t i = 0; i < count; i++) {
        uint64_t value;
        if (number_at(map, names[i], &value) && value <= INT64_MAX)
            json_object_set_new(object, names[i], json_integer((json_int_t)value));
    }
    return object;
}

static json_t *vm_json(const struct term *result) {
    static const char *const numbers[] = {"reductions",  "context_switches", "garbage_collections", "garbage_bytes",
                                          "io_in_bytes", "io_out_bytes",     "schedulers",          "uptime_ms"};
    static const char *const kinds[] = {"total", "processes", "system", "atom", "binary", "code", "ets"};
    const struct term *memory = term_map_get(result, "memory");
    json_t *object = numbers_json(result, numbers, ARRAY_SIZE(numbers));
    json_t *by_kind = json_object();
    for (size_t i = 0; memory && i < ARRAY_SIZE(kinds); i++) {
        uint64_t value;
        char name[32];
        snprintf(name, sizeof name, "%s_bytes", kinds[i]);
        if (number_at(memory, kinds[i], &value) && value <= INT64_MAX)
            json_object_set_new(by_kind, name, json_integer((json_int_t)value));
    }
    json_object_set_new(object, "memory", by_kind);
    return object;
}

static void take_word(struct sandbox *sandbox, const struct term *result) {
    struct metering *metering = &sandbox->metering;
    uint64_t now_ms = clock_monotonic_ms(), value;
    for (unsigned i = 0; i < METER_METRIC_COUNT; i++)
        if (!meter_metric_is_outside(i) && number_at(result, meter_metric_name(i), &value))
            metering->now.values[i] = (double)value;
    if (number_at(result, "reductions", &value)) take_reductions(metering, value, now_ms);
    metering->asked_ms = now_ms;
    metering->asked_cpu_ns = metering->cpu_ns;
    json_decref(metering->vm);
    metering->vm = vm_json(result);
}

/* ---- what it means ---- */

json_t *metering_value_json(enum meter_metric metric, double value) {
    if (isnan(value)) return json_null();
    return metric == METER_CPU ? json_real(round(value * 10) / 10) : json_integer((json_int_t)value);
}

/* Null without egress. */
void metering_put_traffic(const struct sandbox *sandbox, json_t *object) {
    const struct node_traffic *traffic = sandbox->metering.has_traffic ? &sandbox->metering.traffic : NULL;
    json_object_set_new(object, "network_in_bytes",
                        traffic ? json_integer((json_int_t)traffic->in_bytes) : json_null());
    json_object_set_new(object, "network_out_bytes",
                        traffic ? json_integer((json_int_t)traffic->out_bytes) : json_null());
}

static json_t *duration_json(double duration_ms) {
    return isfinite(duration_ms) ? json_integer((json_int_t)duration_ms) : json_null();
}

static void alert(struct sandbox *sandbox, enum meter_metric metric, const struct meter_trend *trend) {
    const struct metering *metering = &sandbox->metering;
    json_t *data = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "metric", meter_metric_name(metric), "level",
                             meter_level_name(metering->levels[metric]), "usage",
                             metering_value_json(metric, judged_value(metering, metric)), "limit",
                             metering_value_json(metric, metering_limit(sandbox, metric)), "percent",
                             json_integer((json_int_t)percent_of_limit(sandbox, metric)), "reached_in_ms",
                             duration_json(trend->reached_in_ms));
    if (data) alarm_event(sandbox->engine, &sandbox->limits.alarms, EVENT_ALERT, sandbox->id, data);
}

/* The agent tells of what it holds by itself. The kernel does not, and what it does at the limit is too late. */
static void act_from_outside(struct sandbox *sandbox, enum meter_metric metric) {
    enum jail_limit limit;
    if (meter_metric_is_outside(metric) && meter_metric_limit(metric, &limit))
        limit_reached(sandbox, limit, (uint64_t)judged_value(&sandbox->metering, metric),
                      (uint64_t)metering_limit(sandbox, metric), 0);
}

static void judge_metric(struct sandbox *sandbox, enum meter_metric metric, struct meter_situation *situation) {
    struct metering *metering = &sandbox->metering;
    struct meter_trend trend = meter_trend(&metering->history, metric, metering_limit(sandbox, metric));
    double percent = percent_of_limit(sandbox, metric);
    enum meter_level before = metering->levels[metric];
    metering->levels[metric] = meter_level_next(before, percent, &thresholds);
    if (metering->levels[metric] != before) alert(sandbox, metric, &trend);
    if (metering->levels[metric] == METER_CRITICAL && before != METER_CRITICAL) act_from_outside(sandbox, metric);
    /* All of its CPU time is nothing that could be exceeded. */
    if (metric == METER_CPU) return;
    situation->nearest_percent = fmax(situation->nearest_percent, percent);
    situation->soonest_ms = fmin(situation->soonest_ms, trend.reached_in_ms);
}

static void keep_on_disk(struct sandbox *sandbox) {
    const struct meter_history *history = &sandbox->metering.history;
    const struct meter_point *point = meter_history_at(history, METER_DAY, meter_history_count(history, METER_DAY) - 1);
    json_t *json = json_pack("{s:o, s:o}", "average", metering_values_json(point->averages), "peak",
                             metering_values_json(point->peaks));
    CLEANUP_FREE char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (text) store_add_usage(sandbox->engine->store, &(struct store_usage){sandbox->id, point->at_ms, text});
}

enum { STEP_MIN_MS = 1000 }; /* less is the clock being adjusted */

/* Samples are shown with wall time and measured by the machine's own. */
static void note_time(struct metering *metering) {
    int64_t wall_ms = clock_wall_ms(), offset_ms = wall_ms - (int64_t)clock_boot_ms();
    int64_t step_ms = offset_ms - metering->wall_offset_ms;
    if (metering->wall_offset_ms != 0 && (step_ms > STEP_MIN_MS || step_ms < -STEP_MIN_MS))
        meter_history_step(&metering->history, step_ms);
    metering->wall_offset_ms = offset_ms;
    metering->now.at_ms = wall_ms;
}

static void judge(struct sandbox *sandbox) {
    struct metering *metering = &sandbox->metering;
    bool is_busy = metering->now.values[METER_CPU] >= BUSY_PERCENT;
    struct meter_situation situation = {
        .is_busy = is_busy, .nearest_percent = 0, .soonest_ms = INFINITY, .idle_looks = metering->idle_looks};
    note_time(metering);
    if (meter_history_add(&metering->history, &metering->now) && sandbox->persistent && !sandbox->ending.is_destroying)
        keep_on_disk(sandbox); /* behind its removal it would be left for the next owner of the id */
    for (unsigned i = 0; i < METER_METRIC_COUNT; i++) judge_metric(sandbox, i, &situation);
    metering->next_ms = uv_now(sandbox->engine->loop) + meter_next_reading_ms(&situation);
    metering->idle_looks = is_busy ? 0 : metering->idle_looks + 1;
}

/* ---- asking ---- */

struct question {
    struct sandbox_ref ref;
    metering_done_fn done;
    void *data;
};

static void on_told(void *data, const struct term *result, const struct term *reason, const struct error *error) {
    struct question *question = data;
    struct sandbox *sandbox = sandbox_deref(&question->ref);
    (void)reason;
    if (sandbox && !error) {
        take_word(sandbox, result);
        if (sandbox->metering.next_ms) judge(sandbox);
    }
    question->done(question->data, sandbox);
    free(question);
}

static bool may_ask(const struct sandbox *sandbox) {
    return sandbox->status == STATUS_RUNNING && sandbox->node && node_is_ready(sandbox->node) &&
           !node_is_frozen(sandbox->node);
}

void metering_ask(struct sandbox *sandbox, metering_done_fn done, void *data) {
    const struct metering *metering = &sandbox->metering;
    bool is_fresh = metering->asked_ms && clock_monotonic_ms() - metering->asked_ms < ASK_FRESH_MS;
    struct question *question = may_ask(sandbox) && !is_fresh ? calloc(1, sizeof *question) : NULL;
    if (!question) {
        done(data, sandbox);
        return;
    }
    *question = (struct question){.ref = sandbox_ref(sandbox), .done = done, .data = data};
    struct buf args = BUF_INIT;
    struct term_map map = term_map_begin(&args);
    term_map_bool(&map, "usage", true);
    term_map_end(&map);
    node_call(sandbox->node, "info", &args, ASK_DEADLINE_MS, on_told, question);
}

static void on_renewed(void *data, struct sandbox *sandbox) {
    (void)data;
    if (sandbox) sandbox->metering.is_renewing = false;
}

void metering_ask_recent(struct sandbox *sandbox, metering_done_fn done, void *data) {
    struct metering *metering = &sandbox->metering;
    bool is_good = metering->asked_ms && clock_monotonic_ms() - metering->asked_ms < WORD_GOOD_MS;
    if (!is_good) {
        metering_ask(sandbox, done, data);
        return;
    }
    done(data, sandbox);
    if (metering->is_renewing) return;
    metering->is_renewing = true;
    metering_ask(sandbox, on_renewed, NULL);
}

/* ---- the timer ---- */

static void on_tick(uv_timer_t *timer);

static void schedule(struct engine *engine) {
    uint64_t next_ms = UINT64_MAX, now_ms = uv_now(engine->loop);
    size_t at = 0;
    void *value;
    while (map_next(&engine->sandboxes, &at, NULL, &value)) {
        const struct metering *metering = &((const struct sandbox *)value)->metering;
        if (metering->next_ms && !metering->is_asking && metering->next_ms < next_ms) next_ms = metering->next_ms;
    }
    if (next_ms == UINT64_MAX || engine->closing.is_begun)
        uv_timer_stop(&engine->meter_timer);
    else
        uv_timer_start(&engine->meter_timer, on_tick, next_ms > now_ms + TICK_MIN_MS ? next_ms - now_ms : TICK_MIN_MS,
                       0);
}

static void on_asked(void *data, struct sandbox *sandbox) {
    struct engine *engine = data;
    if (!sandbox) return;
    struct metering *metering = &sandbox->metering;
    metering->is_asking = false;
    /* One that did not answer is asked again when it is its turn. */
    if (metering->next_ms && metering->next_ms <= uv_now(engine->loop)) judge(sandbox);
    schedule(engine);
}

static void look_at(struct sandbox *sandbox) {
    struct metering *metering = &sandbox->metering;
    metering_look(sandbox);
    if (sandbox->node) limit_look_at_refusals(sandbox);
    limit_throttle_over(sandbox);
    bool has_worked = !metering->asked_ms || metering->cpu_ns - metering->asked_cpu_ns > WORK_NS;
    if (!has_worked || !may_ask(sandbox)) {
        judge(sandbox);
        return;
    }
    metering->is_asking = true;
    metering_ask(sandbox, on_asked, sandbox->engine);
}

static bool is_due(const struct sandbox *sandbox) {
    const struct metering *metering = &sandbox->metering;
    return metering->next_ms && !metering->is_asking && metering->next_ms <= uv_now(sandbox->engine->loop);
}

/* What does not fit into this turn is due at the next tick. One always fits: strangers who keep every turn full must
   not keep limits from being looked at. */
static void on_tick(uv_timer_t *timer) {
    struct engine *engine = timer->data;
    bool is_full = false;
    size_t at = 0;
    void *value;
    loop_note(engine->loop, "metering", NULL);
    while (!is_full && map_next(&engine->sandboxes, &at, NULL, &value)) {
        if (!is_due(value)) continue;
        look_at(value);
        is_full = loop_turn_is_full(engine->loop);
    }
    schedule(engine);
}

void metering_hasten(struct sandbox *sandbox) {
    struct metering *metering = &sandbox->metering;
    uv_timer_t *timer = &sandbox->engine->meter_timer;
    uint64_t soon_ms = uv_now(sandbox->engine->loop) + METER_NEAR_MS;
    if (metering->idle_looks == 0 || metering->next_ms <= soon_ms) return;
    metering->next_ms = soon_ms;
    if (!sandbox->engine->closing.is_begun &&
        (!uv_is_active((uv_handle_t *)timer) || uv_timer_get_due_in(timer) > METER_NEAR_MS))
        uv_timer_start(timer, on_tick, METER_NEAR_MS, 0);
}

int metering_open(struct engine *engine) {
    engine->meter_timer.data = engine;
    return uv_timer_init(engine->loop, &engine->meter_timer);
}

void metering_stop(struct engine *engine) {
    uv_timer_stop(&engine->meter_timer);
}

/* ---- beginnings and ends ---- */

static void forget_percents(struct metering *metering) {
    for (unsigned i = 0; i < METER_METRIC_COUNT; i++) metering->fullest_percent[i] = metering->most[i] = (double)NAN;
}

void metering_init(struct sandbox *sandbox) {
    forget_percents(&sandbox->metering);
    meter_history_init(&sandbox->metering.history);
    meter_sample_clear(&sandbox->metering.now);
}

void metering_free(struct sandbox *sandbox) {
    meter_history_free(&sandbox->metering.history);
    json_decref(sandbox->metering.vm);
    json_decref(sandbox->metering.tasks);
}

void metering_end(struct sandbox *sandbox) {
    struct metering *metering = &sandbox->metering;
    sandbox->limits.throttled_until_ms = 0;
    struct meter_history history = metering->history;
    bool is_asking = metering->is_asking;
    json_decref(metering->vm);
    json_decref(metering->tasks);
    *metering = (struct metering){.history = history, .is_asking = is_asking};
    forget_percents(metering);
    meter_sample_clear(&metering->now);
}

void metering_begin(struct sandbox *sandbox) {
    if (sandbox->metering.next_ms) return;
    metering_look(sandbox);
    sandbox->metering.next_ms = uv_now(sandbox->engine->loop) + METER_NEAR_MS;
    schedule(sandbox->engine);
    cpu_watch_begin(sandbox->engine);
}

/* ---- points, as JSON and from it ---- */

json_t *metering_values_json(const float *values) {
    json_t *object = json_object();
    for (unsigned i = 0; i < METER_METRIC_COUNT; i++)
        if (!isnan(values[i]))
            json_object_set_new(object, meter_metric_name(i), metering_value_json(i, (double)values[i]));
    return object;
}

static void read_values(json_t *object, float *ret) {
    for (unsigned i = 0; i < METER_METRIC_COUNT; i++) {
        json_t *value = json_object_get(object, meter_metric_name(i));
        ret[i] = json_is_number(value) ? (float)json_number_value(value) : NAN;
    }
}

void metering_restore(struct engine *engine, const char *sandbox_id, int64_t at_ms, const char *text) {
    struct sandbox *sandbox = map_get(&engine->sandboxes, sandbox_id);
    json_t *json = sandbox ? json_loads(text, 0, NULL) : NULL;
    struct meter_point point = {.at_ms = at_ms};
    if (!json) return;
    read_values(json_object_get(json, "average"), point.averages);
    read_values(json_object_get(json, "peak"), point.peaks);
    meter_history_restore(&sandbox->metering.history, &point);
    json_decref(json);
}
