/* scan: what a project does that its profile does not allow. */
#include <string.h>

#include "cli/cli_internal.h"

enum { SHOWN_MAX = 100 };

/* "lib/shop.ex:12: Shop.run/1 calls System.cmd/2, which takes the operation os_command (run programs)" */
static void print_finding(const struct cli *cli, json_t *finding) {
    json_int_t line = json_integer_value(json_object_get(finding, "line"));
    const char *file = text_of(finding, "file", ""), *module = text_of(finding, "module", "");
    fputs(style_code(cli->out_colour, STYLE_BOLD), stdout);
    text_print_line(stdout, *file ? file : module);
    if (line > 0) printf(":%lld", (long long)line);
    printf(":%s ", style_code(cli->out_colour, STYLE_PLAIN));
    text_print_line(stdout, module);
    if (*module) putchar(' ');
    text_print_line(stdout, text_of(finding, "function", ""));
    if (*text_of(finding, "function", "")) putchar(' ');
    text_print_line(stdout, text_of(finding, "detail", ""));
    putchar('\n');
}

/* What holds it anyway, and how to allow it, once for each operation. */
static void print_operation(const struct cli *cli, json_t *finding) {
    printf("%s%s:%s without it, ", style_code(cli->out_colour, STYLE_YELLOW), text_of(finding, "operation", ""),
           style_code(cli->out_colour, STYLE_PLAIN));
    text_print_line(stdout, text_of(finding, "held", ""));
    fputs("; to allow it, ", stdout);
    text_print_line(stdout, text_of(finding, "allow", ""));
    putchar('\n');
}

static void print_operations(const struct cli *cli, json_t *findings) {
    CLEANUP_JSON json_t *told = json_object();
    size_t index;
    json_t *finding;
    json_array_foreach(findings, index, finding) {
        const char *operation = text_of(finding, "operation", "");
        if (json_object_get(told, operation)) continue;
        json_object_set_new(told, operation, json_true());
        print_operation(cli, finding);
    }
}

/* "2 findings in 14 modules for the profile high; 3 calls can't be decided before they run, and are held by the kernel"
 */
static void summarize(json_t *report) {
    long long findings = json_integer_value(json_object_get(report, "finding_count"));
    long long dynamic = json_integer_value(json_object_get(report, "dynamic_count"));
    long long modules = json_integer_value(json_object_get(report, "modules"));
    CLEANUP(buf_free) struct buf count = BUF_INIT;
    buf_printf(&count, "%lld finding%s", findings, findings == 1 ? "" : "s");
    printf("%s in %lld module%s for the profile %s", findings > 0 ? buf_string(&count) : "nothing found", modules,
           modules == 1 ? "" : "s", text_of(report, "profile", ""));
    if (dynamic > 0)
        printf("; %lld call%s can't be decided before %s run%s, and %s held by the kernel", dynamic,
               dynamic == 1 ? "" : "s", dynamic == 1 ? "it" : "they", dynamic == 1 ? "s" : "",
               dynamic == 1 ? "is" : "are");
    putchar('\n');
}

int verb_scan(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *report = NULL;
    struct sbx_error error;
    size_t index;
    json_t *entry;
    cli->source = json_string_value(json_object_get(arguments->params, "path"));
    struct progress *progress = progress_start(cli, "scanning");
    int result = session_call(cli, op, arguments->params, &report, &error);
    progress_stop(progress);
    if (result < 0) return fail_call(cli, &error);
    json_t *findings = json_object_get(report, "findings");
    if (cli->json) {
        view_json(stdout, report);
        return json_array_size(findings) > 0;
    }
    json_array_foreach(findings, index, entry) if (index < SHOWN_MAX) print_finding(cli, entry);
    if (json_array_size(findings) > SHOWN_MAX) printf("… and %zu more\n", json_array_size(findings) - SHOWN_MAX);
    json_array_foreach(json_object_get(report, "notes"), index, entry) if (index < SHOWN_MAX) print_finding(cli, entry);
    print_operations(cli, findings);
    summarize(report);
    return json_array_size(findings) > 0;
}
