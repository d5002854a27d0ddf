/* Prints compilers' diagnostics with the source line and a caret below the place. */
#include <string.h>

#include "cli/cli_internal.h"

enum {
    SHOWN_MAX = 20,     /* of each severity */
    LINE_COLUMNS = 120, /* of a source line; of a longer one, what is around the place */
    LEAD_COLUMNS = 60,  /* before it */
    TAB_COLUMNS = 4,
    GUTTER_BYTES = 32,
};

static const struct {
    const char *word;
    enum style style;
} severities[] = {[SEVERITY_WARNING] = {"warning", STYLE_YELLOW}, [SEVERITY_ERROR] = {"error", STYLE_RED}};

struct view {
    const struct cli *cli;
    enum severity severity;
};

static const char *code_of(const struct view *view, enum style style) {
    return style_code(view->cli->err_colour, style);
}

/* ---- the source line ---- */

/* A line fit to be shown with a mark under it: where the place is in it, in columns of a terminal. */
struct shown_line {
    struct buf text;
    size_t mark;  /* columns before it */
    size_t width; /* of the mark */
};

static void shown_line_free(struct shown_line *line) {
    buf_free(&line->text);
}

/* How long the character is; bytes that are none stand alone. */
static size_t character_at(const struct buf *line, size_t at) {
    uint32_t code;
    size_t length = utf8_decode(line->data + at, line->size - at, &code);
    return length ? length : 1;
}

/* Skip as many characters as the compiler counts columns; the result is a place in bytes. */
static size_t byte_of_column(const struct buf *line, size_t column) {
    size_t at = 0;
    for (size_t passed = 1; passed < column && at < line->size; passed++) at += character_at(line, at);
    return at;
}

static size_t indent_of(const struct buf *line) {
    size_t at = 0;
    while (at < line->size && (line->data[at] == ' ' || line->data[at] == '\t')) at++;
    return at;
}

static void append_character(struct buf *text, const uint8_t *data, size_t length) {
    if (*data == '\t')
        for (int i = 0; i < TAB_COLUMNS; i++) buf_append_byte(text, ' ');
    else
        text_clean(text, (const char *)data, length);
}

/* From where to begin, so that the place is not too far to the right. */
static size_t window_start(const struct buf *line, size_t place) {
    if (line->size <= LINE_COLUMNS || place <= LEAD_COLUMNS) return 0;
    size_t start = place - LEAD_COLUMNS;
    while (start < place && (line->data[start] & 0xC0) == 0x80) start++;
    return start;
}

/* Column 0: the compiler told none, so the whole line is marked. */
static void show_line(const struct buf *line, size_t column, struct shown_line *ret) {
    size_t place = column ? byte_of_column(line, column) : indent_of(line);
    size_t at = window_start(line, place);
    if (at > 0) buf_append_string(&ret->text, "…");
    bool marked = false;
    for (size_t columns = 0; at < line->size && columns < LINE_COLUMNS; columns = text_width(buf_string(&ret->text))) {
        if (at >= place && !marked) {
            ret->mark = columns;
            marked = true;
        }
        size_t length = character_at(line, at);
        append_character(&ret->text, line->data + at, length);
        at += length;
    }
    size_t all = text_width(buf_string(&ret->text));
    if (!marked) ret->mark = all; /* past the end: something is missing there */
    ret->width = column || all <= ret->mark ? 1 : all - ret->mark;
    if (at < line->size) buf_append_string(&ret->text, "…");
}

static void print_repeated(char character, size_t count) {
    for (size_t i = 0; i < count; i++) fputc(character, stderr);
}

/*    |
    3 |     x + 1
      |     ^        */
static void print_line(const struct view *view, const struct buf *line, size_t number, size_t column) {
    CLEANUP(shown_line_free) struct shown_line shown = {BUF_INIT, 0, 0};
    show_line(line, column, &shown);
    char gutter[GUTTER_BYTES];
    int width = snprintf(gutter, sizeof gutter, "%zu", number);
    const char *dim = code_of(view, STYLE_DIM), *plain = code_of(view, STYLE_PLAIN);
    fprintf(stderr, "%s %*s |%s\n%s %s |%s %s\n%s %*s |%s ", dim, width, "", plain, dim, gutter, plain,
            buf_string(&shown.text), dim, width, "", plain);
    print_repeated(' ', shown.mark);
    fputs(code_of(view, severities[view->severity].style), stderr);
    print_repeated(column ? '^' : '~', shown.width);
    fprintf(stderr, "%s\n", plain);
}

/* ---- a whole diagnostic ---- */

static const char hint_lead[] = "\nhint: ";

/* Where a hint begins that stands after the message, or its end. */
static const char *find_hint(const char *message) {
    const char *hint = strstr(message, hint_lead);
    return hint ? hint : message + strlen(message);
}

/* Some compilers draw the line themselves, below their message: a line with nothing but a bar begins it. */
static size_t without_drawing(const char *message, size_t size) {
    for (size_t at = 0; at < size;) {
        const char *newline = memchr(message + at, '\n', size - at);
        if (!newline) break;
        size_t next = (size_t)(newline - message) + 1, blank = next;
        while (blank < size && message[blank] == ' ') blank++;
        if (blank > next && blank + 1 < size && message[blank] == '|' && message[blank + 1] == '\n') return next;
        at = next;
    }
    return size;
}

/* The first line as it is, the others below it. */
static void print_indented(const char *text, size_t size) {
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == ' ')) size--;
    for (size_t at = 0; at < size;) {
        CLEANUP(buf_free) struct buf clean = BUF_INIT;
        const char *newline = memchr(text + at, '\n', size - at);
        size_t length = newline ? (size_t)(newline - text) - at : size - at;
        text_clean(&clean, text + at, length);
        fprintf(stderr, "%s%s\n", at > 0 && length > 0 ? "  " : "", buf_string(&clean));
        at += length + 1;
    }
    if (size == 0) fputc('\n', stderr);
}

static void print_place(const struct view *view, const char *file, size_t line, size_t column) {
    fprintf(stderr, "%s  --> %s", code_of(view, STYLE_DIM), code_of(view, STYLE_PLAIN));
    text_print_line(stderr, file);
    if (line) fprintf(stderr, ":%zu", line);
    if (line && column) fprintf(stderr, ":%zu", column);
    fputc('\n', stderr);
}

static void print_diagnostic(const struct view *view, const json_t *diagnostic) {
    const char *message = json_string_value(json_object_get(diagnostic, "message"));
    const char *file = json_string_value(json_object_get(diagnostic, "file"));
    size_t line = number_of(diagnostic, "line"), column = number_of(diagnostic, "column");
    CLEANUP(buf_free) struct buf source = BUF_INIT;
    if (!message) message = "no reason given";
    const char *hint = find_hint(message);
    size_t size = (size_t)(hint - message);
    bool has_source = line && source_line(view->cli, file, line, &source);
    fprintf(stderr, "%s%s%s:%s ", code_of(view, STYLE_BOLD), code_of(view, severities[view->severity].style),
            severities[view->severity].word, code_of(view, STYLE_PLAIN));
    print_indented(message, has_source ? without_drawing(message, size) : size);
    if (file) print_place(view, file, line, column);
    if (has_source) print_line(view, &source, line, column);
    if (*hint) {
        fprintf(stderr, "  %shint:%s ", code_of(view, STYLE_BOLD), code_of(view, STYLE_PLAIN));
        hint += strlen(hint_lead);
        print_indented(hint, strlen(hint));
    }
    fputc('\n', stderr);
}

void diagnostics_print(const struct cli *cli, enum severity severity, json_t *list) {
    struct view view = {cli, severity};
    size_t index, count = json_array_size(list);
    json_t *diagnostic;
    json_array_foreach(list, index, diagnostic) {
        if (index == SHOWN_MAX) break;
        if (json_is_object(diagnostic)) print_diagnostic(&view, diagnostic);
    }
    if (count > SHOWN_MAX)
        fprintf(stderr, "and %zu more %s%s\n\n", count - SHOWN_MAX, severities[severity].word,
                count - SHOWN_MAX == 1 ? "" : "s");
}

size_t diagnostics_of(const json_t *report, const char *kind) {
    CLEANUP(buf_free) struct buf left_out = BUF_INIT;
    buf_printf(&left_out, "%s_left_out", kind);
    json_int_t count = json_integer_value(json_object_get(report, buf_string(&left_out)));
    return json_array_size(json_object_get(report, kind)) + (count > 0 ? (size_t)count : 0);
}

void diagnostics_count(size_t errors, size_t warnings, struct buf *buf) {
    if (errors > 0) buf_printf(buf, "%zu error%s", errors, errors == 1 ? "" : "s");
    if (errors > 0 && warnings > 0) buf_append_string(buf, " and ");
    if (warnings > 0) buf_printf(buf, "%zu warning%s", warnings, warnings == 1 ? "" : "s");
}
