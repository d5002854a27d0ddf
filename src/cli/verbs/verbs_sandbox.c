/* Commands on sandboxes: create, restart, freeze, thaw, list, and those that take several names, such as destroy. Also
   the view of all operations that have none of their own. */
#include <string.h>

#include "cli/cli_internal.h"

/* ---- any operation: its answer as it is ---- */

static int show_item(struct cli *cli, json_t *item, void *data) {
    (void)cli, (void)data;
    json_dumpf(item, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
    fputc('\n', stdout);
    fflush(stdout);
    return 0;
}

static void show(const struct cli *cli, const struct op *op, json_t *answer) {
    if (cli->json || (!json_is_object(answer) && !json_is_array(answer)))
        view_json(stdout, answer);
    else if (op->shape != OP_OBJECT)
        view_list(stdout, cli->out_colour, answer);
    else
        view_object(stdout, cli->out_colour, answer);
}

/* A stream that goes on is shown as it comes; one that ends is an array like any list. */
int verb_any(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *answer = NULL;
    struct sbx_error error;
    json_t *follow = json_object_get(arguments->params, "follow");
    bool follows = json_is_true(follow) || string_equal(json_string_value(follow), "true");
    struct progress *progress = follows ? NULL : progress_start(cli, "%s", op->name);
    int result = follows ? session_stream(cli, op, arguments->params, show_item, NULL, &answer, &error)
                         : session_call(cli, op, arguments->params, &answer, &error);
    progress_stop(progress);
    if (result < 0) return fail_call(cli, &error);
    if (!follows) show(cli, op, answer);
    return 0;
}

/* ---- create, restart ---- */

static void print_warning(const struct cli *cli, json_t *text) {
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    format_value("warning", text, &line);
    fprintf(stderr, "%swarning:%s %s\n", style_code(cli->err_colour, STYLE_YELLOW),
            style_code(cli->err_colour, STYLE_PLAIN), buf_string(&line));
}

/* "counter is running: Counter.Supervisor, profile medium, 64 MiB, 212 ms" */
static void summarize(const struct cli *cli, json_t *sandbox, uint64_t started_ms) {
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    format_value("id", json_object_get(sandbox, "id"), &line);
    buf_append_string(&line, " is ");
    format_value("status", json_object_get(sandbox, "status"), &line);
    buf_append_string(&line, ": ");
    json_t *supervisor = json_object_get(sandbox, "supervisor_module");
    format_value("name", json_is_string(supervisor) ? supervisor : json_object_get(sandbox, "app_name"), &line);
    buf_append_string(&line, ", profile ");
    format_value("profile", json_object_get(sandbox, "profile"), &line);
    buf_append_string(&line, ", ");
    format_duration_ms((int64_t)(clock_monotonic_ms() - started_ms), &line);
    fprintf(stderr, "%s%s%s\n", style_code(cli->err_colour, STYLE_DIM), buf_string(&line),
            style_code(cli->err_colour, STYLE_PLAIN));
    size_t i;
    json_t *warning;
    json_array_foreach(json_object_get(sandbox, "warnings"), i, warning) print_warning(cli, warning);
    json_t *last_error = json_at(sandbox, "last_error.detail"); /* it runs all the same */
    if (json_is_string(last_error)) print_warning(cli, last_error);
    json_t *lost = json_object_get(sandbox, "lost_guarantees");
    if (json_array_size(lost) == 0) return;
    buf_clear(&line);
    format_value("lost", lost, &line);
    fprintf(stderr, "%snot enforced here:%s %s\n", style_code(cli->err_colour, STYLE_YELLOW),
            style_code(cli->err_colour, STYLE_PLAIN), buf_string(&line));
}

/* What a create spent its time on; "project opened       0.8 ms" and so on. */
static void summarize_timing(const struct cli *cli, json_t *sandbox) {
    json_t *timing = json_object_get(sandbox, "timing");
    bool is_warm = string_equal(json_string_value(json_object_get(timing, "node")), "warm");
    bool is_found = json_is_true(json_at(sandbox, "compilation.cache_hit"));
    const struct {
        const char *key, *label;
    } lines[] = {
        {"opened_us", "project opened"},
        {"compiled_us", is_found ? "compiled before" : "compiled"},
        {"scanned_us", "scanned"},
        {"node_us", is_warm ? "waiting node taken, limits and code given" : "node booted, with limits and code"},
        {"started_us", "application started"},
        {"saved_us", "written to the registry"},
        {"total_us", "in all"},
    };
    for (size_t i = 0; timing && i < ARRAY_SIZE(lines); i++)
        fprintf(stderr, "%s%9.2f ms%s  %s\n", style_code(cli->err_colour, STYLE_BOLD),
                (double)json_integer_value(json_object_get(timing, lines[i].key)) / 1000,
                style_code(cli->err_colour, STYLE_PLAIN), lines[i].label);
}

static int start(struct cli *cli, const struct op *op, struct arguments *arguments, const char *doing) {
    CLEANUP_JSON json_t *sandbox = NULL;
    struct sbx_error error;
    const char *id = json_string_value(json_object_get(arguments->params, "id"));
    uint64_t started_ms = clock_monotonic_ms();
    struct progress *progress = progress_start(cli, "%s %s", doing, id);
    int result = session_call(cli, op, arguments->params, &sandbox, &error);
    progress_stop(progress);
    if (result < 0) return fail_call(cli, &error);
    if (cli->json) {
        view_json(stdout, sandbox);
        return 0;
    }
    diagnostics_print(cli, SEVERITY_WARNING, json_at(sandbox, "compilation.warnings"));
    summarize(cli, sandbox, started_ms);
    ports_lines(cli, sandbox);
    summarize_timing(cli, sandbox);
    if (!json_is_true(json_object_get(arguments->params, "fresh"))) /* with --fresh no state is kept */
        states_lines(cli, json_object_get(sandbox, "states"));
    printf("%s\n", id);
    return 0;
}

int verb_create(struct cli *cli, const struct op *op, struct arguments *arguments) {
    return start(cli, op, arguments, "creating");
}

int verb_restart(struct cli *cli, const struct op *op, struct arguments *arguments) {
    return start(cli, op, arguments, "restarting");
}

/* ---- freeze, thaw ---- */

int verb_freeze(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *sandbox = NULL;
    struct sbx_error error;
    if (session_call(cli, op, arguments->params, &sandbox, &error) < 0) return fail_call(cli, &error);
    const char *id = json_string_value(json_object_get(arguments->params, "id"));
    bool frozen = json_is_true(json_object_get(sandbox, "frozen"));
    if (cli->json)
        view_json(stdout, sandbox);
    else
        fprintf(stderr, "%s is %s\n", id,
                frozen ? "frozen: it can be looked at, thawed or destroyed" : "running again");
    return 0;
}

/* ---- publish, unpublish ---- */

int verb_publish(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *sandbox = NULL;
    struct sbx_error error;
    if (session_call(cli, op, arguments->params, &sandbox, &error) < 0) return fail_call(cli, &error);
    if (cli->json)
        view_json(stdout, sandbox);
    else
        ports_lines(cli, sandbox);
    return 0;
}

/* ---- list ---- */

/* A frozen sandbox is a running one to programs; people want to see it at a glance. */
static void show_frozen(json_t *list) {
    size_t index;
    json_t *sandbox;
    json_array_foreach(list, index, sandbox) if (json_is_true(json_object_get(sandbox, "frozen")))
        json_object_set_new(sandbox, "status", json_string("frozen"));
}

/* Below the table: why one does not run, or what a limit killed in it. */
static void print_last_errors(const struct cli *cli, json_t *list) {
    size_t index;
    json_t *sandbox;
    json_array_foreach(list, index, sandbox) {
        json_t *detail = json_at(sandbox, "last_error.detail");
        if (!json_is_string(detail)) continue;
        fprintf(stderr, "%s%s:%s ", style_code(cli->err_colour, STYLE_YELLOW), text_of(sandbox, "id", "?"),
                style_code(cli->err_colour, STYLE_PLAIN));
        text_print_line(stderr, json_string_value(detail));
        fputc('\n', stderr);
    }
}

int verb_list(struct cli *cli, const struct op *op, struct arguments *arguments) {
    static const struct column columns[] = {
        {"ID", "id", false},
        {"STATUS", "status", false},
        {"PROFILE", "profile", false},
        {"APP", "app_name", false},
        {"MEMORY", "usage.memory_bytes", true},
        {"CPU", "usage.cpu_percent", true},
        {"PROCESSES", "usage.processes", true},
        {"UP", "usage.uptime_ms", true},
        {"RESTARTS", "restart_count", true},
        {"SOURCE", "source", false},
        {"PORTS", "ports", false}, /* last: left out where no sandbox has any */
    };
    CLEANUP_JSON json_t *list = NULL;
    struct sbx_error error;
    if (session_call(cli, op, arguments->params, &list, &error) < 0) return fail_call(cli, &error);
    if (cli->json) {
        view_json(stdout, list);
        return 0;
    }
    show_frozen(list);
    size_t count = ARRAY_SIZE(columns) - !ports_words(list);
    columns_print(stdout, cli->out_colour, columns, count, list);
    print_last_errors(cli, list);
    return 0;
}

/* ---- operations on several sandboxes: all that are named, whatever becomes of the others ---- */

static int call_one(struct cli *cli, const struct op *op, json_t *wanted, json_t *id, json_t *outcomes) {
    CLEANUP_JSON json_t *params = json_copy(wanted);
    json_object_set(params, "id", id);
    json_t *answer = NULL;
    struct sbx_error error;
    if (session_call(cli, op, params, &answer, &error) == 0) {
        json_array_append_new(outcomes, answer);
        return 0;
    }
    if (!cli->json) return fail_call(cli, &error);
    int exit_code = error.exit_code;
    json_array_append_new(outcomes, error.json ? json_loads(error.json, 0, NULL) : json_object());
    sbx_error_clear(&error);
    return exit_code;
}

int verb_each(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *outcomes = json_array();
    int exit_code = 0;
    size_t index;
    json_t *id;
    json_array_foreach(arguments->rest, index, id) {
        int outcome = call_one(cli, op, arguments->params, id, outcomes);
        if (exit_code == 0) exit_code = outcome;
    }
    bool single = json_array_size(arguments->rest) == 1;
    if (cli->json) view_json(stdout, single ? json_array_get(outcomes, 0) : outcomes);
    return exit_code;
}
