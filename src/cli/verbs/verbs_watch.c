/* watch: turns watching on and off, and shows its state and its last failure. */
#include <string.h>

#include "cli/cli_internal.h"

static void append_count(struct buf *line, json_t *number, const char *what) {
    long long count = json_integer_value(number);
    buf_printf(line, ", %lld %s%s", count, what, count == 1 ? "" : "s");
}

/* "watching  /src/counter, 12 files, 3 reloads, 1 failure" */
static void summarize(const struct cli *cli, json_t *status) {
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    json_t *files = json_object_get(status, "files"), *detail = json_object_get(status, "detail");
    const char *state = json_string_value(json_object_get(status, "state"));
    bool has_failed = string_equal(state, "failed") || string_equal(state, "paused");
    buf_append_string(&line, style_code(cli->out_colour, has_failed ? STYLE_RED : STYLE_GREEN));
    format_value("state", json_object_get(status, "state"), &line);
    buf_append_string(&line, style_code(cli->out_colour, STYLE_PLAIN));
    buf_append_string(&line, "  ");
    format_value("source", json_object_get(status, "source"), &line);
    if (json_is_integer(files)) append_count(&line, files, "file");
    if (json_is_true(json_object_get(status, "auto_reload"))) {
        append_count(&line, json_object_get(status, "reload_count"), "reload");
        append_count(&line, json_object_get(status, "failure_count"), "failure");
    }
    if (json_is_string(detail)) {
        buf_append_string(&line, "\n");
        format_value("detail", detail, &line);
    }
    printf("%s\n", buf_string(&line));
}

/* The last failure, until a save is good again, as the terminal showed it then. */
static void print_failure(struct cli *cli, json_t *status) {
    json_t *failure = json_object_get(status, "failure");
    if (!json_is_object(failure)) return;
    CLEANUP_JSON json_t *event = json_pack("{s:s, s:O}", "kind", "watch_failed", "data", failure);
    cli->source = json_string_value(json_object_get(status, "source"));
    fflush(stdout);
    watch_line(cli, event);
}

int verb_watch(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *status = NULL;
    struct sbx_error error;
    if (session_call(cli, op, arguments->params, &status, &error) < 0) return fail_call(cli, &error);
    if (cli->json) {
        view_json(stdout, status);
        return 0;
    }
    summarize(cli, status);
    print_failure(cli, status);
    return 0;
}
