/* Prints terms in Elixir's syntax, as Elixir 1.18 and later write them: every release reads it. */
#include <math.h>
#include <string.h>

#include "term/term_internal.h"

bool is_elixir_charlist_character(uint32_t code) {
    return (code >= 0x20 && code <= 0x7E) || is_named_control(code) || code == '\a';
}

static bool is_printable(uint32_t code) {
    return is_visible(code) || is_named_control(code) || code == '\a' || code == 127;
}

/* Characters that would not be seen for what they are: spaces of other widths, marks of direction and the like. */
static bool is_confusing(uint32_t code) {
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0xA0, 0xA0},     {0x34F, 0x34F},   {0x61C, 0x61C},   {0x2000, 0x200F}, {0x2028, 0x202E},
                  {0x205F, 0x2064}, {0x2066, 0x2069}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFC}};
    for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
        if (code >= ranges[i].first && code <= ranges[i].last) return true;
    return false;
}

static void print_escaped(struct printer *printer, uint32_t code) {
    static const char named[] = {['\a'] = 'a', ['\b'] = 'b', ['\t'] = 't',  ['\n'] = 'n', ['\v'] = 'v', ['\f'] = 'f',
                                 ['\r'] = 'r', [27] = 'e',   ['\\'] = '\\', [127] = 'd',  [0] = '0'};
    if (code < sizeof named && named[code])
        buf_printf(printer->out, "\\%c", named[code]);
    else if (is_confusing(code))
        buf_printf(printer->out, "\\u%04X", code);
    else if (is_visible(code))
        print_code_point(printer, code);
    else if (code < 0x100)
        buf_printf(printer->out, "\\x%02X", code);
    else
        buf_printf(printer->out, code < 0x10000 ? "\\x{%04X}" : "\\x{%06X}", code);
}

void print_elixir_escaped(struct printer *printer, const uint8_t *data, size_t size, char quote) {
    for (size_t at = 0; at < size && !printer_is_full(printer);) {
        uint32_t code = 0;
        size_t length = utf8_decode(data + at, size - at, &code);
        bool interpolates = code == '#' && at + 1 < size && data[at + 1] == '{';
        if (code == (uint32_t)quote || interpolates) print_text(printer, "\\");
        print_escaped(printer, code);
        at += length;
    }
}

static void print_float_term(struct printer *printer, double number) {
    double magnitude = fabs(number);
    if (magnitude >= 1.0 && magnitude < 1.0e16 && trunc(number) == number)
        buf_printf(printer->out, "%.0f.0", number);
    else
        print_float(printer, number);
}

static void print_binary(struct printer *printer, const struct term *binary) {
    if (binary->type == TERM_BINARY && bytes_are_text(binary->binary.data, binary->binary.size, is_printable)) {
        print_text(printer, "\"");
        print_elixir_escaped(printer, binary->binary.data, binary->binary.size, '"');
        print_text(printer, "\"");
        return;
    }
    print_text(printer, "<<");
    print_bits(printer, binary, ", ", "::size(", ")");
    print_text(printer, ">>");
}

/* Every stride-th term: elements of a list, or keys of a map. */
struct sequence {
    const struct term *elements;
    size_t count, stride;
};

static const struct term *sequence_at(const struct sequence *sequence, size_t index) {
    return &sequence->elements[index * sequence->stride];
}

static bool is_keyword_key(const struct term *key) {
    return key->type == TERM_ATOM && !string_starts(key->atom.text, "Elixir.");
}

static bool is_keyword(const struct sequence *sequence) {
    for (size_t i = 0; i < sequence->count; i++) {
        const struct term *pair = sequence_at(sequence, i);
        if (!term_is_tuple(pair, 2) || !is_keyword_key(&pair->items.elements[0])) return false;
    }
    return true;
}

static void print_keyword(struct printer *printer, const struct term *key, const struct term *value) {
    print_elixir_atom(printer, key, ELIXIR_KEY);
    print_text(printer, " ");
    print_elixir(printer, value);
}

static void print_sequence(struct printer *printer, const struct sequence *sequence, bool proper) {
    bool keyword = proper && is_keyword(sequence);
    for (size_t i = 0; i < sequence->count && !printer_is_full(printer); i++) {
        const struct term *element = sequence_at(sequence, i);
        if (i > 0) print_text(printer, ", ");
        if (keyword)
            print_keyword(printer, &element->items.elements[0], &element->items.elements[1]);
        else
            print_elixir(printer, element);
    }
}

static void print_charlist(struct printer *printer, const struct term *list) {
    print_text(printer, "~c\"");
    for (size_t i = 0; i < list->items.count && !printer_is_full(printer); i++) {
        uint8_t pair[2] = {(uint8_t)list->items.elements[i].integer, 0};
        bool last = i + 1 == list->items.count;
        bool interpolates = pair[0] == '#' && !last && list->items.elements[i + 1].integer == '{';
        if (interpolates) print_text(printer, "\\");
        print_elixir_escaped(printer, pair, 1, '"');
    }
    print_text(printer, "\"");
}

static void print_list(struct printer *printer, const struct term *list) {
    if (!printer->plain_integers && list_is_text(list, is_elixir_charlist_character)) {
        print_charlist(printer, list);
        return;
    }
    bool proper = list->items.tail->type == TERM_NIL;
    print_text(printer, "[");
    print_sequence(printer, &(struct sequence){list->items.elements, list->items.count, 1}, proper);
    if (!proper) {
        print_text(printer, " | ");
        print_elixir(printer, list->items.tail);
    }
    print_text(printer, "]");
}

static void print_tuple(struct printer *printer, const struct term *tuple) {
    print_text(printer, "{");
    for (size_t i = 0; i < tuple->items.count && !printer_is_full(printer); i++) {
        if (i > 0) print_text(printer, ", ");
        print_elixir(printer, &tuple->items.elements[i]);
    }
    print_text(printer, "}");
}

static bool has_keyword_keys(const struct term *map) {
    for (size_t i = 0; i < map->items.count; i++)
        if (!is_keyword_key(&map->items.elements[2 * i])) return false;
    return true;
}

static void print_map(struct printer *printer, const struct term *map) {
    bool keyword = has_keyword_keys(map);
    print_text(printer, "%{");
    for (size_t i = 0; i < map->items.count && !printer_is_full(printer); i++) {
        const struct term *pair = &map->items.elements[2 * i];
        if (i > 0) print_text(printer, ", ");
        if (keyword) {
            print_keyword(printer, pair, pair + 1);
            continue;
        }
        print_elixir(printer, pair);
        print_text(printer, " => ");
        print_elixir(printer, pair + 1);
    }
    print_text(printer, "}");
}

static bool print_range(struct printer *printer, const struct term *range) {
    int64_t first, last, step = 1;
    if (!term_to_int64(term_map_get(range, "first"), &first) || !term_to_int64(term_map_get(range, "last"), &last))
        return false;
    const struct term *stored_step = term_map_get(range, "step");
    if (!stored_step && last < first) step = -1; /* the default step of Elixir 1.11 */
    if (stored_step && !term_to_int64(stored_step, &step)) return false;
    print_number(printer, first);
    print_text(printer, "..");
    print_number(printer, last);
    if (step != 1 || last < first) {
        print_text(printer, "//");
        print_number(printer, step);
    }
    return true;
}

static bool print_set(struct printer *printer, const struct term *set) {
    const struct term *map = term_map_get(set, "map");
    if (!map || map->type != TERM_MAP) return false;
    bool outer = printer->plain_integers;
    printer->plain_integers = true;
    print_text(printer, "MapSet.new([");
    print_sequence(printer, &(struct sequence){map->items.elements, map->items.count, 2}, true);
    print_text(printer, "])");
    printer->plain_integers = outer;
    return true;
}

static void print_fields(struct printer *printer, const struct term *map) {
    const char *separator = "";
    for (size_t i = 0; i < map->items.count && !printer_is_full(printer); i++) {
        const struct term *key = &map->items.elements[2 * i];
        if (term_is_atom(key, "__struct__") || term_is_atom(key, "__exception__")) continue;
        print_text(printer, separator);
        print_keyword(printer, key, key + 1);
        separator = ", ";
    }
}

/* A map that names its module and has only atom keys. Only the node knows whether the module defines the struct. */
static bool print_struct(struct printer *printer, const struct term *map) {
    const struct term *module = term_map_get(map, "__struct__");
    if (!module || module->type != TERM_ATOM || !string_starts(module->atom.text, "Elixir.")) return false;
    if (!has_keyword_keys(map)) return false;
    if (term_is_atom(module, "Elixir.Range") && print_range(printer, map)) return true;
    if (term_is_atom(module, "Elixir.MapSet") && print_set(printer, map)) return true;
    print_text(printer, "%");
    print_elixir_atom(printer, module, ELIXIR_LITERAL);
    print_text(printer, "{");
    print_fields(printer, map);
    print_text(printer, "}");
    return true;
}

static void print_closure(struct printer *printer, const struct term_fun *fun) {
    buf_printf(printer->out, "#Function<%u.%u/%u in ", fun->index, fun->old_unique, fun->arity);
    print_elixir_atom(printer, fun->module, ELIXIR_LITERAL);
    print_text(printer, ">");
}

static void print_export(struct printer *printer, const struct term_fun *fun) {
    print_text(printer, "&");
    print_elixir_atom(printer, fun->module, ELIXIR_LITERAL);
    print_text(printer, ".");
    print_elixir_atom(printer, fun->function, ELIXIR_CALL);
    buf_printf(printer->out, "/%u", fun->arity);
}

void print_elixir(struct printer *printer, const struct term *term) {
    if (printer_is_full(printer)) return;
    switch (term->type) {
    case TERM_INTEGER: print_number(printer, term->integer); break;
    case TERM_BIG: print_big(printer, term, "0x"); break;
    case TERM_FLOAT: print_float_term(printer, term->number); break;
    case TERM_ATOM: print_elixir_atom(printer, term, ELIXIR_LITERAL); break;
    case TERM_BINARY:
    case TERM_BITSTRING: print_binary(printer, term); break;
    case TERM_NIL: print_text(printer, "[]"); break;
    case TERM_LIST: print_list(printer, term); break;
    case TERM_TUPLE: print_tuple(printer, term); break;
    case TERM_MAP:
        if (!print_struct(printer, term)) print_map(printer, term);
        break;
    case TERM_PID: print_identifier(printer, "#PID", term); break;
    case TERM_PORT: print_identifier(printer, "#Port", term); break;
    case TERM_REFERENCE: print_identifier(printer, "#Reference", term); break;
    case TERM_FUN: print_closure(printer, term->fun); break;
    case TERM_EXPORT: print_export(printer, term->fun); break;
    case TERM_RECORD: print_erlang(printer, term); break; /* as Elixir does */
    }
}
