/* Prints which states of processes a restart kept, and which it lost. */
#include "cli/cli_internal.h"

/* Both are a sandbox's words. */
static void print_note(const struct cli *cli, const char *label, const char *subject, const char *reason) {
    fprintf(stderr, "%s%s:%s ", style_code(cli->err_colour, STYLE_YELLOW), label,
            style_code(cli->err_colour, STYLE_PLAIN));
    if (subject) text_print_line(stderr, subject);
    if (subject && reason) fputs(": ", stderr);
    if (reason) text_print_line(stderr, reason);
    fputc('\n', stderr);
}

static void print_lost(const struct cli *cli, json_t *lost, json_int_t count) {
    size_t index;
    json_t *one;
    json_array_foreach(lost, index, one) {
        print_note(cli, "not kept", json_string_value(json_object_get(one, "path")),
                   json_string_value(json_object_get(one, "reason")));
    }
    if (count > (json_int_t)index) fprintf(stderr, "and %lld more\n", (long long)(count - (json_int_t)index));
}

void states_lines(const struct cli *cli, json_t *states) {
    const char *fresh = json_string_value(json_object_get(states, "fresh"));
    json_int_t kept = json_integer_value(json_object_get(states, "kept"));
    if (!states) return;
    if (fresh)
        print_note(cli, "started fresh", NULL, fresh);
    else
        fprintf(stderr, "%lld %s\n", (long long)kept,
                kept == 1 ? "process kept its state" : "processes kept their state");
    print_lost(cli, json_object_get(states, "lost"), json_integer_value(json_object_get(states, "lost_count")));
}
