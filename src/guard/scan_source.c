/* Scans source text for code that is in no BEAM file: code that runs while compiling, private macros, parse transforms.
   A name alone is never a finding; a module and a function together are. */
#include <string.h>

#include "guard/guard_internal.h"
#include "guard/scan_tokens.h"

enum { ALIASES_MAX = 256, WINDOW = 4 };

struct alias {
    struct beam_text name;
    struct beam_text prefix; /* the full name's prefix; empty: the name is complete */
    struct beam_text full;   /* instead of prefix and name: alias Full, as: Name */
};

struct source_scan {
    struct scan_report *report;
    struct tokens tokens;
    const char *path;
    struct alias aliases[ALIASES_MAX];
    size_t alias_count;
    unsigned modules; /* defined so far */
    struct token ahead[WINDOW];
    size_t ahead_count;
    struct buf name;
};

static const struct token *look(struct source_scan *scan, size_t ahead) {
    while (scan->ahead_count <= ahead) scan->ahead[scan->ahead_count++] = tokens_next(&scan->tokens);
    return &scan->ahead[ahead];
}

static struct token take(struct source_scan *scan) {
    struct token token = *look(scan, 0);
    memmove(scan->ahead, scan->ahead + 1, --scan->ahead_count * sizeof *scan->ahead);
    return token;
}

static bool is_mark(const struct token *token, char mark) {
    return token->kind == TOKEN_MARK && token->text.data[0] == mark;
}

static bool is_name(const struct token *token, const char *name) {
    return (token->kind == TOKEN_NAME || token->kind == TOKEN_ATOM) && guard_text_is(token->text, name);
}

static struct scan_place place_at(const struct source_scan *scan, uint32_t line) {
    return (struct scan_place){.file = {scan->path, strlen(scan->path)}, .line = line};
}

static int see_call(struct source_scan *scan, struct beam_text module, const struct token *function,
                    struct error *reterr) {
    struct scan_place place = place_at(scan, function->line);
    struct scan_target target = {.module = module, .function = function->text, .arity = SCAN_ANY_ARITY};
    if (guard_text_is(function->text, "t") || scan_is_known(scan->report, &place, &target)) return 0; /* t: a type */
    return scan_call(scan->report, SCAN_SOURCE, &place, &target, reterr);
}

/* ---- Elixir ---- */

static const struct alias *find_alias(const struct source_scan *scan, struct beam_text name) {
    for (size_t i = scan->alias_count; i > 0; i--) {
        struct beam_text known = scan->aliases[i - 1].name;
        if (known.size == name.size && memcmp(known.data, name.data, name.size) == 0) return &scan->aliases[i - 1];
    }
    return NULL;
}

static void add_alias(struct source_scan *scan, struct alias alias) {
    if (scan->alias_count < ALIASES_MAX) scan->aliases[scan->alias_count++] = alias;
}

/* Takes Foo.Bar.Baz as written; the last part in *ret_last. */
static struct beam_text take_dotted(struct source_scan *scan, struct beam_text *ret_last) {
    struct token first = take(scan), last = first;
    while (is_mark(look(scan, 0), '.') && look(scan, 1)->kind == TOKEN_ALIAS) {
        take(scan);
        last = take(scan);
    }
    *ret_last = last.text;
    return (struct beam_text){first.text.data, (size_t)(last.text.data + last.text.size - first.text.data)};
}

/* alias Foo.{Bar, Baz} */
static void take_alias_group(struct source_scan *scan, struct beam_text prefix) {
    take(scan);
    take(scan);
    while (look(scan, 0)->kind == TOKEN_ALIAS || is_mark(look(scan, 0), ',')) {
        struct beam_text last;
        if (is_mark(look(scan, 0), ','))
            take(scan);
        else if (take_dotted(scan, &last).size > 0)
            add_alias(scan, (struct alias){.name = last, .prefix = prefix});
    }
}

/* alias Foo.Bar; alias Foo.Bar, as: Baz; alias Foo.{Bar, Baz} */
static void take_alias(struct source_scan *scan) {
    struct beam_text last, full = take_dotted(scan, &last);
    if (is_mark(look(scan, 0), '.') && is_mark(look(scan, 1), '{')) {
        take_alias_group(scan, full);
        return;
    }
    bool is_renamed = is_mark(look(scan, 0), ',') && is_name(look(scan, 1), "as") && is_mark(look(scan, 2), ':') &&
                      look(scan, 3)->kind == TOKEN_ALIAS;
    if (is_renamed) {
        for (int i = 0; i < 3; i++) take(scan);
        last = take(scan).text;
    }
    add_alias(scan, (struct alias){.name = last, .full = full});
}

/* A nested module is known by its own name inside its parent. */
static void take_defmodule(struct source_scan *scan) {
    struct token first = *look(scan, 0);
    struct beam_text last;
    take_dotted(scan, &last);
    if (scan->modules++ > 0) add_alias(scan, (struct alias){.name = first.text, .prefix = {.data = "?", .size = 1}});
}

/* The full name of the module, in scan->name. */
static struct beam_text resolve(struct source_scan *scan, struct beam_text written) {
    const char *dot = memchr(written.data, '.', written.size);
    struct beam_text first = {written.data, dot ? (size_t)(dot - written.data) : written.size};
    const struct alias *alias = find_alias(scan, first);
    bool is_full = guard_text_is(first, "Elixir");
    buf_clear(&scan->name);
    if (!is_full) buf_append_string(&scan->name, "Elixir.");
    if (alias && alias->full.size > 0) {
        buf_append(&scan->name, alias->full.data, alias->full.size);
        buf_append(&scan->name, written.data + first.size, written.size - first.size);
    } else {
        if (alias) buf_printf(&scan->name, "%.*s.", (int)alias->prefix.size, alias->prefix.data);
        buf_append(&scan->name, written.data, written.size);
    }
    return (struct beam_text){(const char *)scan->name.data, scan->name.failed ? 0 : scan->name.size};
}

/* Module.function, after the module was taken. */
static int see_elixir_call(struct source_scan *scan, struct beam_text module, struct error *reterr) {
    if (!is_mark(look(scan, 0), '.') || look(scan, 1)->kind != TOKEN_NAME) return 0;
    take(scan);
    struct token function = take(scan);
    return see_call(scan, module, &function, reterr);
}

static int see_elixir(struct source_scan *scan, struct error *reterr) {
    const struct token *token = look(scan, 0);
    if (token->kind == TOKEN_ALIAS) {
        struct beam_text last, written = take_dotted(scan, &last);
        return see_elixir_call(scan, resolve(scan, written), reterr);
    }
    struct token first = take(scan);
    if (first.kind == TOKEN_ATOM) return see_elixir_call(scan, first.text, reterr);
    if (is_mark(&first, '.')) { /* the field of a value is not a module */
        if (look(scan, 0)->kind == TOKEN_NAME) take(scan);
    } else if (look(scan, 0)->kind == TOKEN_ALIAS && is_name(&first, "alias")) {
        take_alias(scan);
    } else if (look(scan, 0)->kind == TOKEN_ALIAS && is_name(&first, "defmodule")) {
        take_defmodule(scan);
    }
    return 0;
}

/* ---- Erlang ---- */

static bool is_type_attribute(const struct token *token) {
    static const char *const names[] = {"spec", "type", "opaque", "callback", "record", "export_type", "dialyzer"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (is_name(token, names[i])) return true;
    return false;
}

/* Types look like calls, so they are skipped. A form ends with a dot and a space. */
static void skip_form(struct source_scan *scan) {
    for (;;) {
        struct token token = take(scan);
        if (token.kind == TOKEN_END) return;
        const char *next = token.text.data + 1;
        if (is_mark(&token, '.') && (next == scan->tokens.end || strchr(" \t\r\n%", *next))) return;
    }
}

/* -compile({parse_transform, m}), taken up to the word itself. */
static int note_transform(struct source_scan *scan, uint32_t line, struct error *reterr) {
    struct scan_place place = place_at(scan, line);
    if (!is_mark(look(scan, 0), ',') || look(scan, 1)->kind != TOKEN_ATOM) return 0;
    place.module = look(scan, 1)->text;
    return scan_add_note(scan->report, "parse_transform", &place, "runs in the compiler, which is jailed too", reterr);
}

static int see_erlang(struct source_scan *scan, struct error *reterr) {
    struct token first = take(scan);
    if (is_mark(&first, '-') && is_type_attribute(look(scan, 0))) {
        skip_form(scan);
        return 0;
    }
    if (first.kind != TOKEN_ATOM) return 0;
    if (guard_text_is(first.text, "parse_transform")) return note_transform(scan, first.line, reterr);
    if (!is_mark(look(scan, 0), ':') || look(scan, 1)->kind != TOKEN_ATOM) return 0;
    take(scan);
    struct token function = take(scan);
    bool is_call = is_mark(look(scan, 0), '(') || is_mark(look(scan, 0), '/');
    return is_call ? see_call(scan, first.text, &function, reterr) : 0;
}

int scan_source(struct scan_report *report, const char *path, const char *text, size_t size,
                enum scan_language language, struct error *reterr) {
    struct source_scan *scan = calloc(1, sizeof *scan);
    int result = 0;
    if (!scan) return error_set(reterr, E_NO_MEMORY, "no memory to scan a file");
    scan->report = report;
    scan->path = path;
    tokens_begin(&scan->tokens, text, size, language);
    while (result == 0 && look(scan, 0)->kind != TOKEN_END)
        result = language == SCAN_ELIXIR ? see_elixir(scan, reterr) : see_erlang(scan, reterr);
    buf_free(&scan->name);
    free(scan);
    return result;
}
