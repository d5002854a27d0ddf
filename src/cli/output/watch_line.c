/* Prints what became of a save: one line, however much changed at once, and the compiler's messages if it failed. Also
   the warnings of reloads. */
#include <string.h>

#include "cli/cli_internal.h"

enum { NAMES_SHOWN = 3 };

/* "a, b, c and 7 more"; there may be more than the list has. */
static void append_names(struct buf *line, json_t *names, size_t count) {
    size_t shown = json_array_size(names);
    if (shown > NAMES_SHOWN) shown = NAMES_SHOWN;
    for (size_t i = 0; i < shown; i++) {
        if (i > 0) buf_append_string(line, ", ");
        const char *name = json_string_value(json_array_get(names, i));
        text_clean_line(line, name ? name : "?", name ? strlen(name) : 1);
    }
    if (count > shown && shown > 0) buf_printf(line, " and %zu more", count - shown);
}

static void begin(const struct cli *cli, struct buf *line, enum style style, const char *mark, json_t *data) {
    size_t count = number_of(data, "file_count");
    buf_printf(line, "%s%s%s ", style_code(cli->err_colour, style), mark, style_code(cli->err_colour, STYLE_PLAIN));
    append_names(line, json_object_get(data, "files"), count);
    if (count > 0) buf_append_string(line, ": ");
}

/* "reloaded Counter.Server, 3 processes kept their state" */
static void append_reloaded(struct buf *line, json_t *data) {
    size_t processes = number_of(data, "processes"), removed = number_of(data, "removed_count");
    const char *what = removed == 0 ? "reloaded" : removed == number_of(data, "module_count") ? "removed" : "changed";
    buf_printf(line, "%s ", what);
    append_names(line, json_object_get(data, "modules"), number_of(data, "module_count"));
    if (processes > 0)
        buf_printf(line, ", %zu process%s", processes, processes == 1 ? " kept its state" : "es kept their state");
}

void reload_warnings_print(const struct cli *cli, json_t *warnings) {
    size_t index;
    json_t *warning;
    json_array_foreach(warnings, index, warning) {
        fprintf(stderr, "%swarning:%s ", style_code(cli->err_colour, STYLE_YELLOW),
                style_code(cli->err_colour, STYLE_PLAIN));
        text_print(stderr, json_string_value(warning));
        fputc('\n', stderr);
    }
}

static void print_reloaded(const struct cli *cli, json_t *data) {
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    size_t compiled = number_of(data, "compiled_count");
    begin(cli, &line, STYLE_GREEN, "✓", data);
    if (compiled > 0) buf_printf(&line, "compiled %zu %s, ", compiled, compiled == 1 ? "module" : "modules");
    bool is_configuration = json_object_get(data, "configuration") != NULL;
    if (number_of(data, "module_count") > 0)
        append_reloaded(&line, data);
    else if (!is_configuration)
        buf_append_string(&line, "no change in the code that runs");
    if (is_configuration)
        buf_printf(&line, "%sconfiguration changed: `restart`, or `reload --config`, applies it",
                   number_of(data, "module_count") > 0 ? "; " : "");
    buf_append_string(&line, ", ");
    format_duration_ms(json_integer_value(json_object_get(data, "since_save_us")) / 1000, &line);
    fprintf(stderr, "%s\n", buf_string(&line));
    diagnostics_print(cli, SEVERITY_WARNING, json_object_get(data, "warnings"));
    reload_warnings_print(cli, json_object_get(data, "reload_warnings"));
}

static void print_taken_back(const struct cli *cli, json_t *data) {
    const char *detail = json_string_value(json_object_get(data, "detail"));
    fprintf(stderr, "%s✗%s ", style_code(cli->err_colour, STYLE_RED), style_code(cli->err_colour, STYLE_PLAIN));
    text_print(stderr, detail ? detail : "the new code was taken back");
    fprintf(stderr, "; what ran before runs on\n");
}

static void print_failed(const struct cli *cli, json_t *data) {
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    const char *detail = json_string_value(json_object_get(data, "detail"));
    begin(cli, &line, STYLE_RED, "✗", data);
    json_t *errors = json_object_get(data, "errors");
    size_t count = json_array_size(errors);
    if (count > 0) /* which follow */
        buf_printf(&line, "%zu error%s", count, count == 1 ? "" : "s");
    else
        text_clean_line(&line, detail ? detail : "failed", strlen(detail ? detail : "failed"));
    buf_append_string(&line, "; what ran before runs on");
    fprintf(stderr, "%s\n", buf_string(&line));
    diagnostics_print(cli, SEVERITY_ERROR, errors);
}

static void print_state(const struct cli *cli, json_t *data) {
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    format_value("state", json_object_get(data, "state"), &line);
    if (json_is_string(json_object_get(data, "detail"))) {
        buf_append_string(&line, ": ");
        format_value("detail", json_object_get(data, "detail"), &line);
    }
    fprintf(stderr, "%s%s%s\n", style_code(cli->err_colour, STYLE_DIM), buf_string(&line),
            style_code(cli->err_colour, STYLE_PLAIN));
}

void watch_line(const struct cli *cli, json_t *event) {
    static const struct {
        const char *kind;
        void (*print)(const struct cli *cli, json_t *data);
    } printers[] = {{"watch_reloaded", print_reloaded},
                    {"watch_failed", print_failed},
                    {"rolled_back", print_taken_back},
                    {"watch", print_state}};
    const char *kind = json_string_value(json_object_get(event, "kind"));
    for (size_t i = 0; i < ARRAY_SIZE(printers); i++)
        if (string_equal(printers[i].kind, kind)) printers[i].print(cli, json_object_get(event, "data"));
}
