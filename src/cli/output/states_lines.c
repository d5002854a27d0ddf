/* Prints which states of processes a restart kept, and which it lost. */
#include "cli/cli_internal.h"

enum { PLACES_SHOWN = 3 };

/* Both are a sandbox's words. */
static void print_note(const struct cli *cli, const char *label, const char *subject, const char *reason) {
    fprintf(stderr, "%s%s:%s ", style_code(cli->err_colour, STYLE_YELLOW), label,
            style_code(cli->err_colour, STYLE_PLAIN));
    if (subject) text_print_line(stderr, subject);
    if (subject && reason) fputs(": ", stderr);
    if (reason) text_print_line(stderr, reason);
    fputc('\n', stderr);
}

static const char *reason_at(json_t *lost, size_t index) {
    return json_string_value(json_object_get(json_array_get(lost, index), "reason"));
}

static bool is_first_of_reason(json_t *lost, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (string_equal(reason_at(lost, i), reason_at(lost, index))) return false;
    return true;
}

/* "A, B, C and 57 more": those with the reason of the one at index, which is the first of them. */
static void list_places(json_t *lost, size_t index, struct buf *line) {
    size_t count = 0;
    for (size_t i = index; i < json_array_size(lost); i++) {
        if (i > index && !string_equal(reason_at(lost, i), reason_at(lost, index))) continue;
        if (++count > PLACES_SHOWN) continue;
        if (count > 1) buf_append_string(line, ", ");
        buf_append_string(line, text_of(json_array_get(lost, i), "path", ""));
    }
    if (count > PLACES_SHOWN) buf_printf(line, " and %zu more", count - PLACES_SHOWN);
}

/* A line for each reason: hundreds of processes may have the same. */
static void print_lost(const struct cli *cli, json_t *lost, json_int_t count) {
    size_t size = json_array_size(lost);
    for (size_t i = 0; i < size; i++) {
        CLEANUP(buf_free) struct buf places = BUF_INIT;
        if (!is_first_of_reason(lost, i)) continue;
        list_places(lost, i, &places);
        print_note(cli, "not kept", buf_string(&places), reason_at(lost, i));
    }
    if (count > (json_int_t)size) fprintf(stderr, "and %lld more\n", (long long)(count - (json_int_t)size));
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
