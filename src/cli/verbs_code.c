/* reload, rollback, versions: the code of a running sandbox. */
#include <string.h>

#include "cli/cli_internal.h"

static size_t count_migrated(json_t *processes) {
    size_t index, count = 0;
    json_t *process;
    json_array_foreach(processes, index, process) count += json_is_true(json_object_get(process, "migrated"));
    return count;
}

static void print_count(struct buf *line, size_t count, const char *one, const char *many) {
    buf_printf(line, "%zu %s", count, count == 1 ? one : many);
}

/* "reloaded 2 modules in 6 ms, 14 processes kept their state, paused for 0.8 ms" */
static void summarize(const struct cli *cli, json_t *result) {
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    const char *status = json_string_value(json_object_get(result, "status"));
    json_t *processes = json_object_get(result, "processes");
    buf_append_string(&line, style_code(cli->out_colour, STYLE_GREEN));
    if (strcmp(status, "no_change") == 0) {
        buf_printf(&line, "no change%s: the code that runs is the code on disk",
                   style_code(cli->out_colour, STYLE_PLAIN));
    } else {
        buf_printf(&line, "%s%s ", strcmp(status, "dry_run") == 0 ? "would reload" : "reloaded",
                   style_code(cli->out_colour, STYLE_PLAIN));
        print_count(&line, json_array_size(json_object_get(result, "modules")), "module", "modules");
        buf_append_string(&line, ", ");
        print_count(&line, json_array_size(processes), "process kept its state", "processes kept their state");
        size_t migrated = count_migrated(processes);
        if (migrated > 0) buf_printf(&line, " (%zu migrated)", migrated);
        buf_printf(&line, ", paused for %.1f ms",
                   (double)json_integer_value(json_object_get(result, "pause_us")) / 1e3);
    }
    printf("%s\n", buf_string(&line));
}

static void print_warnings(const struct cli *cli, json_t *warnings) {
    size_t index;
    json_t *warning;
    json_array_foreach(warnings, index, warning) {
        fprintf(stderr, "%swarning:%s ", style_code(cli->err_colour, STYLE_YELLOW),
                style_code(cli->err_colour, STYLE_PLAIN));
        text_print(stderr, json_string_value(warning));
        fputc('\n', stderr);
    }
}

int verb_reload(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *result = NULL;
    struct sbx_error error;
    cli->source = json_string_value(json_object_get(arguments->params, "path"));
    struct progress *progress = progress_start(cli, "reloading");
    int outcome = session_call(cli, op, arguments->params, &result, &error);
    progress_stop(progress);
    if (outcome < 0) return fail_call(cli, &error);
    if (cli->json) {
        view_json(stdout, result);
        return 0;
    }
    diagnostics_print(cli, SEVERITY_WARNING, json_at(result, "compilation.warnings"));
    print_warnings(cli, json_object_get(result, "warnings"));
    summarize(cli, result);
    return 0;
}

int verb_versions(struct cli *cli, const struct op *op, struct arguments *arguments) {
    static const struct column columns[] = {
        {"MODULE", "module", false},    {"VERSION", "version", true},    {"CURRENT", "current", false},
        {"LOADED", "loaded_at", false}, {"CHECKSUM", "checksum", false},
    };
    CLEANUP_JSON json_t *list = NULL;
    struct sbx_error error;
    size_t index;
    json_t *version;
    if (session_call(cli, op, arguments->params, &list, &error) < 0) return fail_call(cli, &error);
    if (cli->json) {
        view_json(stdout, list);
        return 0;
    }
    json_array_foreach(list, index, version) {
        const char *checksum = json_string_value(json_object_get(version, "checksum"));
        if (checksum) json_object_set_new(version, "checksum", json_stringn(checksum, 12));
        bool current = json_is_true(json_object_get(version, "current"));
        json_object_set_new(version, "current", json_string(current ? "current" : ""));
    }
    columns_print(stdout, cli->out_colour, columns, ARRAY_SIZE(columns), list);
    return 0;
}
