/* audit: shows records of the audit trail, and verifies that the trail is whole. */
#include <string.h>

#include "cli/cli_internal.h"

static void put_text(struct buf *line, json_t *record, const char *name) {
    const char *text = text_of(record, name, "-");
    text_clean_line(line, text, strlen(text));
}

/* "2026-11-16 04:05:00  17  uid 0  pid 812  create  shop  ok  212 ms" */
static void format_record(const struct cli *cli, json_t *record, struct buf *line) {
    const char *time = text_of(record, "time", "-"), *clock = strchr(time, 'T');
    const char *outcome = json_string_value(json_object_get(record, "outcome"));
    bool is_ours = json_object_get(record, "event") != NULL; /* of the trail itself */
    buf_printf(line, "%s%.10s %.8s%s  %lld  ", style_code(cli->out_colour, STYLE_DIM), time, clock ? clock + 1 : "",
               style_code(cli->out_colour, STYLE_PLAIN), (long long)json_integer_value(json_object_get(record, "seq")));
    if (!is_ours)
        buf_printf(line, "uid %lld  pid %lld  ", (long long)json_integer_value(json_object_get(record, "uid")),
                   (long long)json_integer_value(json_object_get(record, "pid")));
    put_text(line, record, "op");
    buf_append_string(line, "  ");
    put_text(line, record, is_ours ? "event" : "sandbox_id");
    if (is_ours) return;
    bool failed = outcome && strcmp(outcome, "ok") != 0;
    buf_printf(line, "  %s", style_code(cli->out_colour, failed ? STYLE_RED : STYLE_PLAIN));
    if (outcome)
        put_text(line, record, "outcome");
    else
        buf_append_string(line, "began");
    buf_printf(line, "%s", failed ? style_code(cli->out_colour, STYLE_PLAIN) : "");
    if (!outcome) return;
    buf_append_string(line, "  ");
    format_duration_ms(json_integer_value(json_object_get(record, "duration_ms")), line);
}

static int show_record(struct cli *cli, json_t *record, void *data) {
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    (void)data;
    if (cli->json) {
        json_dumpf(record, stdout, JSON_COMPACT);
    } else if (view_skipped(stdout, record)) {
        return 0;
    } else {
        format_record(cli, record, &line);
        fputs(buf_string(&line), stdout);
    }
    fputc('\n', stdout);
    fflush(stdout);
    return 0;
}

static int show_verdict(const struct cli *cli, json_t *verdict) {
    bool valid = json_is_true(json_object_get(verdict, "valid"));
    long long records = json_integer_value(json_object_get(verdict, "records"));
    json_t *problem = json_object_get(verdict, "problem");
    if (cli->json) {
        view_json(stdout, verdict);
    } else if (valid) {
        printf("the audit trail is whole: %lld record%s, %lld to %lld\n", records, records == 1 ? "" : "s",
               (long long)json_integer_value(json_object_get(verdict, "first_seq")),
               (long long)json_integer_value(json_object_get(verdict, "last_seq")));
    } else {
        fprintf(stderr, "%sthe audit trail is damaged:%s ", style_code(cli->err_colour, STYLE_RED),
                style_code(cli->err_colour, STYLE_PLAIN));
        if (json_is_string(json_object_get(problem, "file")))
            fprintf(stderr, "%s:%lld: ", text_of(problem, "file", "-"),
                    (long long)json_integer_value(json_object_get(problem, "line")));
        text_print_line(stderr, text_of(problem, "detail", "-"));
        fputc('\n', stderr);
    }
    return !valid;
}

static int verify(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *answer = NULL;
    struct sbx_error error;
    struct progress *progress = progress_start(cli, "verifying");
    int result = session_call(cli, op, arguments->params, &answer, &error);
    progress_stop(progress);
    return result < 0 ? fail_call(cli, &error) : show_verdict(cli, json_array_get(answer, 0));
}

/* An operation that has ended has two records, and the second has all facts. One without a second record still runs, or
   was cut short. */
static void show_past(struct cli *cli, json_t *records) {
    CLEANUP_JSON json_t *ended = json_object();
    size_t index;
    json_t *record;
    json_array_foreach(records, index, record) {
        if (json_object_get(record, "outcome"))
            json_object_set_new(ended, text_of(record, "correlation_id", "-"), json_true());
    }
    json_array_foreach(records, index, record) {
        bool is_over =
            !json_object_get(record, "outcome") && json_object_get(ended, text_of(record, "correlation_id", "-"));
        if (!is_over || json_object_get(record, "event")) show_record(cli, record, NULL);
    }
}

/* Records are lines of JSON with --json, whether it follows or not: that is how the trail is exported. */
int verb_audit(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *end = NULL;
    struct sbx_error error;
    if (json_is_true(json_object_get(arguments->params, "verify"))) return verify(cli, op, arguments);
    if (!cli->json && !json_is_true(json_object_get(arguments->params, "follow"))) {
        if (session_call(cli, op, arguments->params, &end, &error) < 0) return fail_call(cli, &error);
        show_past(cli, end);
        return 0;
    }
    if (session_stream(cli, op, arguments->params, show_record, NULL, &end, &error) < 0) return fail_call(cli, &error);
    return 0;
}
