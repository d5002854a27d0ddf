/* The interface hash: what other modules are compiled against, as docs/beam.md defines it. */
#include <stdlib.h>
#include <string.h>

#include "beam/code/code.h"
#include "beam/digest.h"

/* Compilers call these functions of a finished module and build the results into others: callbacks, structs, lists of
   functions and macros, deprecations, protocols. So their code, with everything it reaches in the module, is part of
   the interface. */
static const struct {
    const char *name;
    uint32_t arity;
} asked_functions[] = {
    {"behaviour_info", 1}, {"__struct__", 0}, {"__struct__", 1}, {"__info__", 1}, {"__protocol__", 1}, {"__impl__", 1},
};

struct walk {
    const struct beam *beam;
    struct digest digest;
    uint32_t *queue; /* reached functions by index; those before `done` are finished */
    uint32_t queued;
    uint32_t done;
    bool *reached;           /* by function */
    uint32_t *label_ordinal; /* a label's position among those of its function, since numbers shift with other
                                functions */
    uint32_t label_count;
    uint32_t *literal_ordinal; /* likewise; a literal's content is added at its first use */
    uint32_t literal_count;
    struct error *reterr;
};

static void free_walk(struct walk *walk) {
    digest_free(&walk->digest);
    free(walk->queue);
    free(walk->reached);
    free(walk->label_ordinal);
    free(walk->literal_ordinal);
}

static int begin_walk(struct walk *walk) {
    const struct beam *beam = walk->beam;
    digest_begin(&walk->digest);
    walk->queue = calloc((size_t)beam->function_count + 1, sizeof *walk->queue);
    walk->reached = calloc((size_t)beam->function_count + 1, sizeof *walk->reached);
    walk->label_ordinal = calloc((size_t)beam->label_count + 1, sizeof *walk->label_ordinal);
    walk->literal_ordinal = calloc((size_t)beam->literal_count + 1, sizeof *walk->literal_ordinal);
    bool whole = walk->queue && walk->reached && walk->label_ordinal && walk->literal_ordinal;
    return whole ? 0 : beam_no_memory(walk->reterr);
}

static int decode(const struct walk *walk, const struct chunk *bytes, struct term_doc **ret) {
    const struct beam_options *options = &walk->beam->options;
    struct term_bounds bounds = {
        .max_bytes = options->max_bytes, .max_terms = options->max_terms, .max_depth = TERM_MAX_DEPTH};
    return term_decode(bytes->data, bytes->size, &bounds, ret, walk->reterr);
}

static int add_term(struct walk *walk, const struct chunk *bytes) {
    CLEANUP_TERM struct term_doc *doc = NULL;
    int result = decode(walk, bytes, &doc);
    if (result == 0) digest_term(&walk->digest, term_root(doc));
    return result;
}

static int add_literal(struct walk *walk, uint64_t index) {
    uint32_t *ordinal = &walk->literal_ordinal[index];
    bool is_new = *ordinal == 0;
    if (is_new) *ordinal = ++walk->literal_count;
    digest_number(&walk->digest, *ordinal);
    return is_new ? add_term(walk, &walk->beam->literals[index]) : 0;
}

static void add_label(struct walk *walk, uint64_t label) {
    if (walk->label_ordinal[label] == 0) walk->label_ordinal[label] = ++walk->label_count;
    digest_number(&walk->digest, walk->label_ordinal[label]);
}

/* Adds the function by name, since its position differs; its code comes later. The reader has checked that a function
   begins at the label. */
static void add_function(struct walk *walk, uint32_t label) {
    uint32_t index = walk->beam->labels[label].function - 1;
    const struct code_function *function = &walk->beam->functions[index];
    digest_text(&walk->digest, walk->beam->atoms[function->atom]);
    digest_number(&walk->digest, function->arity);
    if (walk->reached[index]) return;
    walk->reached[index] = true;
    walk->queue[walk->queued++] = index;
}

static void add_import(struct walk *walk, uint64_t index) {
    const struct beam_import *import = &walk->beam->imports[index];
    digest_text(&walk->digest, import->module);
    digest_text(&walk->digest, import->function);
    digest_number(&walk->digest, import->arity);
}

static void add_lambda(struct walk *walk, uint64_t index) {
    const struct beam_lambda *lambda = &walk->beam->lambdas[index];
    digest_number(&walk->digest, lambda->free_count);
    add_function(walk, lambda->label);
}

static void add_string(struct walk *walk, uint64_t offset, uint64_t size) {
    digest_bytes(&walk->digest, walk->beam->chunks[CHUNK_STRINGS].data + offset, (size_t)size);
}

static int add_operand(struct walk *walk, enum operand_role role, operand_t operand, const uint8_t *bytes,
                       size_t size) {
    uint64_t value = operand_value(operand);
    enum operand_form form = operand_form(operand);
    digest_number(&walk->digest, form);
    if (form == FORM_LITERAL) return add_literal(walk, value);
    if (form == FORM_LABEL && role == ROLE_FUNCTION)
        add_function(walk, (uint32_t)value);
    else if (form == FORM_LABEL)
        add_label(walk, value);
    else if (form == FORM_ATOM)
        digest_text(&walk->digest, walk->beam->atoms[value]);
    else if (role == ROLE_IMPORT)
        add_import(walk, value);
    else if (role == ROLE_LAMBDA || role == ROLE_LAMBDA_OR_ATOM)
        add_lambda(walk, value);
    else if (form == FORM_BIG)
        digest_bytes(&walk->digest, bytes, size);
    else
        digest_number(&walk->digest, value);
    return 0;
}

static int read_operand(struct walk *walk, struct cursor *cursor, enum operand_role role, operand_t *ret) {
    const uint8_t *bytes = cursor->at;
    int result = operand_read(walk->beam, cursor, ret);
    return result < 0 ? result : add_operand(walk, role, *ret, bytes, (size_t)(cursor->at - bytes));
}

/* Lists of segments refer to strings by their position in a table, which other functions shift. */
static int add_list(struct walk *walk, struct cursor *cursor, const struct list_form *form, size_t count) {
    operand_t group[MAX_LIST_PERIOD] = {0};
    unsigned period = form->period ? form->period : 1;
    int result = 0;
    for (size_t i = 0; result == 0 && i < count; i++) {
        unsigned place = (unsigned)(i % period);
        bool is_string = form->check == check_binary_segment && place >= 4 &&
                         beam_text_is(walk->beam->atoms[operand_value(group[0])], "string");
        result = is_string ? operand_read(walk->beam, cursor, &group[place])
                           : read_operand(walk, cursor, form->elements[place], &group[place]);
        if (result == 0 && is_string && place == 5) add_string(walk, operand_value(group[4]), operand_value(group[5]));
    }
    return result;
}

static bool is_location(const struct opcode *opcode) {
    for (unsigned i = 0; i < opcode->operand_count; i++)
        if (opcode->operands[i] == ROLE_LINE) return true;
    return false;
}

static int skip_operands(const struct walk *walk, struct cursor *cursor, const struct opcode *opcode) {
    operand_t operand;
    int result = 0;
    for (unsigned i = 0; result == 0 && i < opcode->operand_count; i++)
        result = operand_read(walk->beam, cursor, &operand);
    return result;
}

static int add_instruction(struct walk *walk, struct cursor *cursor) {
    uint8_t number = *cursor->at++;
    const struct opcode *opcode = &opcodes[number];
    if (is_location(opcode)) return skip_operands(walk, cursor, opcode);
    digest_number(&walk->digest, number);
    operand_t operands[MAX_OPERANDS] = {0};
    bool is_put = opcode->check == check_put_string, is_match = opcode->check == check_match_string;
    int result = 0;
    for (unsigned i = 0; result == 0 && i < opcode->operand_count; i++) {
        bool is_place = (is_put && i == 1) || (is_match && i == 3);
        result = is_place ? operand_read(walk->beam, cursor, &operands[i])
                          : read_operand(walk, cursor, opcode->operands[i], &operands[i]);
    }
    if (result < 0) return result;
    if (is_put) add_string(walk, operand_value(operands[1]), operand_value(operands[0]));
    if (is_match) add_string(walk, operand_value(operands[3]), (operand_value(operands[2]) + 7) / 8);
    if (!opcode->list) return 0;
    return add_list(walk, cursor, opcode->list, operand_value(operands[opcode->operand_count - 1]));
}

static int add_body(struct walk *walk, const struct code_function *function) {
    const uint8_t *code = walk->beam->code;
    struct cursor cursor = {
        .start = code,
        .at = code + function->body,
        .end = code + function->body_end,
        .chunk = "code",
        .reterr = walk->reterr,
    };
    digest_text(&walk->digest, walk->beam->atoms[function->atom]);
    digest_number(&walk->digest, function->arity);
    walk->label_count = 0;
    int result = 0;
    while (result == 0 && cursor_left(&cursor) > 0) result = add_instruction(walk, &cursor);
    return result;
}

static int compare_functions(const void *left, const void *right) {
    const struct beam_function *a = left, *b = right;
    size_t shorter = a->name.size < b->name.size ? a->name.size : b->name.size;
    int order = memcmp(a->name.data, b->name.data, shorter);
    if (order == 0) order = (a->name.size > b->name.size) - (a->name.size < b->name.size);
    return order ? order : (a->arity > b->arity) - (a->arity < b->arity);
}

static int add_exports(struct walk *walk) {
    const struct beam *beam = walk->beam;
    CLEANUP_FREE struct beam_function *sorted = calloc((size_t)beam->export_count + 1, sizeof *sorted);
    if (!sorted) return beam_no_memory(walk->reterr);
    memcpy(sorted, beam->exports, beam->export_count * sizeof *sorted);
    qsort(sorted, beam->export_count, sizeof *sorted, compare_functions);
    digest_number(&walk->digest, beam->export_count);
    for (uint32_t i = 0; i < beam->export_count; i++) {
        digest_text(&walk->digest, sorted[i].name);
        digest_number(&walk->digest, sorted[i].arity);
    }
    return 0;
}

/* In the order of this list, so that the order of the export table does not matter. */
static void queue_asked_functions(struct walk *walk) {
    const struct beam *beam = walk->beam;
    for (size_t i = 0; i < ARRAY_SIZE(asked_functions); i++)
        for (uint32_t j = 0; j < beam->export_count; j++)
            if (beam->exports[j].arity == asked_functions[i].arity &&
                beam_text_is(beam->exports[j].name, asked_functions[i].name))
                add_function(walk, beam->exports[j].label);
}

/* What Elixir has inferred of a function's types from its body. */
static bool is_inferred(const struct term *key, const struct term *value) {
    return term_is_atom(key, "sig") && value->type == TERM_TUPLE && term_is_atom(term_at(value, 0), "infer");
}

/* A map without what was inferred. */
static void add_checked_function(struct walk *walk, const struct term *function) {
    for (size_t i = 0; i < function->items.count; i++) {
        const struct term *pair = &function->items.elements[2 * (size_t)function->items.sorted[i]];
        if (is_inferred(&pair[0], &pair[1])) continue;
        digest_term(&walk->digest, &pair[0]);
        digest_term(&walk->digest, &pair[1]);
    }
}

static void add_checked_functions(struct walk *walk, const struct term *exports) {
    const struct term *export;
    for (size_t i = 0; (export = term_at(exports, i)); i++) {
        const struct term *function = term_is_tuple(export, 2) ? term_at(export, 1) : NULL;
        if (function && function->type == TERM_MAP) {
            digest_term(&walk->digest, term_at(export, 0));
            add_checked_function(walk, function);
        } else {
            digest_term(&walk->digest, export);
        }
    }
}

/* {Version, #{exports => [{{Name, Arity}, Map}], …}}. Inferred types lead to warnings only, never to other code. Since
   Elixir 1.18 they change with bodies, and whatever calls the function would be compiled anew each time. */
static void add_checker(struct walk *walk, const struct term *checker) {
    const struct term *map = term_is_tuple(checker, 2) ? term_at(checker, 1) : NULL;
    if (!map || map->type != TERM_MAP) {
        digest_term(&walk->digest, checker);
        return;
    }
    digest_term(&walk->digest, term_at(checker, 0));
    for (size_t i = 0; i < map->items.count; i++) {
        const struct term *pair = &map->items.elements[2 * (size_t)map->items.sorted[i]];
        digest_term(&walk->digest, &pair[0]);
        if (term_is_atom(&pair[0], "exports") && pair[1].type == TERM_LIST)
            add_checked_functions(walk, &pair[1]);
        else
            digest_term(&walk->digest, &pair[1]);
    }
}

static int read_checker(struct walk *walk, const struct chunk *bytes) {
    CLEANUP_TERM struct term_doc *doc = NULL;
    int result = decode(walk, bytes, &doc);
    if (result == 0) add_checker(walk, term_root(doc));
    return result;
}

static int add_all(struct walk *walk) {
    const struct chunk *checker = &walk->beam->chunks[CHUNK_ELIXIR_CHECKER];
    digest_text(&walk->digest, beam_module(walk->beam));
    int result = add_exports(walk);
    digest_number(&walk->digest, checker->size > 0);
    if (result == 0 && checker->size > 0) result = read_checker(walk, checker);
    if (result < 0) return result;
    queue_asked_functions(walk);
    while (result == 0 && walk->done < walk->queued)
        result = add_body(walk, &walk->beam->functions[walk->queue[walk->done++]]);
    return result;
}

int beam_interface_hash(const struct beam *beam, char ret[BEAM_DIGEST_BYTES], struct error *reterr) {
    CLEANUP(free_walk) struct walk walk = {.beam = beam, .reterr = reterr};
    int result = begin_walk(&walk);
    if (result == 0) result = add_all(&walk);
    return result < 0 ? result : digest_end(&walk.digest, ret, reterr);
}
