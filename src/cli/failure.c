/* Prints errors for people, or as a problem object with --json, and gives the exit status that belongs to each. */
#include <string.h>

#include "cli/cli_internal.h"
#include "client/client.h"

enum { FLAGS_SHOWN = 5 }; /* when the user mistyped one */

static const char *field(const json_t *problem, const char *name) {
    const char *text = json_string_value(json_object_get(problem, name));
    return text ? text : "";
}

static void print_head(const struct cli *cli, json_t *problem) {
    fprintf(stderr, "%ssandbox:%s ", style_code(cli->err_colour, STYLE_RED), style_code(cli->err_colour, STYLE_PLAIN));
    text_print(stderr, field(problem, "title"));
    fputs(": ", stderr);
}

/* Sources that do not compile: what the compiler said is what a person wants to know. */
static void print_compilation(const struct cli *cli, json_t *problem, json_t *errors) {
    CLEANUP(buf_free) struct buf counts = BUF_INIT;
    json_t *warnings = json_at(problem, "result.warnings");
    diagnostics_print(cli, SEVERITY_WARNING, warnings);
    diagnostics_print(cli, SEVERITY_ERROR, errors);
    const json_t *report = json_object_get(problem, "result");
    size_t error_count = diagnostics_of(report, "errors"), warning_count = diagnostics_of(report, "warnings");
    diagnostics_count(error_count ? error_count : json_array_size(errors), warning_count, &counts);
    print_head(cli, problem);
    fprintf(stderr, "%s\n", buf_string(&counts));
}

/* What was printed before it failed, with the end of its last line. */
static void print_output(json_t *problem, FILE *to) {
    const char *output = json_string_value(json_at(problem, "result.output"));
    if (!output || !output[0]) return;
    text_print(to, output);
    if (output[strlen(output) - 1] != '\n') fputc('\n', to);
    fflush(to);
}

static void print_problem(const struct cli *cli, json_t *problem) {
    json_t *errors = json_at(problem, "result.errors");
    if (!errors) errors = json_object_get(problem, "errors");
    if (json_array_size(errors) > 0) {
        print_compilation(cli, problem, errors);
        return;
    }
    print_head(cli, problem);
    text_print(stderr, field(problem, "detail"));
    fputc('\n', stderr);
    const char *advice = field(problem, "advice");
    if (!advice[0]) return;
    fputs(style_code(cli->err_colour, STYLE_DIM), stderr);
    text_print(stderr, advice);
    fprintf(stderr, "%s\n", style_code(cli->err_colour, STYLE_PLAIN));
}

static void tell(const struct cli *cli, json_t *problem) {
    if (cli->json)
        view_json(stdout, problem);
    else
        print_problem(cli, problem);
}

int fail_local(const struct cli *cli, const struct error *error) {
    CLEANUP_JSON json_t *problem = ops_problem(error);
    tell(cli, problem);
    return error_kind(error->code)->exit_code;
}

int fail_call(const struct cli *cli, struct sbx_error *error) {
    return fail_after_output(cli, error, stderr);
}

int fail_after_output(const struct cli *cli, struct sbx_error *error, FILE *to) {
    CLEANUP_JSON json_t *problem = error->json ? json_loads(error->json, 0, NULL) : NULL;
    int exit_code = error->exit_code ? error->exit_code : 1;
    if (!cli->json) print_output(problem, to);
    tell(cli, problem);
    sbx_error_clear(error);
    return exit_code;
}

int fail_usage(const struct cli *cli, const struct op *op, const struct error *error) {
    if (cli->json || error->code != E_INVALID) return fail_local(cli, error);
    fprintf(stderr, "%ssandbox:%s ", style_code(cli->err_colour, STYLE_RED), style_code(cli->err_colour, STYLE_PLAIN));
    if (op) fprintf(stderr, "%s: ", op->name);
    text_print(stderr, error->detail);
    if (op) {
        char line[USAGE_BYTES];
        usage_line(op, FLAGS_SHOWN, line);
        fprintf(stderr, "\nusage: %s\n", line);
    } else {
        fputs("\nusage: sandbox COMMAND …; sandbox help lists the commands\n", stderr);
    }
    return error_kind(error->code)->exit_code;
}
