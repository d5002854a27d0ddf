/* Commands that evaluate code or follow a stream: eval, events, logs, run, mix. */
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "cli/cli_internal.h"

/* ---- eval ---- */

enum { TRANSPORT_SLACK_MS = 5000 }; /* so that the service's own timeout is the one that answers */

/* With the end of its last line; nothing for an empty text. */
static void print_line(const char *text) {
    if (!text || !text[0]) return;
    text_print(stdout, text);
    if (text[strlen(text) - 1] != '\n') fputc('\n', stdout);
}

int verb_eval(struct cli *cli, const struct op *op, struct arguments *arguments) {
    json_int_t timeout_ms = json_integer_value(json_object_get(arguments->params, "timeout_ms"));
    if (timeout_ms > 0 && timeout_ms < UINT32_MAX - TRANSPORT_SLACK_MS)
        cli->timeout_ms = (uint32_t)timeout_ms + TRANSPORT_SLACK_MS;
    CLEANUP_JSON json_t *answer = NULL;
    struct sbx_error error;
    struct progress *progress = progress_start(cli, "evaluating");
    int result = session_call(cli, op, arguments->params, &answer, &error);
    progress_stop(progress);
    if (result < 0) return fail_after_output(cli, &error, stdout);
    if (cli->json) {
        view_json(stdout, answer);
        return 0;
    }
    print_line(json_string_value(json_object_get(answer, "output")));
    const char *text = json_string_value(json_object_get(answer, "text"));
    print_line(text ? text : "\n");
    return 0;
}

/* ---- logs, events ---- */

static int show_record(struct cli *cli, json_t *record, void *data) {
    (void)data;
    if (cli->json) {
        json_dumpf(record, stdout, JSON_COMPACT);
        fputc('\n', stdout);
    } else if (!view_skipped(stdout, record)) {
        view_log_record(stdout, cli->out_colour, record);
    }
    fflush(stdout);
    return 0;
}

/* "21:05:00.123  security.violation  counter  syscall=execve count=1" */
static int show_event(struct cli *cli, json_t *event, void *data) {
    if (cli->json) return show_record(cli, event, data);
    if (view_skipped(stdout, event)) return 0;
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    const char *time = text_of(event, "time", "-");
    const char *clock = strchr(time, 'T');
    buf_printf(&line, "%s%.12s%s  ", style_code(cli->out_colour, STYLE_DIM), clock ? clock + 1 : time,
               style_code(cli->out_colour, STYLE_PLAIN));
    const char *kind = text_of(event, "kind", "-");
    const char *id = text_of(event, "sandbox_id", "-");
    text_clean_line(&line, kind, strlen(kind));
    buf_append_string(&line, "  ");
    text_clean_line(&line, id, strlen(id));
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(event, "data"), key, value) {
        if (json_is_null(value)) continue;
        buf_append_string(&line, "  ");
        text_clean_line(&line, key, strlen(key));
        buf_append_byte(&line, '=');
        format_value(key, value, &line);
    }
    printf("%s\n", buf_string(&line));
    fflush(stdout);
    return 0;
}

/* With --json the records of a stream that ends are one document; of one that follows, one per line. */
static int stream(struct cli *cli, const struct op *op, struct arguments *arguments, item_fn *on_item) {
    CLEANUP_JSON json_t *end = NULL;
    struct sbx_error error;
    if (cli->json && !json_is_true(json_object_get(arguments->params, "follow"))) {
        if (session_call(cli, op, arguments->params, &end, &error) < 0) return fail_call(cli, &error);
        view_json(stdout, end);
        return 0;
    }
    if (session_stream(cli, op, arguments->params, on_item, NULL, &end, &error) < 0) return fail_call(cli, &error);
    return 0;
}

int verb_events(struct cli *cli, const struct op *op, struct arguments *arguments) {
    return stream(cli, op, arguments, show_event);
}

int verb_logs(struct cli *cli, const struct op *op, struct arguments *arguments) {
    return stream(cli, op, arguments, show_record);
}

/* ---- run, mix ---- */

struct run {
    bool sends_input;
    char sandbox_id[OP_ID_MAX_BYTES + 1]; /* once a record has told it */
};

static int show_run_record(struct cli *cli, json_t *record, void *data) {
    struct run *run = data;
    const char *id = json_string_value(json_object_get(record, "sandbox_id"));
    if (id && ops_id_valid(id)) {
        bool is_first = !*run->sandbox_id;
        memcpy(run->sandbox_id, id, strlen(id) + 1);
        if (is_first && run->sends_input) run_send_input(cli, id);
    }
    if (cli->json) return 0;
    ports_lines(cli, record);
    diagnostics_print(cli, SEVERITY_WARNING, json_at(record, "compilation.warnings"));
    if (!view_skipped(stdout, record)) view_log_record(stdout, cli->out_colour, record);
    fflush(stdout);
    watch_line(cli, json_object_get(record, "event"));
    return 0;
}

/* Ctrl-C must reach us as something to wait for: the sandbox is to be gone before we are. */
static int catch_interrupts(void) {
    sigset_t interrupts;
    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGINT);
    sigaddset(&interrupts, SIGTERM);
    sigprocmask(SIG_BLOCK, &interrupts, NULL);
    return signalfd(-1, &interrupts, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The connection's end already tells the service; asking for the destruction too waits until it is done. */
static int end_interrupted(struct cli *cli, const struct run *run) {
    if (!*run->sandbox_id) return EXIT_INTERRUPTED;
    const struct op *op = ops_find("destroy");
    CLEANUP_JSON json_t *params = json_pack("{s:s}", "id", run->sandbox_id);
    json_t *answer = NULL;
    struct sbx_error error;
    if (session_call(cli, op, params, &answer, &error) < 0) sbx_error_clear(&error);
    json_decref(answer);
    return EXIT_INTERRUPTED;
}

static int end_normally(const struct cli *cli, json_t *answer) {
    bool crashed = string_equal(json_string_value(json_object_get(answer, "status")), "error");
    json_t *exit_status = json_object_get(answer, "exit_status"); /* of a program: all that is to be told */
    if (exit_status) {
        if (cli->json) view_json(stdout, answer);
        return (int)(json_integer_value(exit_status) & UINT8_MAX);
    }
    if (cli->json) {
        view_json(stdout, answer);
        return crashed;
    }
    json_t *evaluated = json_object_get(answer, "eval");
    const char *text = json_string_value(json_object_get(evaluated ? evaluated : answer, "text"));
    if (text && !crashed) {
        text_print(stdout, text);
        fputc('\n', stdout);
    }
    if (crashed) {
        const char *reason = json_string_value(json_object_get(answer, "reason"));
        fputs("sandbox: the application crashed: ", stderr);
        text_print(stderr, text ? text : reason ? reason : "no reason given");
        fputc('\n', stderr);
    }
    return crashed;
}

static int follow_run(struct cli *cli, const struct op *op, json_t *params, bool sends_input) {
    CLEANUP_JSON json_t *answer = NULL;
    struct sbx_error error;
    struct run run = {.sends_input = sends_input};
    CLEANUP_FD int signals_fd = catch_interrupts();
    cli->cancel_fd = signals_fd;
    int result = session_stream(cli, op, params, show_run_record, &run, &answer, &error);
    struct signalfd_siginfo interrupt;
    bool interrupted = read(signals_fd, &interrupt, sizeof interrupt) == (ssize_t)sizeof interrupt;
    if (result < 0 && interrupted) {
        sbx_error_clear(&error);
        result = end_interrupted(cli, &run);
    } else {
        result = result < 0 ? fail_call(cli, &error) : end_normally(cli, answer);
    }
    session_close(cli);
    cli->cancel_fd = -1;
    return result;
}

int verb_run(struct cli *cli, const struct op *op, struct arguments *arguments) {
    struct error bad;
    if (run_take_script(arguments->params, &bad) < 0) return fail_usage(cli, op, &bad);
    const char *source = json_string_value(json_object_get(arguments->params, "source"));
    bool sends_input = !source || string_ends(source, ".erl") || run_is_escript(source);
    return follow_run(cli, op, arguments->params, sends_input);
}

int verb_mix(struct cli *cli, const struct op *op, struct arguments *arguments) {
    return follow_run(cli, op, arguments->params, true);
}
