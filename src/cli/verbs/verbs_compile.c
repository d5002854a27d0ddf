/* Commands that need no sandbox: compile, validate, deps. */
#include <limits.h>
#include <string.h>

#include "cli/cli_internal.h"

/* ---- compile ---- */

/* "compiled 1 of 4 modules in 904 ms", "up to date: 4 modules, 2 ms" */
static void summarize(const struct cli *cli, json_t *report) {
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    size_t modules = json_array_size(json_object_get(report, "beam_files"));
    size_t compiled = json_array_size(json_object_get(report, "compiled"));
    bool cached = json_is_true(json_object_get(report, "cache_hit")) || compiled == 0;
    buf_printf(&line, "%s%s%s ", style_code(cli->out_colour, STYLE_GREEN), cached ? "up to date:" : "compiled",
               style_code(cli->out_colour, STYLE_PLAIN));
    if (!cached && compiled < modules) buf_printf(&line, "%zu of ", compiled);
    buf_printf(&line, "%zu module%s%s", modules, modules == 1 ? "" : "s", cached ? ", " : " in ");
    format_duration_ms(json_integer_value(json_object_get(report, "compilation_time_ms")), &line);
    size_t warnings = diagnostics_of(report, "warnings");
    if (warnings > 0) buf_append_string(&line, ", ");
    diagnostics_count(0, warnings, &line);
    printf("%s\n", buf_string(&line));
}

int verb_compile(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *report = NULL;
    struct sbx_error error;
    cli->code = json_string_value(json_object_get(arguments->params, "code"));
    struct progress *progress = progress_start(cli, "compiling");
    int result = session_call(cli, op, arguments->params, &report, &error);
    progress_stop(progress);
    if (result < 0) return fail_call(cli, &error);
    if (cli->json) {
        view_json(stdout, report);
        return 0;
    }
    diagnostics_print(cli, SEVERITY_WARNING, json_object_get(report, "warnings"));
    summarize(cli, report);
    return 0;
}

/* ---- validate ---- */

/* A row of the table: lists are counted, checksums shortened, paths told from the working directory. */
static json_t *row_of(json_t *file, const char *here) {
    const char *path = json_string_value(json_object_get(file, "file"));
    bool valid = json_is_true(json_object_get(file, "valid"));
    json_t *row = json_copy(file);
    size_t length = here ? strlen(here) : 0;
    if (path && length > 1 && strncmp(path, here, length) == 0 && path[length] == '/')
        json_object_set_new(row, "file", json_string(path + length + 1));
    json_object_set_new(row, "valid", json_string(valid ? "valid" : "invalid"));
    json_object_set_new(row, "exports", json_integer((json_int_t)json_array_size(json_object_get(file, "exports"))));
    const char *checksum = json_string_value(json_object_get(file, "checksum"));
    if (checksum) json_object_set_new(row, "checksum", json_stringn(checksum, 12));
    return row;
}

static void show_files(const struct cli *cli, json_t *files) {
    static const struct column columns[] = {
        {"FILE", "file", false},
        {"STATUS", "valid", false},
        {"MODULE", "module", false},
        {"CHECKSUM", "checksum", false},
        {"OTP", "min_otp", true},
        {"EXPORTS", "exports", true},
        {"BEHAVIOURS", "behaviours", false},
    };
    char here[PATH_MAX];
    bool known = getcwd(here, sizeof here) != NULL;
    CLEANUP_JSON json_t *rows = json_array();
    size_t index;
    json_t *file;
    json_array_foreach(files, index, file) json_array_append_new(rows, row_of(file, known ? here : NULL));
    columns_print(stdout, cli->out_colour, columns, ARRAY_SIZE(columns), rows);
    fflush(stdout);
    json_array_foreach(rows, index, file) {
        const char *detail = json_string_value(json_at(file, "error.detail"));
        if (!detail) continue;
        fprintf(stderr, "%ssandbox:%s ", style_code(cli->err_colour, STYLE_RED),
                style_code(cli->err_colour, STYLE_PLAIN));
        text_print_line(stderr, json_string_value(json_object_get(file, "file")));
        fputs(": ", stderr);
        text_print(stderr, detail);
        fputc('\n', stderr);
    }
}

/* The files of one path that was given; a path that can't be opened is told, and the others go on. */
static int validate_one(struct cli *cli, const struct op *op, json_t *path, json_t *files) {
    CLEANUP_JSON json_t *params = json_pack("{s:O}", "path", path);
    CLEANUP_JSON json_t *answer = NULL;
    struct sbx_error error;
    struct progress *progress = progress_start(cli, "validating");
    int result = session_call(cli, op, params, &answer, &error);
    progress_stop(progress);
    if (result == 0) {
        json_array_extend(files, json_object_get(answer, "files"));
        return json_is_true(json_object_get(answer, "valid")) ? 0 : 1;
    }
    if (!cli->json) return fail_call(cli, &error);
    int exit_code = error.exit_code;
    json_array_append_new(files, error.json ? json_loads(error.json, 0, NULL) : json_object());
    sbx_error_clear(&error);
    return exit_code;
}

int verb_validate(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *files = json_array();
    int exit_code = 0;
    size_t index;
    json_t *path;
    json_array_foreach(arguments->rest, index, path) {
        int outcome = validate_one(cli, op, path, files);
        if (exit_code == 0) exit_code = outcome;
    }
    bool single = json_array_size(arguments->rest) == 1 && json_array_size(files) == 1;
    if (cli->json)
        view_json(stdout, single ? json_array_get(files, 0) : files);
    else if (json_array_size(files) > 0)
        show_files(cli, files);
    return exit_code;
}

/* ---- deps ---- */

static bool is_written_as_path(const char *word) {
    return strchr(word, '/') || word[0] == '.' || !ops_id_valid(word);
}

static int ask_of_path(struct cli *cli, const struct op *op, json_t *params, json_t **ret, struct sbx_error *reterr) {
    char path[PATH_MAX];
    if (args_absolute_path(json_string_value(json_object_get(params, "target")), path, NULL) == 0)
        json_object_set_new(params, "target", json_string(path));
    cli->source = json_string_value(json_object_get(params, "target"));
    return session_call(cli, op, params, ret, reterr);
}

/* A word may name a sandbox or lie here as a file: the sandbox comes first, and ./word is always the file. */
static int ask_deps(struct cli *cli, const struct op *op, json_t *params, json_t **ret, struct sbx_error *reterr) {
    const char *word = json_string_value(json_object_get(params, "target"));
    if (is_written_as_path(word)) return ask_of_path(cli, op, params, ret, reterr);
    int result = session_call(cli, op, params, ret, reterr);
    if (result == 0 || strcmp(reterr->code, "not_found") != 0 || access(word, F_OK) < 0) return result;
    sbx_error_clear(reterr);
    return ask_of_path(cli, op, params, ret, reterr);
}

int verb_deps(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *answer = NULL;
    struct sbx_error error;
    json_t *format = json_object_get(arguments->params, "format");
    bool as_json = cli->json || string_equal(json_string_value(format), "json");
    if (!format && !as_json) json_object_set_new(arguments->params, "format", json_string("text"));
    struct progress *progress = progress_start(cli, "finding dependencies");
    int result = ask_deps(cli, op, arguments->params, &answer, &error);
    progress_stop(progress);
    if (result < 0) return fail_call(cli, &error);
    const char *text = json_string_value(json_object_get(answer, "text"));
    if (as_json)
        view_json(stdout, answer);
    else
        text_print(stdout, text ? text : "");
    return 0;
}
