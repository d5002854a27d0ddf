/* Shows answers as JSON, as fields of one object, or as a list, and records of logs as lines. */
#include <ctype.h>
#include <string.h>

#include "cli/cli_internal.h"

enum { ENTRIES_SHOWN = 8, COLUMNS_MAX = 16, HEADING_BYTES = 48, PATH_BYTES = 96 };

/* One document on one line; indented where a person reads it. */
void view_json(FILE *out, const json_t *value) {
    bool terminal = isatty(fileno(out));
    json_dumpf(value, out, (terminal ? JSON_INDENT(2) : JSON_COMPACT) | JSON_ENCODE_ANY);
    fputc('\n', out);
}

/* "memory_bytes" reads as "memory": the value shows its unit. */
static void label_of(const char *key, char *ret, size_t size) {
    static const char *const units[] = {"_bytes", "_ms", "_us", "_percent"};
    CLEANUP(buf_free) struct buf clean = BUF_INIT;
    text_clean_line(&clean, key, strlen(key));
    snprintf(ret, size, "%s", buf_string(&clean));
    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (string_ends(ret, units[i])) ret[strlen(ret) - strlen(units[i])] = '\0';
    for (char *at = ret; *at; at++)
        if (*at == '_') *at = ' ';
}

/* ---- an object: one line per field ---- */

static size_t widest_label(json_t *object) {
    size_t widest = 0;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        size_t width = text_width(key) + (json_is_object(value) ? 0 : 1);
        if (width > widest) widest = width;
    }
    return widest;
}

/* Of a long list its first entries; programs get all of it. */
static void format_some(const char *key, json_t *value, struct buf *text) {
    if (json_array_size(value) <= ENTRIES_SHOWN) {
        format_value(key, value, text);
        return;
    }
    CLEANUP_JSON json_t *first = json_array();
    for (size_t i = 0; i < ENTRIES_SHOWN; i++) json_array_append(first, json_array_get(value, i));
    buf_printf(text, "%zu: ", json_array_size(value));
    format_value(key, first, text);
    buf_append_string(text, ", and more with --json");
}

static void view_field(FILE *out, bool colour, int indent, size_t width, const char *key, json_t *value) {
    char label[HEADING_BYTES];
    label_of(key, label, sizeof label);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    format_some(key, value, &text);
    fprintf(out, "%*s%s%-*s%s %s\n", indent, "", style_code(colour, STYLE_DIM), (int)width, label,
            style_code(colour, STYLE_PLAIN), buf_string(&text));
}

static void view_fields(FILE *out, bool colour, int indent, json_t *object) {
    size_t width = widest_label(object);
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        bool nested = json_is_object(value) && json_object_size(value) > 0 && indent == 0;
        if (!nested) {
            view_field(out, colour, indent, width, key, value);
            continue;
        }
        char label[HEADING_BYTES];
        label_of(key, label, sizeof label);
        fprintf(out, "%s%s%s\n", style_code(colour, STYLE_DIM), label, style_code(colour, STYLE_PLAIN));
        view_fields(out, colour, indent + 2, value);
    }
}

void view_object(FILE *out, bool colour, json_t *object) {
    view_fields(out, colour, 0, object);
}

/* ---- a list of objects without a choice of fields: a column each ---- */

struct chosen {
    struct column columns[COLUMNS_MAX];
    char headings[COLUMNS_MAX][HEADING_BYTES];
    char paths[COLUMNS_MAX][PATH_BYTES];
    size_t count;
};

static void choose_columns(struct chosen *chosen, const char *prefix, json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        if (json_is_object(value) && !*prefix) {
            char deeper[PATH_BYTES];
            if (string_format(deeper, sizeof deeper, NULL, "%s.", key) == 0) choose_columns(chosen, deeper, value);
            continue;
        }
        size_t at = chosen->count;
        if (at == COLUMNS_MAX || string_format(chosen->paths[at], PATH_BYTES, NULL, "%s%s", prefix, key) < 0) continue;
        label_of(key, chosen->headings[at], HEADING_BYTES);
        for (char *letter = chosen->headings[at]; *letter; letter++) *letter = (char)toupper((unsigned char)*letter);
        chosen->columns[at] =
            (struct column){chosen->headings[at], chosen->paths[at], json_is_number(value) || json_is_null(value)};
        chosen->count++;
    }
}

void view_list(FILE *out, bool colour, json_t *list) {
    struct chosen chosen = {.count = 0};
    choose_columns(&chosen, "", json_array_get(list, 0));
    columns_print(out, colour, chosen.columns, chosen.count, list);
}

/* ---- logs ---- */

/* A reader that was too slow, or asked too late, is told what it has not seen. */
bool view_skipped(FILE *out, json_t *record) {
    json_t *skipped = json_object_get(record, "skipped");
    if (!json_is_integer(skipped)) return false;
    fprintf(out, "(%lld records are not shown: they left the history before they could be read)\n",
            (long long)json_integer_value(skipped));
    return true;
}

/* Output is shown as it was printed; a log record is a line of its own, with its level. */
void view_log_record(FILE *out, bool colour, json_t *record) {
    const char *text = json_string_value(json_object_get(record, "text"));
    const char *level = json_string_value(json_object_get(record, "level"));
    if (!text) return;
    if (level) {
        fprintf(out, "%s[", style_code(colour, STYLE_DIM));
        text_print(out, level);
        fprintf(out, "]%s ", style_code(colour, STYLE_PLAIN));
    }
    text_print(out, text);
    if (level && !string_ends(text, "\n")) fputc('\n', out);
}
