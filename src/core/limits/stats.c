/* stats: what a sandbox uses, used, and will use if it goes on like this. top: which sandboxes use most. */
#include <math.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/sandbox/list.h"
#include "core/sandbox/sandbox.h"

enum {
    TASKS_SHOWN = 64,
    TASKS_FRESH_MS = 50,
    TOP_DEADLINE_MS = 2000,
    TOP_TEXT_MAX_BYTES = 512,
    TOP_MAX = 1000, /* as many as may be asked for */
};

/* ---- stats ---- */

static json_t *now_json(const struct sandbox *sandbox) {
    json_t *object = json_object();
    for (unsigned i = 0; i < METER_METRIC_COUNT; i++)
        json_object_set_new(object, meter_metric_name(i), metering_value_json(i, sandbox->metering.now.values[i]));
    metering_put_traffic(sandbox, object);
    return object;
}

static json_t *limit_json(const struct sandbox *sandbox, enum meter_metric metric) {
    const struct metering *metering = &sandbox->metering;
    double limit = metering_limit(sandbox, metric), value = metering->now.values[metric];
    struct meter_trend trend = meter_trend(&metering->history, metric, limit);
    json_t *percent = isnan(value) ? json_null() : json_integer((json_int_t)round(value * 100 / limit));
    json_t *per_s = isnan(trend.per_s) ? json_null() : json_real(round(trend.per_s * 10) / 10);
    json_t *reached = isfinite(trend.reached_in_ms) ? json_integer((json_int_t)trend.reached_in_ms) : json_null();
    return json_pack("{s:s, s:o, s:o, s:o, s:s, s:o, s:o}", "metric", meter_metric_name(metric), "usage",
                     metering_value_json(metric, value), "limit", metering_value_json(metric, limit), "percent",
                     percent, "level", meter_level_name(metering->levels[metric]), "growth_per_s", per_s,
                     "reached_in_ms", reached);
}

static json_t *limits_json(const struct sandbox *sandbox) {
    json_t *array = json_array();
    for (unsigned i = 0; i < METER_METRIC_COUNT; i++)
        if (!isnan(metering_limit(sandbox, i))) json_array_append_new(array, limit_json(sandbox, i));
    return array;
}

static json_t *history_json(const struct sandbox *sandbox, enum meter_span span) {
    const struct meter_history *history = &sandbox->metering.history;
    json_t *array = json_array();
    for (size_t i = 0; i < meter_history_count(history, span); i++) {
        const struct meter_point *point = meter_history_at(history, span, i);
        char time[RFC3339_BYTES];
        clock_rfc3339(point->at_ms, time);
        json_array_append_new(array, json_pack("{s:s, s:o, s:o}", "time", time, "average",
                                               metering_values_json(point->averages), "peak",
                                               metering_values_json(point->peaks)));
    }
    return array;
}

static json_t *read_tasks(const struct sandbox *sandbox) {
    struct node_task tasks[TASKS_SHOWN];
    size_t count = sandbox->node ? node_tasks(sandbox->node, tasks, TASKS_SHOWN) : 0;
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        char state[2] = {tasks[i].state, '\0'};
        json_array_append_new(array,
                              json_pack("{s:i, s:s, s:s, s:i, s:I, s:I}", "pid", (int)tasks[i].pid, "name",
                                        tasks[i].name, "state", state, "threads", (int)tasks[i].threads, "memory_bytes",
                                        (json_int_t)tasks[i].memory_bytes, "cpu_ms", (json_int_t)tasks[i].cpu_ms));
    }
    return array;
}

/* The node's processes as the kernel has them: what a frozen VM can't tell itself. Each is a file to read, so callers
   that ask at the same time share one list. */
static json_t *tasks_json(struct sandbox *sandbox) {
    struct metering *metering = &sandbox->metering;
    uint64_t now_ms = clock_monotonic_ms();
    if (!metering->tasks || now_ms - metering->tasks_ms >= TASKS_FRESH_MS) {
        json_decref(metering->tasks);
        metering->tasks = read_tasks(sandbox);
        metering->tasks_ms = now_ms;
    }
    return json_incref(metering->tasks);
}

static bool find_span(const char *name, enum meter_span *ret) {
    for (unsigned i = 0; name && i < METER_SPAN_COUNT; i++) {
        if (strcmp(name, meter_span_name(i)) != 0) continue;
        *ret = i;
        return true;
    }
    return false;
}

static json_t *stats_json(struct sandbox *sandbox, json_t *params) {
    const struct metering *metering = &sandbox->metering;
    enum meter_span span;
    char time[RFC3339_BYTES];
    metering_look(sandbox);
    clock_rfc3339(clock_wall_ms(), time);
    json_t *object =
        json_pack("{s:s, s:s, s:b, s:b, s:b, s:s, s:o, s:o, s:o, s:o}", "id", sandbox->id, "status",
                  status_name(sandbox->status), "frozen", sandbox->node && node_is_frozen(sandbox->node), "throttled",
                  sandbox->limits.throttled_until_ms != 0, "yields", sandbox->node && node_yields(sandbox->node),
                  "time", time, "now", now_json(sandbox), "vm", metering->vm ? json_incref(metering->vm) : json_null(),
                  "limits", limits_json(sandbox), "tasks", tasks_json(sandbox));
    if (find_span(json_string_value(json_object_get(params, "history")), &span))
        json_object_set_new(object, "history", history_json(sandbox, span));
    return object;
}

static json_t *make_stats(struct engine *engine, struct request *request, struct error *reterr) {
    struct sandbox *sandbox = sandbox_find(engine, request, reterr);
    return sandbox ? stats_json(sandbox, request->params) : NULL;
}

static void on_asked(void *data, struct sandbox *sandbox) {
    struct request *request = data;
    (void)sandbox;
    answer_made(request->state, request, make_stats);
}

void engine_stats(struct engine *engine, struct request *request) {
    struct error error;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    request->state = engine;
    if (sandbox)
        metering_ask(sandbox, on_asked, request);
    else
        answer_error(engine, request, &error, NULL);
}

/* ---- top: of all sandboxes ---- */

static const char *sorted_by(json_t *params) {
    const char *by = json_string_value(json_object_get(params, "by"));
    return string_equal(by, "queue")        ? "message_queue"
           : string_equal(by, "reductions") ? "cpu_percent"
                                            : "memory_bytes";
}

static json_t *row_json(struct sandbox *sandbox) {
    metering_look(sandbox);
    json_t *row = now_json(sandbox);
    bool is_frozen = sandbox->node && node_is_frozen(sandbox->node);
    json_object_set_new(row, "id", json_string(sandbox->id));
    json_object_set_new(row, "status", json_string(is_frozen ? "frozen" : status_name(sandbox->status)));
    json_object_set_new(row, "profile", json_string(sandbox->config.profile->jail.name));
    return row;
}

struct ranked {
    json_t *row;
    double value;
};

static int by_value(const void *a, const void *b) {
    const struct ranked *left = a, *right = b;
    return left->value < right->value ? 1 : left->value > right->value ? -1 : 0;
}

/* Those that use most, the first ones first. */
static json_t *rank(struct request *request, json_t *items) {
    size_t count = json_array_size(items);
    size_t shown = (size_t)json_integer_value(json_object_get(request->params, "count"));
    const char *key = sorted_by(request->params);
    CLEANUP_FREE struct ranked *rows = zeroed_or_abort(count + 1, sizeof *rows);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        rows[i].row = json_array_get(items, i);
        rows[i].value = json_number_value(json_object_get(rows[i].row, key));
    }
    qsort(rows, count, sizeof *rows, by_value);
    for (size_t i = 0; i < count && i < shown; i++) json_array_append(list, rows[i].row);
    json_decref(items);
    return list;
}

static const struct list_form as_ranks = {.name = "top", .item = row_json, .end = rank};

/* ---- top: of one sandbox's processes ---- */

static void set_text(json_t *row, const struct term *process, const char *key) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP_FREE char *words = NULL;
    const struct term *value = term_map_get(process, key);
    json_t *json = NULL;
    if (value && value->type == TERM_PID) {
        term_print(&text, value, TERM_ERLANG, TOP_TEXT_MAX_BYTES);
        json = json_string(buf_string(&text));
    } else if (value && !term_is_atom(value, "nil") && term_to_text(value, TOP_TEXT_MAX_BYTES, &words)) {
        json = json_string(words);
    }
    json_object_set_new(row, key, json ? json : json_null());
}

static json_t *process_json(const struct term *process) {
    static const char *const texts[] = {"pid", "name", "initial_call", "current_function", "status"};
    static const char *const numbers[] = {"message_queue_len", "memory_bytes", "heap_bytes", "reductions",
                                          "reductions_per_s"};
    json_t *row = json_object();
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) set_text(row, process, texts[i]);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        uint64_t number;
        const struct term *value = term_map_get(process, numbers[i]);
        if (value && term_to_uint64(value, &number) && number <= INT64_MAX)
            json_object_set_new(row, numbers[i], json_integer((json_int_t)number));
    }
    return row;
}

/* On a thread where the rows are many. */
static void *processes_json(const struct term *result) {
    const struct term *processes = term_map_get(result, "processes"), *process;
    json_t *list = json_array();
    for (size_t i = 0; processes && i < TOP_MAX && (process = term_at(processes, i)); i++)
        json_array_append_new(list, process_json(process));
    return list;
}

static void release_json(void *list) {
    json_decref(list);
}

static const struct node_preparation as_json = {.make = processes_json, .release = release_json};

static void on_top(void *data, void *list, const struct term *reason, const struct error *error) {
    struct request *request = data;
    (void)reason;
    if (error)
        answer_error(request->state, request, error, NULL);
    else
        answer_ok(request->state, request, list);
}

static void ask_processes(struct engine *engine, struct request *request, struct sandbox *sandbox) {
    struct buf args = BUF_INIT;
    struct error error;
    if (sandbox_check_runs(sandbox, &error) < 0) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    struct term_map map = term_map_begin(&args);
    term_map_atom(&map, "by", json_string_value(json_object_get(request->params, "by")));
    term_map_number(&map, "count", (uint64_t)json_integer_value(json_object_get(request->params, "count")));
    term_map_end(&map);
    node_call_prepared(sandbox->node, "top", &args, TOP_DEADLINE_MS, &as_json, on_top, request);
}

void engine_top(struct engine *engine, struct request *request) {
    struct error error;
    request->state = engine;
    if (!json_object_get(request->params, "id")) {
        list_sandboxes(engine, request, &as_ranks);
        return;
    }
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    if (sandbox)
        ask_processes(engine, request, sandbox);
    else
        answer_error(engine, request, &error, NULL);
}
