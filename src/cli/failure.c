#include <string.h>

#include "cli/cli_internal.h"
#include "client/client.h"

/* What a person can do about it, by the problem's recovery. */
static const char *hint_for(const char *recovery) {
    static const struct {
        const char *recovery, *hint;
    } hints[] = {
        {"retry", "trying again may help"},
        {"rollback", "go back to the version before"},
        {"restart", "restart the sandbox: sandbox restart ID"},
        {"isolate", "keep the sandbox apart until it is understood"},
        {"terminate", "destroy the sandbox: sandbox destroy ID"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
        if (string_equal(recovery, hints[i].recovery)) return hints[i].hint;
    return NULL;
}

static const char *field(const json_t *problem, const char *name) {
    const char *text = json_string_value(json_object_get(problem, name));
    return text ? text : "";
}

/* "lib/a.ex:3:1: undefined function": as compilers say it, so that editors find the place. */
static void print_diagnostic(json_t *diagnostic) {
    json_t *line = json_object_get(diagnostic, "line");
    json_t *column = json_object_get(diagnostic, "column");
    text_print(stderr, field(diagnostic, "file"));
    if (json_is_integer(line)) fprintf(stderr, ":%lld", (long long)json_integer_value(line));
    if (json_is_integer(column)) fprintf(stderr, ":%lld", (long long)json_integer_value(column));
    fputs(": ", stderr);
    text_print(stderr, field(diagnostic, "message"));
    fputc('\n', stderr);
}

static void print_problem(const struct cli *cli, json_t *problem) {
    fprintf(stderr, "%ssandbox:%s ", style_code(cli->err_colour, STYLE_RED), style_code(cli->err_colour, STYLE_PLAIN));
    text_print(stderr, field(problem, "title"));
    fputs(": ", stderr);
    text_print(stderr, field(problem, "detail"));
    fputc('\n', stderr);
    json_t *errors = json_at(problem, "result.errors");
    if (!errors) errors = json_object_get(problem, "errors");
    size_t index;
    json_t *diagnostic;
    json_array_foreach(errors, index, diagnostic) {
        if (json_is_object(diagnostic)) print_diagnostic(diagnostic);
    }
    const char *hint = hint_for(field(problem, "recovery"));
    if (hint)
        fprintf(stderr, "%s%s%s\n", style_code(cli->err_colour, STYLE_DIM), hint,
                style_code(cli->err_colour, STYLE_PLAIN));
}

static void tell(const struct cli *cli, json_t *problem) {
    if (cli->json)
        view_json(stdout, problem);
    else
        print_problem(cli, problem);
}

int fail_local(const struct cli *cli, const struct error *error) {
    CLEANUP_JSON json_t *problem = client_problem(error);
    tell(cli, problem);
    return error_kind(error->code)->exit_code;
}

int fail_call(const struct cli *cli, struct sbx_error *error) {
    CLEANUP_JSON json_t *problem = error->json ? json_loads(error->json, 0, NULL) : NULL;
    int exit_code = error->exit_code ? error->exit_code : 1;
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
        usage_line(op, line);
        fprintf(stderr, "\nusage: %s\n", line);
    } else {
        fputs("\nusage: sandbox COMMAND …; sandbox help lists the commands\n", stderr);
    }
    return error_kind(error->code)->exit_code;
}
