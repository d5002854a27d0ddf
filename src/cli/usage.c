/* Help texts, made from the operation table, and the nearest name to a misspelt one. */
#include <string.h>

#include "cli/cli_internal.h"

enum { WORD_MAX_BYTES = 48, NEAR_ENOUGH = 2, PLACEHOLDER_BYTES = 64 };

/* ---- usage lines ---- */

static const char *const type_words[OP_TYPE_COUNT] = {
    [OP_TEXT] = "TEXT",
    [OP_ID] = "ID",
    [OP_PATH] = "PATH",
    [OP_NAME] = "NAME",
    [OP_MODULE] = "MODULE",
    [OP_INTEGER] = "N",
    [OP_SIZE] = "64M",
    [OP_DURATION] = "5s",
    [OP_PERCENT] = "50%",
    [OP_BOOLEAN] = "",
    [OP_CHOICE] = NULL,
    [OP_RESTART] = "never|on-failure[:N]|always",
    [OP_TEXTS] = "NAME",
    [OP_PATHS] = "PATH",
    [OP_EXPRESSIONS] = "EXPR",
    [OP_PAIRS] = "K=V",
    [OP_FILES] = "FILE",
    [OP_WORDS] = "ARG",
    [OP_MOUNTS] = "DIR:PATH[:ro]",
};

static const char *value_word(const struct op_param *param) {
    return param->type == OP_CHOICE ? param->choices : type_words[param->type];
}

static bool is_repeated(const struct op_param *param) {
    return param->flags & OP_REST || param->type == OP_PATHS || param->type == OP_WORDS;
}

static void append_word(struct buf *line, const struct op_param *param) {
    char word[PLACEHOLDER_BYTES];
    args_placeholder(param, word, sizeof word);
    buf_printf(line, param->flags & OP_REQUIRED ? " %s%s" : " [%s%s]", word, is_repeated(param) ? "…" : "");
}

static void append_flag(struct buf *line, const struct op_param *param) {
    char word[PLACEHOLDER_BYTES];
    args_flag_name(param, word, sizeof word);
    const char *value = value_word(param);
    buf_printf(line, " [--%s%s%s]", word, *value ? " " : "", value);
}

void usage_line(const struct op *op, size_t flags_max, char ret[USAGE_BYTES]) {
    struct buf line = {.max = USAGE_BYTES};
    size_t flags = 0;
    buf_printf(&line, "sandbox %s", op->name);
    for (size_t i = 0; i < op->param_count; i++) flags += !(op->params[i].flags & OP_POSITIONAL);
    for (size_t i = 0; i < op->param_count; i++)
        if (op->params[i].flags & OP_POSITIONAL)
            append_word(&line, &op->params[i]);
        else if (flags <= flags_max)
            append_flag(&line, &op->params[i]);
    if (flags > flags_max) buf_printf(&line, " [FLAG…]; sandbox %s --help lists the flags", op->name);
    snprintf(ret, USAGE_BYTES, "%s", buf_string(&line));
    buf_free(&line);
}

/* ---- help ---- */

enum { NAME_COLUMNS = 28 };

/* A long name has a line of its own. */
static void print_entry(FILE *out, const char *name, const char *summary, const char *fallback) {
    if (strlen(name) > NAME_COLUMNS) {
        fprintf(out, "  %s\n", name);
        name = "";
    }
    fprintf(out, "  %-*s %s", NAME_COLUMNS, name, summary);
    if (fallback) fprintf(out, " (default %s)", fallback);
    fputc('\n', out);
}

/* A default as a user would write it; the row has it as JSON. NULL: there is none to tell. */
static const char *default_word(const struct op_param *param, char ret[PLACEHOLDER_BYTES]) {
    const char *fallback = param->fallback;
    uint64_t number;
    if (!fallback || param->type == OP_BOOLEAN) return NULL;
    bool is_number = parse_u64(fallback, &number);
    size_t quotes = fallback[0] == '"' ? 1 : 0;
    if (is_number && param->type == OP_DURATION)
        duration_to_text(number, ret);
    else if (is_number && param->type == OP_SIZE)
        size_to_text(number, ret);
    else
        snprintf(ret, PLACEHOLDER_BYTES, "%.*s", (int)(strlen(fallback) - 2 * quotes), fallback + quotes);
    return ret;
}

static void print_param(FILE *out, const struct op_param *param) {
    char word[PLACEHOLDER_BYTES], entry[2 * PLACEHOLDER_BYTES];
    if (param->flags & OP_POSITIONAL) {
        args_placeholder(param, entry, sizeof entry);
    } else {
        args_flag_name(param, word, sizeof word);
        const char *value = value_word(param);
        snprintf(entry, sizeof entry, "--%s%s%s", word, *value ? " " : "", value);
    }
    char fallback[PLACEHOLDER_BYTES];
    print_entry(out, entry, param->summary, default_word(param, fallback));
}

static void print_globals(FILE *out, const struct op *op) {
    print_entry(out, "--json", "print one JSON document", NULL);
    print_entry(out, "--home DIR", "the instance to use; also $SANDBOX_HOME", NULL);
    if (!op || !ops_param(op, "timeout_ms")) print_entry(out, "--timeout 5s", "give up after this time", NULL);
    print_entry(out, "--no-autostart", "fail when no service runs instead of starting one", NULL);
    print_entry(out, "--help", "this text", NULL);
}

void usage_print_op(FILE *out, const struct op *op) {
    char line[USAGE_BYTES];
    usage_line(op, SIZE_MAX, line);
    fprintf(out, "%s: %s\n\nusage: %s\n\n", op->name, op->summary, line);
    for (size_t i = 0; i < op->param_count; i++) print_param(out, &op->params[i]);
    print_globals(out, op);
    fprintf(out, "\nexample: %s\n", op->example);
}

void usage_print_all(FILE *out) {
    size_t count;
    fputs("Run Erlang/OTP applications in jails that the kernel enforces.\n\nusage: sandbox COMMAND …\n\n", out);
    const struct op *table = ops_table(&count);
    for (size_t i = 0; i < count; i++) print_entry(out, table[i].name, table[i].summary, NULL);
    const struct command *commands = commands_table(&count);
    for (size_t i = 0; i < count; i++) print_entry(out, commands[i].name, commands[i].summary, NULL);
    fputs("\nEvery command takes:\n\n", out);
    print_globals(out, NULL);
    fputs("\nExit codes: 0 done, 1 failed, 2 bad usage, 3 not found, 4 conflict, 5 refused, 6 no service.\n", out);
}

/* ---- mistyped words ---- */

static size_t smallest(size_t a, size_t b, size_t c) {
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Levenshtein's distance, one row of the matrix at a time. */
static size_t distance(const char *a, const char *b) {
    size_t row[WORD_MAX_BYTES + 1];
    size_t length = strlen(b);
    if (strlen(a) > WORD_MAX_BYTES || length > WORD_MAX_BYTES) return WORD_MAX_BYTES;
    for (size_t j = 0; j <= length; j++) row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t above = row[j];
            row[j] = smallest(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[length];
}

const char *usage_nearest(const char *word, const char *const *known, size_t count) {
    const char *nearest = NULL;
    size_t best = NEAR_ENOUGH + 1;
    for (size_t i = 0; i < count; i++) {
        size_t apart = distance(word, known[i]);
        if (apart >= best || 2 * apart >= strlen(known[i])) continue;
        best = apart;
        nearest = known[i];
    }
    return nearest;
}
