/* Scans constants: references to functions, child specifications, and code that a macro inserts elsewhere. */
#include <string.h>

#include "guard/guard_internal.h"

static struct beam_text atom_text(const struct term *term) {
    if (!term || term->type != TERM_ATOM) return (struct beam_text){0};
    return (struct beam_text){term->atom.text, term->atom.length};
}

bool scan_term_may_matter(const uint8_t *data, size_t size) {
    static const struct {
        const char *bytes;
        size_t size;
    } marks[] = {
        {"q", 1},         /* the tag of fun m:f/a */
        {"\x05start", 6}, /* of a child specification */
        {"\x09permanent", 10},
        {"\x09transient", 10},
        {"\x09temporary", 10},
        {"\x01.", 2}, /* of quoted Elixir code */
    };
    for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
        if (memmem(data, size, marks[i].bytes, marks[i].size)) return true;
    return false;
}

bool scan_start_of(const struct term *term, struct scan_target *ret) {
    if (!term_is_tuple(term, 3)) return false;
    const struct term *arguments = term_at(term, 2);
    struct scan_target target = {
        .module = atom_text(term_at(term, 0)), .function = atom_text(term_at(term, 1)), .arity = SCAN_ANY_ARITY};
    bool is_list = arguments->type == TERM_LIST && arguments->items.tail->type == TERM_NIL;
    if (target.module.size == 0 || target.function.size == 0 || (!is_list && arguments->type != TERM_NIL)) return false;
    target.arity = is_list ? (int)arguments->items.count : 0;
    *ret = target;
    return true;
}

bool scan_modes_write(const struct term *term) {
    static const char *const modes[] = {"write", "append", "exclusive"};
    const struct term *mode;
    for (size_t i = 0; term->type == TERM_LIST && (mode = term_at(term, i)); i++)
        for (size_t j = 0; j < ARRAY_SIZE(modes); j++)
            if (term_is_atom(mode, modes[j])) return true;
    return false;
}

/* ---- quoted Elixir code: {:., meta, [module, function]} ---- */

static struct beam_text alias_of(const struct term *meta) {
    const struct term *pair;
    for (size_t i = 0; meta && meta->type == TERM_LIST && (pair = term_at(meta, i)); i++)
        if (term_is_tagged(pair, "alias", 2) && !term_is_atom(term_at(pair, 1), "false"))
            return atom_text(term_at(pair, 1));
    return (struct beam_text){0};
}

/* [:Mint, :HTTP] becomes Elixir.Mint.HTTP in buf. */
static struct beam_text join_alias(const struct term *parts, struct buf *buf) {
    const struct term *part;
    buf_append_string(buf, "Elixir");
    for (size_t i = 0; (part = term_at(parts, i)); i++) {
        struct beam_text text = atom_text(part);
        if (text.size == 0) return (struct beam_text){0};
        buf_append_byte(buf, '.');
        buf_append(buf, text.data, text.size);
    }
    return buf->failed ? (struct beam_text){0} : (struct beam_text){(const char *)buf->data, buf->size};
}

static struct beam_text quoted_module(const struct term *module, struct buf *buf) {
    if (!term_is_tagged(module, "__aliases__", 3)) return atom_text(module);
    struct beam_text alias = alias_of(term_at(module, 1));
    return alias.size > 0 ? alias : join_alias(term_at(module, 2), buf);
}

static int see_quoted(struct scan_report *report, const struct scan_place *place, const struct term *term,
                      struct error *reterr) {
    CLEANUP(buf_free) struct buf name = BUF_INIT;
    const struct term *call = term_at(term, 2);
    if (call->type != TERM_LIST || call->items.count != 2) return 0;
    struct scan_target target = {.module = quoted_module(term_at(call, 0), &name),
                                 .function = atom_text(term_at(call, 1)),
                                 .arity = SCAN_ANY_ARITY};
    if (target.module.size == 0 || target.function.size == 0) return 0;
    return scan_call(report, SCAN_MACRO, place, &target, reterr);
}

/* ---- children ---- */

static int see_start(struct scan_report *report, const struct scan_place *place, const struct term *start,
                     struct error *reterr) {
    struct scan_target target;
    return scan_start_of(start, &target) ? scan_call(report, SCAN_CHILD, place, &target, reterr) : 0;
}

static bool is_child_tuple(const struct term *term) {
    const struct term *restart = term_is_tuple(term, 6) ? term_at(term, 2) : NULL;
    return term_is_atom(restart, "permanent") || term_is_atom(restart, "transient") ||
           term_is_atom(restart, "temporary");
}

/* ---- any term ---- */

static int see_term(struct scan_report *report, const struct scan_place *place, const struct term *term,
                    struct error *reterr) {
    if (term->type == TERM_EXPORT) {
        struct scan_target target = {.module = atom_text(term->fun->module),
                                     .function = atom_text(term->fun->function),
                                     .arity = (int)term->fun->arity};
        return scan_call(report, SCAN_REFERENCE, place, &target, reterr);
    }
    if (term->type == TERM_MAP) {
        const struct term *start = term_map_get(term, "start");
        return start ? see_start(report, place, start, reterr) : 0;
    }
    if (is_child_tuple(term)) return see_start(report, place, term_at(term, 1), reterr);
    return term_is_tagged(term, ".", 3) ? see_quoted(report, place, term, reterr) : 0;
}

int scan_term(struct scan_report *report, const struct scan_place *place, const struct term *term,
              struct error *reterr) {
    size_t count = term_element_count(term);
    int result = see_term(report, place, term, reterr);
    if (result == 0 && term->type == TERM_LIST) result = scan_term(report, place, term->items.tail, reterr);
    for (size_t i = 0; result == 0 && i < count; i++)
        result = scan_term(report, place, &term->items.elements[i], reterr);
    return result;
}
