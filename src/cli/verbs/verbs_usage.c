/* stats, top and limits: tables of what is used and allowed; on a terminal, top is a screen that is drawn again. */
#include <string.h>
#include <time.h>

#include "cli/cli_internal.h"

enum { INTERVAL_MS = 1000 };

static uint32_t interval_of(const struct arguments *arguments) {
    json_t *interval = json_object_get(arguments->params, "interval_ms");
    return json_is_integer(interval) ? (uint32_t)json_integer_value(interval) : INTERVAL_MS;
}

static void pause_for(uint32_t pause_ms) {
    nanosleep(&(struct timespec){pause_ms / 1000, (long)(pause_ms % 1000) * 1000000}, NULL);
}

static bool is_set(const struct arguments *arguments, const char *name) {
    return json_is_true(json_object_get(arguments->params, name));
}

/* Home, and clear what follows: a screen that is cleared first flickers. */
static void begin_screen(bool redraws) {
    if (redraws) fputs("\033[H\033[J", stdout);
}

/* ---- top ---- */

static const struct column sandbox_columns[] = {
    {"ID", "id", false},
    {"STATUS", "status", false},
    {"PROFILE", "profile", false},
    {"MEMORY", "memory_bytes", true},
    {"CPU", "cpu_percent", true},
    {"PROCESSES", "processes", true},
    {"RUN QUEUE", "run_queue", true},
    {"REDUCTIONS/S", "reductions_per_s", true},
    {"LONGEST QUEUE", "message_queue", true},
    {"ETS", "ets_memory_bytes", true},
    {"ATOMS", "atoms", true},
};

static const struct column process_columns[] = {
    {"PID", "pid", false},
    {"NAME", "name", false},
    {"MEMORY", "memory_bytes", true},
    {"QUEUE", "message_queue_len", true},
    {"REDUCTIONS", "reductions", true},
    {"STATUS", "status", false},
    {"BEGAN AS", "initial_call", false},
    {"IS IN", "current_function", false},
};

static void show_top(const struct cli *cli, const struct arguments *arguments, json_t *list) {
    bool is_of_one = json_object_get(arguments->params, "id") != NULL;
    if (cli->json)
        view_json(stdout, list);
    else if (is_of_one)
        columns_print(stdout, cli->out_colour, process_columns, ARRAY_SIZE(process_columns), list);
    else
        columns_print(stdout, cli->out_colour, sandbox_columns, ARRAY_SIZE(sandbox_columns), list);
    fflush(stdout);
}

int verb_top(struct cli *cli, const struct op *op, struct arguments *arguments) {
    bool redraws = isatty(STDOUT_FILENO) && !cli->json && !is_set(arguments, "once");
    for (;;) {
        CLEANUP_JSON json_t *list = NULL;
        struct sbx_error error;
        if (session_call(cli, op, arguments->params, &list, &error) < 0) return fail_call(cli, &error);
        begin_screen(redraws);
        show_top(cli, arguments, list);
        if (!redraws) return 0;
        pause_for(interval_of(arguments));
    }
}

/* ---- stats ---- */

/* "1.2 MiB", in the unit that the metric's name ends with. */
static json_t *quantity(const char *metric, json_t *value, const char *prefix) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    if (!json_is_number(value)) return json_null();
    buf_append_string(&text, prefix);
    format_value(metric, value, &text);
    return json_string(buf_string(&text));
}

static json_t *limit_row(json_t *limit) {
    const char *metric = json_string_value(json_object_get(limit, "metric"));
    json_t *growth = json_object_get(limit, "growth_per_s");
    if (!metric) return json_object();
    return json_pack("{s:s, s:o, s:o, s:O?, s:O?, s:o, s:O?}", "metric", metric, "usage",
                     quantity(metric, json_object_get(limit, "usage"), ""), "limit",
                     quantity(metric, json_object_get(limit, "limit"), ""), "share_percent",
                     json_object_get(limit, "percent"), "level", json_object_get(limit, "level"), "growth",
                     json_number_value(growth) > 0 ? quantity(metric, growth, "+") : json_null(), "reached_in_ms",
                     json_object_get(limit, "reached_in_ms"));
}

static void show_limits(const struct cli *cli, json_t *limits) {
    static const struct column columns[] = {
        {"LIMIT", "metric", false},
        {"USED", "usage", true},
        {"OF", "limit", true},
        {"SHARE", "share_percent", true},
        {"LEVEL", "level", false},
        {"GROWTH PER S", "growth", true},
        {"REACHED IN", "reached_in_ms", true},
    };
    CLEANUP_JSON json_t *rows = json_array();
    size_t index;
    json_t *limit;
    json_array_foreach(limits, index, limit) json_array_append_new(rows, limit_row(limit));
    columns_print(stdout, cli->out_colour, columns, ARRAY_SIZE(columns), rows);
}

static void show_tasks(const struct cli *cli, json_t *tasks) {
    static const struct column columns[] = {
        {"OS PID", "pid", true},      {"NAME", "name", false},          {"STATE", "state", false},
        {"THREADS", "threads", true}, {"MEMORY", "memory_bytes", true}, {"CPU TIME", "cpu_ms", true},
    };
    columns_print(stdout, cli->out_colour, columns, ARRAY_SIZE(columns), tasks);
}

static void show_history(const struct cli *cli, json_t *history) {
    static const struct column columns[] = {
        {"TIME", "time", false},
        {"MEMORY", "average.memory_bytes", true},
        {"PEAK", "peak.memory_bytes", true},
        {"CPU", "average.cpu_percent", true},
        {"PEAK", "peak.cpu_percent", true},
        {"PROCESSES", "average.processes", true},
        {"ATOMS", "average.atoms", true},
    };
    if (json_array_size(history) == 0) return;
    fputc('\n', stdout);
    columns_print(stdout, cli->out_colour, columns, ARRAY_SIZE(columns), history);
}

static void show_stats(const struct cli *cli, json_t *stats) {
    if (cli->json) {
        view_json(stdout, stats);
        fflush(stdout);
        return;
    }
    bool is_frozen = json_is_true(json_object_get(stats, "frozen"));
    printf("%s is %s\n\n", json_string_value(json_object_get(stats, "id")),
           is_frozen ? "frozen" : json_string_value(json_object_get(stats, "status")));
    show_limits(cli, json_object_get(stats, "limits"));
    fputc('\n', stdout);
    view_object(stdout, cli->out_colour, json_object_get(stats, "now"));
    fputc('\n', stdout);
    if (json_is_object(json_object_get(stats, "vm")))
        view_object(stdout, cli->out_colour, json_object_get(stats, "vm"));
    fputc('\n', stdout);
    show_tasks(cli, json_object_get(stats, "tasks"));
    show_history(cli, json_object_get(stats, "history"));
    fflush(stdout);
}

/* Without a name: all of them, as top has them. */
static int stats_of_all(struct cli *cli, struct arguments *arguments) {
    const struct op *top = ops_find("top");
    if (!is_set(arguments, "follow")) json_object_set_new(arguments->params, "once", json_true());
    json_object_del(arguments->params, "follow");
    json_object_del(arguments->params, "history");
    return verb_top(cli, top, arguments);
}

int verb_stats(struct cli *cli, const struct op *op, struct arguments *arguments) {
    bool follows = is_set(arguments, "follow");
    bool redraws = follows && isatty(STDOUT_FILENO) && !cli->json;
    if (!json_object_get(arguments->params, "id")) return stats_of_all(cli, arguments);
    do {
        CLEANUP_JSON json_t *stats = NULL;
        struct sbx_error error;
        if (session_call(cli, op, arguments->params, &stats, &error) < 0) return fail_call(cli, &error);
        begin_screen(redraws);
        show_stats(cli, stats);
        if (follows) pause_for(interval_of(arguments));
    } while (follows);
    return 0;
}

/* ---- limits ---- */

/* `max-run` as the flags have it, `max_run` as JSON has it. */
static json_t *underscored(json_t *pairs) {
    json_t *renamed = json_object();
    const char *name;
    json_t *value;
    json_object_foreach(pairs, name, value) {
        CLEANUP_FREE char *key = strdup(name);
        for (char *at = key; at && *at; at++)
            if (*at == '-') *at = '_';
        if (key) json_object_set(renamed, key, value);
    }
    return renamed;
}

static json_t *shown_limit(json_t *limit) {
    const char *field = json_string_value(json_object_get(limit, "field"));
    json_t *value = json_object_get(limit, "value");
    return json_pack("{s:O?, s:o, s:O?, s:O?}", "limit", json_object_get(limit, "limit"), "value",
                     json_is_null(value) ? json_string("none") : quantity(field ? field : "", value, ""), "policy",
                     json_object_get(limit, "policy"), "held_by", json_object_get(limit, "held_by"));
}

int verb_limits(struct cli *cli, const struct op *op, struct arguments *arguments) {
    static const struct column columns[] = {{"LIMIT", "limit", false},
                                            {"VALUE", "value", true},
                                            {"WHEN REACHED", "policy", false},
                                            {"HELD BY", "held_by", false}};
    CLEANUP_JSON json_t *list = NULL;
    CLEANUP_JSON json_t *rows = json_array();
    struct sbx_error error;
    size_t index;
    json_t *limit, *pairs = json_object_get(arguments->params, "set");
    if (pairs) json_object_set_new(arguments->params, "set", underscored(pairs));
    if (session_call(cli, op, arguments->params, &list, &error) < 0) return fail_call(cli, &error);
    if (cli->json) {
        view_json(stdout, list);
        return 0;
    }
    json_array_foreach(list, index, limit) json_array_append_new(rows, shown_limit(limit));
    columns_print(stdout, cli->out_colour, columns, ARRAY_SIZE(columns), rows);
    return 0;
}
