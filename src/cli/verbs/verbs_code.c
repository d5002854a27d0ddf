/* Commands on the code of a running sandbox: reload, rollback, versions, export. */
#include <string.h>
#include <unistd.h>

#include "cli/cli_internal.h"

enum { INPUT_MAX_BYTES = 1 << 20 /* as the operation takes */ };

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
    } else if (json_array_size(json_object_get(result, "modules")) == 0) { /* the caller migrated states alone */
        buf_printf(&line, "%s%s ", strcmp(status, "dry_run") == 0 ? "would migrate" : "migrated",
                   style_code(cli->out_colour, STYLE_PLAIN));
        print_count(&line, json_array_size(processes), "process", "processes");
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

/* "configured shop: 2 keys, told by config_change/3" */
static void print_configuration(json_t *configuration) {
    json_t *applications = json_object_get(configuration, "applications"), *application;
    size_t index;
    if (!configuration) return;
    if (string_equal(json_string_value(json_object_get(configuration, "status")), "changed")) {
        printf("the configuration changed: `sandbox restart`, or `sandbox reload --config`, applies it\n");
        return;
    }
    if (json_array_size(applications) == 0) printf("no change of the configuration\n");
    json_array_foreach(applications, index, application) {
        CLEANUP(buf_free) struct buf line = BUF_INIT;
        const char *outcome = text_of(application, "outcome", "?");
        size_t keys = number_of(application, "keys");
        bool is_told = strcmp(outcome, "told") == 0, is_untold = strcmp(outcome, "untold") == 0;
        const char *words = is_told     ? "told by config_change/3"
                            : is_untold ? "not told, since it has no config_change/3"
                                        : outcome;
        format_value("name", json_object_get(application, "name"), &line);
        printf("configured %s: %zu key%s, ", buf_string(&line), keys, keys == 1 ? "" : "s");
        text_print(stdout, words);
        printf("\n");
    }
}

/* The path "-" is source text on the standard input. */
static int take_input(json_t *params, struct error *reterr) {
    json_t *paths = json_object_get(params, "paths"), *path;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    size_t index;
    bool is_asked = false;
    json_array_foreach(paths, index, path) is_asked |= string_equal(json_string_value(path), "-");
    if (!is_asked) return 0;
    if (json_array_size(paths) > 1)
        return error_set(reterr, E_INVALID, "the standard input can't be loaded together with other paths");
    if (!json_object_get(params, "file"))
        return error_set(reterr, E_INVALID, "--file is missing: the name that the standard input goes by");
    int result = given_text_read(STDIN_FILENO, "the standard input", INPUT_MAX_BYTES, &text, reterr);
    if (result < 0) return result;
    json_t *code = json_stringn((const char *)text.data, text.size);
    if (!code) return error_set(reterr, E_INVALID, "the standard input is not UTF-8 text");
    json_object_set_new(params, "code", code);
    json_object_del(params, "paths");
    return 0;
}

int verb_reload(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *result = NULL;
    struct sbx_error error;
    struct error bad;
    if (take_input(arguments->params, &bad) < 0) return fail_usage(cli, op, &bad);
    cli->source = json_string_value(json_array_get(json_object_get(arguments->params, "paths"), 0));
    cli->code = json_string_value(json_object_get(arguments->params, "code"));
    struct progress *progress = progress_start(cli, "reloading");
    int outcome = session_call(cli, op, arguments->params, &result, &error);
    progress_stop(progress);
    if (outcome < 0) return fail_call(cli, &error);
    if (cli->json) {
        view_json(stdout, result);
        return 0;
    }
    diagnostics_print(cli, SEVERITY_WARNING, json_at(result, "compilation.warnings"));
    reload_warnings_print(cli, json_object_get(result, "warnings"));
    summarize(cli, result);
    print_configuration(json_object_get(result, "configuration"));
    return 0;
}

static const struct column version_columns[] = {
    {"MODULE", "module", false},    {"VERSION", "version", true},    {"CURRENT", "current", false},
    {"LOADED", "loaded_at", false}, {"BY UID", "loaded_by", true},   {"TIMES", "loads", true},
    {"BYTES", "size_bytes", true},  {"CHECKSUM", "checksum", false},
};

static const struct column summary_columns[] = {
    {"MODULE", "module", false},           {"CURRENT", "current_version", true},
    {"VERSIONS", "versions", true},        {"TIMES LOADED", "loads", true},
    {"BYTES", "size_bytes", true},         {"FIRST LOADED", "first_loaded_at", false},
    {"LAST NEW", "last_loaded_at", false},
};

static void make_readable(json_t *version) {
    const char *checksum = json_string_value(json_object_get(version, "checksum"));
    if (checksum) json_object_set_new(version, "checksum", json_stringn(checksum, 12));
    bool current = json_is_true(json_object_get(version, "current"));
    json_object_set_new(version, "current", json_string(current ? "current" : ""));
}

int verb_versions(struct cli *cli, const struct op *op, struct arguments *arguments) {
    bool is_summary = json_is_true(json_object_get(arguments->params, "summary"));
    CLEANUP_JSON json_t *list = NULL;
    struct sbx_error error;
    size_t index;
    json_t *version;
    if (session_call(cli, op, arguments->params, &list, &error) < 0) return fail_call(cli, &error);
    if (cli->json) {
        view_json(stdout, list);
    } else if (is_summary) {
        columns_print(stdout, cli->out_colour, summary_columns, ARRAY_SIZE(summary_columns), list);
    } else {
        json_array_foreach(list, index, version) make_readable(version);
        columns_print(stdout, cli->out_colour, version_columns, ARRAY_SIZE(version_columns), list);
    }
    return 0;
}

/* The BEAM file itself, for a file or a pipe. */
int verb_export(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *version = NULL;
    CLEANUP(buf_free) struct buf bytes = BUF_INIT;
    struct sbx_error error;
    struct error bad;
    if (!cli->json && isatty(STDOUT_FILENO)) {
        error_set(&bad, E_INVALID, "a BEAM file is not for a terminal: write it to a file, with > FILE");
        return fail_usage(cli, op, &bad);
    }
    if (session_call(cli, op, arguments->params, &version, &error) < 0) return fail_call(cli, &error);
    const char *text = json_string_value(json_object_get(version, "beam"));
    if (cli->json) {
        view_json(stdout, version);
    } else if (!text || !base64_decode(text, strlen(text), &bytes)) {
        error_set(&bad, E_SYSTEM, "the service sent no module");
        return fail_local(cli, &bad);
    } else {
        fwrite(bytes.data, 1, bytes.size, stdout);
    }
    return 0;
}
