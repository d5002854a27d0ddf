/* Prints terms in Erlang's syntax. */
#include <string.h>

#include "term/term_internal.h"

static bool is_printable(uint32_t code) {
    return is_visible(code) || is_named_control(code);
}

static bool is_printable_latin1(uint32_t code) {
    return code <= 0xFF && is_printable(code);
}

static void print_escaped(struct printer *printer, uint32_t code, char quote) {
    static const char named[] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\v'] = 'v', ['\f'] = 'f', ['\r'] = 'r', [27] = 'e', [127] = 'd'};
    if (code == (uint32_t)quote || code == '\\')
        buf_printf(printer->out, "\\%c", (char)code);
    else if ((code >= 0x20 && code <= 0x7E) || code >= 0xA0)
        print_code_point(printer, code);
    else if (code < sizeof named && named[code])
        buf_printf(printer->out, "\\%c", named[code]);
    else
        buf_printf(printer->out, "\\%03o", code);
}

static void print_quoted(struct printer *printer, const uint8_t *utf8, size_t size, char quote) {
    buf_append_byte(printer->out, (uint8_t)quote);
    for (size_t at = 0; at < size && !printer_is_full(printer);) {
        uint32_t code = 0;
        at += utf8_decode(utf8 + at, size - at, &code);
        print_escaped(printer, code, quote);
    }
    buf_append_byte(printer->out, (uint8_t)quote);
}

/* In any release: `maybe` and `else` are since OTP 27. */
static bool is_reserved(const char *text) {
    static const char *const words[] = {
        "after", "and",   "andalso", "band",   "begin",   "bnot", "bor", "bsl",  "bsr", "bxor",
        "case",  "catch", "cond",    "div",    "else",    "end",  "fun", "if",   "let", "maybe",
        "not",   "of",    "or",      "orelse", "receive", "rem",  "try", "when", "xor",
    };
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strcmp(words[i], text) == 0) return true;
    return false;
}

static bool is_lower(uint32_t code) {
    return (code >= 'a' && code <= 'z') || (code >= 0xDF && code <= 0xFF && code != 0xF7);
}

static bool is_name_character(uint32_t code) {
    return is_lower(code) || (code >= 'A' && code <= 'Z') || (code >= 0xC0 && code <= 0xDE && code != 0xD7) ||
           (code >= '0' && code <= '9') || code == '_' || code == '@';
}

static bool is_bare_atom(const struct term *atom) {
    const uint8_t *text = (const uint8_t *)atom->atom.text;
    uint32_t first = 0;
    utf8_decode(text, atom->atom.length, &first);
    return is_lower(first) && bytes_are_text(text, atom->atom.length, is_name_character) &&
           !is_reserved(atom->atom.text);
}

static void print_atom(struct printer *printer, const struct term *atom) {
    if (is_bare_atom(atom))
        print_bytes(printer, atom->atom.text, atom->atom.length);
    else
        print_quoted(printer, (const uint8_t *)atom->atom.text, atom->atom.length, '\'');
}

static void print_latin1(struct printer *printer, const struct term *binary) {
    buf_append_byte(printer->out, '"');
    for (size_t i = 0; i < binary->binary.size && !printer_is_full(printer); i++)
        print_escaped(printer, binary->binary.data[i], '"');
    buf_append_byte(printer->out, '"');
}

static bool is_latin1_text(const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (!is_printable_latin1(data[i])) return false;
    return true;
}

/* UTF-8 text gets the suffix /utf8 unless it is ASCII. Other bytes are shown as Latin-1 if that is printable. */
static void print_binary(struct printer *printer, const struct term *binary) {
    const uint8_t *data = binary->binary.data;
    size_t size = binary->binary.size;
    print_text(printer, "<<");
    if (size > 0 && bytes_are_text(data, size, is_printable)) {
        print_quoted(printer, data, size, '"');
        if (!utf8_is_ascii(data, size)) print_text(printer, "/utf8");
    } else if (size > 0 && !utf8_valid(data, size) && is_latin1_text(data, size)) {
        print_latin1(printer, binary);
    } else {
        print_bits(printer, binary, ",", ":", "");
    }
    print_text(printer, ">>");
}

static void print_bitstring(struct printer *printer, const struct term *bits) {
    print_text(printer, "<<");
    print_bits(printer, bits, ",", ":", "");
    print_text(printer, ">>");
}

static void print_elements(struct printer *printer, const struct term *container) {
    for (size_t i = 0; i < container->items.count && !printer_is_full(printer); i++) {
        if (i > 0) print_text(printer, ",");
        print_erlang(printer, &container->items.elements[i]);
    }
}

static void print_string(struct printer *printer, const struct term *list) {
    print_text(printer, "\"");
    for (size_t i = 0; i < list->items.count && !printer_is_full(printer); i++)
        print_escaped(printer, (uint32_t)list->items.elements[i].integer, '"');
    print_text(printer, "\"");
}

static void print_list(struct printer *printer, const struct term *list) {
    if (list_is_text(list, is_printable)) {
        print_string(printer, list);
        return;
    }
    print_text(printer, "[");
    print_elements(printer, list);
    if (list->items.tail->type != TERM_NIL) {
        print_text(printer, "|");
        print_erlang(printer, list->items.tail);
    }
    print_text(printer, "]");
}

static void print_tuple(struct printer *printer, const struct term *tuple) {
    print_text(printer, "{");
    print_elements(printer, tuple);
    print_text(printer, "}");
}

static void print_map(struct printer *printer, const struct term *map) {
    print_text(printer, "#{");
    for (size_t i = 0; i < map->items.count && !printer_is_full(printer); i++) {
        if (i > 0) print_text(printer, ",");
        print_erlang(printer, &map->items.elements[2 * i]);
        print_text(printer, " => ");
        print_erlang(printer, &map->items.elements[2 * i + 1]);
    }
    print_text(printer, "}");
}

static void print_closure(struct printer *printer, const struct term_fun *fun) {
    print_text(printer, "#Fun<");
    print_atom(printer, fun->module);
    buf_printf(printer->out, ".%u.%u>", fun->index, fun->old_unique);
}

static void print_export(struct printer *printer, const struct term_fun *fun) {
    print_text(printer, "fun ");
    print_atom(printer, fun->module);
    print_text(printer, ":");
    print_atom(printer, fun->function);
    buf_printf(printer->out, "/%u", fun->arity);
}

/* #module:name{field = value,…}, in Elixir too. */
static void print_record(struct printer *printer, const struct term *record) {
    const struct term *names = &record->items.elements[RECORD_FIELDS], *values = names + record->items.count;
    print_text(printer, "#");
    print_atom(printer, &record->items.elements[RECORD_MODULE]);
    print_text(printer, ":");
    print_atom(printer, &record->items.elements[RECORD_NAME]);
    print_text(printer, "{");
    for (size_t i = 0; i < record->items.count && !printer_is_full(printer); i++) {
        if (i > 0) print_text(printer, ",");
        print_atom(printer, &names[i]);
        print_text(printer, " = ");
        print_erlang(printer, &values[i]);
    }
    print_text(printer, "}");
}

void print_erlang(struct printer *printer, const struct term *term) {
    if (printer_is_full(printer)) return;
    switch (term->type) {
    case TERM_INTEGER: print_number(printer, term->integer); break;
    case TERM_BIG: print_big(printer, term, "16#"); break;
    case TERM_FLOAT: print_float(printer, term->number); break;
    case TERM_ATOM: print_atom(printer, term); break;
    case TERM_BINARY: print_binary(printer, term); break;
    case TERM_BITSTRING: print_bitstring(printer, term); break;
    case TERM_NIL: print_text(printer, "[]"); break;
    case TERM_LIST: print_list(printer, term); break;
    case TERM_TUPLE: print_tuple(printer, term); break;
    case TERM_MAP: print_map(printer, term); break;
    case TERM_PID: print_identifier(printer, "", term); break;
    case TERM_PORT: print_identifier(printer, "#Port", term); break;
    case TERM_REFERENCE: print_identifier(printer, "#Ref", term); break;
    case TERM_FUN: print_closure(printer, term->fun); break;
    case TERM_EXPORT: print_export(printer, term->fun); break;
    case TERM_RECORD: print_record(printer, term); break;
    }
}
