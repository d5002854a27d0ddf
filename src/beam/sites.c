/* Walks the code and tracks the known values of registers, so that apply(os, cmd, Arguments) differs from apply(Module,
   Function, Arguments). Known values are forgotten wherever paths may join. */
#include <stdlib.h>
#include <string.h>

#include "beam/code/code.h"
#include "beam/site_lines.h"

enum {
    TRACKED_REGISTERS = 64, /* of each kind; values of others are unknown */
    TRACKED_FIELDS = 32,    /* keys of maps that a function looked up last */
    CHILD_TUPLE_ARITY = 6,  /* {Id, Start, Restart, Shutdown, Type, Modules} */
    CHILD_TUPLE_START = 1,
    CHILD_TUPLE_RESTART = 2,
    START_ARITY = 3,
};

enum {
    OP_CALL = 4,
    OP_CALL_EXT = 7,
    OP_CALL_EXT_LAST = 8,
    OP_BIF0 = 9,
    OP_BIF1 = 10,
    OP_BIF2 = 11,
    OP_ALLOCATE = 12,
    OP_ALLOCATE_HEAP_ZERO = 15,
    OP_DEALLOCATE = 18,
    OP_RETURN = 19,
    OP_SEND = 20,
    OP_MOVE = 64,
    OP_CALL_FUN = 75,
    OP_CALL_EXT_ONLY = 78,
    OP_MAKE_FUN2 = 103,
    OP_TRY_CASE = 106,
    OP_APPLY = 112,
    OP_APPLY_LAST = 113,
    OP_GC_BIF1 = 124,
    OP_GC_BIF2 = 125,
    OP_BS_INIT_WRITABLE = 133,
    OP_TRIM = 136,
    OP_GC_BIF3 = 152,
    OP_GET_MAP_ELEMENTS = 158,
    OP_PUT_TUPLE2 = 164,
    OP_CALL_FUN2 = 178,
};

struct walk {
    const struct beam *beam;
    beam_site_fn *visit;
    void *data;
    struct cursor cursor;
    struct site_lines lines;
    bool *is_seen; /* literals */
    struct beam_site site;
    struct beam_value x[TRACKED_REGISTERS], y[TRACKED_REGISTERS];
    uint64_t fields[TRACKED_FIELDS]; /* atoms */
    size_t field_count;
};

static void walk_free(struct walk *walk) {
    site_lines_free(&walk->lines);
    free(walk->is_seen);
}

/* ---- values of registers ---- */

static struct beam_value *slot_of(struct walk *walk, operand_t operand) {
    uint64_t number = operand_value(operand);
    if (number >= TRACKED_REGISTERS) return NULL;
    if (operand_form(operand) == FORM_X) return &walk->x[number];
    return operand_form(operand) == FORM_Y ? &walk->y[number] : NULL;
}

static struct beam_value value_of(struct walk *walk, operand_t operand) {
    const struct beam_value *slot = slot_of(walk, operand);
    uint64_t number = operand_value(operand);
    if (slot) return *slot;
    if (operand_form(operand) == FORM_ATOM && number > 0)
        return (struct beam_value){.known = BEAM_ATOM, .atom = walk->beam->atoms[number]};
    if (operand_form(operand) == FORM_LITERAL)
        return (struct beam_value){.known = BEAM_LITERAL, .literal = (uint32_t)number};
    return (struct beam_value){0};
}

static void forget(struct walk *walk, operand_t operand) {
    struct beam_value *slot = slot_of(walk, operand);
    if (slot) *slot = (struct beam_value){0};
}

static void forget_x(struct walk *walk) {
    memset(walk->x, 0, sizeof walk->x);
}

static void forget_y(struct walk *walk) {
    memset(walk->y, 0, sizeof walk->y);
}

/* Forgets the registers that an instruction changes besides its operands. */
static void forget_clobbered(struct walk *walk, uint8_t number) {
    bool calls = (number >= OP_CALL && number <= OP_CALL_EXT_LAST) || number == OP_SEND || number == OP_CALL_FUN ||
                 number == OP_CALL_EXT_ONLY || number == OP_APPLY || number == OP_APPLY_LAST || number == OP_CALL_FUN2;
    bool moves_stack =
        (number >= OP_ALLOCATE && number <= OP_ALLOCATE_HEAP_ZERO) || number == OP_DEALLOCATE || number == OP_TRIM;
    bool is_end = number == OP_LABEL || number == OP_RETURN || number == OP_TRY_CASE || number == OP_FUNC_INFO;
    if (calls || is_end || number == OP_MAKE_FUN2 || number == OP_BS_INIT_WRITABLE) forget_x(walk);
    if (is_end || moves_stack) forget_y(walk);
}

/* ---- reporting sites ---- */

static int tell(struct walk *walk, enum beam_site_kind kind) {
    walk->site.kind = kind;
    return walk->visit(walk->data, &walk->site, walk->cursor.reterr);
}

static void set_line(struct walk *walk, uint64_t number) {
    struct site_line at = number < walk->lines.line_count ? walk->lines.lines[number] : (struct site_line){0};
    walk->site.line = at.line;
    walk->site.file = walk->lines.files[at.file];
}

static int see_literal(struct walk *walk, operand_t operand) {
    uint64_t number = operand_value(operand);
    if (operand_form(operand) != FORM_LITERAL || walk->is_seen[number]) return 0;
    walk->is_seen[number] = true;
    walk->site.literal = (uint32_t)number;
    return tell(walk, BEAM_SITE_LITERAL);
}

/* The arguments of a call are in registers x0 and on; a BIF names its own. */
static int tell_call(struct walk *walk, uint64_t import) {
    memcpy(walk->site.arguments, walk->x, sizeof walk->site.arguments);
    walk->site.import = (uint32_t)import;
    return tell(walk, BEAM_SITE_CALL);
}

static int tell_bif(struct walk *walk, uint64_t import, const operand_t *arguments, unsigned count) {
    memset(walk->site.arguments, 0, sizeof walk->site.arguments);
    for (unsigned i = 0; i < count; i++) walk->site.arguments[i] = value_of(walk, arguments[i]);
    walk->site.import = (uint32_t)import;
    return tell(walk, BEAM_SITE_CALL);
}

/* value.field is compiled as a map look-up and, for other values, a call without arguments. */
static bool is_field(const struct walk *walk, uint64_t arity, const struct beam_value *function) {
    if (arity > 0 || function->known != BEAM_ATOM) return false;
    for (size_t i = 0; i < walk->field_count && i < TRACKED_FIELDS; i++)
        if (beam_text_equal(walk->beam->atoms[walk->fields[i]], function->atom)) return true;
    return false;
}

/* The module follows the arguments, and the function follows the module. */
static int tell_apply(struct walk *walk, uint64_t arity) {
    memset(walk->site.arguments, 0, sizeof walk->site.arguments);
    walk->site.called_arity = (uint32_t)arity;
    for (unsigned i = 0; i < 2; i++) walk->site.arguments[i] = value_of(walk, operand_make(FORM_X, arity + i));
    walk->site.is_field = is_field(walk, arity, &walk->site.arguments[1]);
    return tell(walk, BEAM_SITE_APPLY);
}

static int tell_child(struct walk *walk, struct beam_value start) {
    if (start.known != BEAM_START && start.known != BEAM_LITERAL) return 0;
    memset(walk->site.arguments, 0, sizeof walk->site.arguments);
    walk->site.arguments[0] = start;
    return tell(walk, BEAM_SITE_CHILD);
}

/* ---- one instruction ---- */

struct instruction {
    uint8_t number;
    operand_t operands[MAX_OPERANDS];
    operand_t last[CHILD_TUPLE_ARITY]; /* the first elements of its list */
    uint64_t list_count;
};

static int see_map_pair(struct walk *walk, operand_t key, operand_t value) {
    bool is_start = operand_form(key) == FORM_ATOM && beam_text_is(walk->beam->atoms[operand_value(key)], "start");
    return is_start ? tell_child(walk, value_of(walk, value)) : 0;
}

static void see_field(struct walk *walk, operand_t key) {
    if (operand_form(key) == FORM_ATOM) walk->fields[walk->field_count++ % TRACKED_FIELDS] = operand_value(key);
}

static int read_list(struct walk *walk, struct instruction *instruction, const struct opcode *opcode) {
    bool is_map = instruction->number == OP_PUT_MAP_ASSOC || instruction->number == OP_PUT_MAP_EXACT;
    operand_t before = 0, element = 0;
    int result = 0;
    for (uint64_t i = 0; result == 0 && i < instruction->list_count; i++, before = element) {
        result = operand_read(walk->beam, &walk->cursor, &element);
        if (result == 0) result = see_literal(walk, element);
        if (result == 0 && is_map && i % 2 == 1) result = see_map_pair(walk, before, element);
        if (instruction->number == OP_GET_MAP_ELEMENTS && i % 2 == 0) see_field(walk, element);
        if (i < CHILD_TUPLE_ARITY) instruction->last[i] = element;
        bool is_target = opcode->list->read || opcode->list->elements[i % opcode->list->period] == ROLE_REGISTER;
        if (is_target) forget(walk, element);
    }
    return result;
}

static int read_instruction(struct walk *walk, struct instruction *ret) {
    *ret = (struct instruction){.number = *walk->cursor.at++};
    const struct opcode *opcode = &opcodes[ret->number];
    int result = 0;
    for (unsigned i = 0; result == 0 && i < opcode->operand_count; i++) {
        result = operand_read(walk->beam, &walk->cursor, &ret->operands[i]);
        if (result == 0) result = see_literal(walk, ret->operands[i]);
    }
    if (result < 0 || !opcode->list) return result;
    ret->list_count = operand_value(ret->operands[opcode->operand_count - 1]);
    return read_list(walk, ret, opcode);
}

static bool is_restart(struct beam_value value) {
    static const char *const kinds[] = {"permanent", "transient", "temporary"};
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (value.known == BEAM_ATOM && beam_text_is(value.atom, kinds[i])) return true;
    return false;
}

/* A new tuple may be a start function {M, F, A}, or a child specification in tuple form. */
static int build_tuple(struct walk *walk, const struct instruction *instruction, struct beam_value *ret) {
    struct beam_value values[CHILD_TUPLE_ARITY];
    size_t count = instruction->list_count;
    if (count > CHILD_TUPLE_ARITY) return 0;
    for (size_t i = 0; i < count; i++) values[i] = value_of(walk, instruction->last[i]);
    if (count == START_ARITY && values[0].known == BEAM_ATOM && values[1].known == BEAM_ATOM)
        *ret = (struct beam_value){.known = BEAM_START, .atom = values[0].atom, .function = values[1].atom};
    if (count == CHILD_TUPLE_ARITY && is_restart(values[CHILD_TUPLE_RESTART]))
        return tell_child(walk, values[CHILD_TUPLE_START]);
    return 0;
}

static void begin_function(struct walk *walk, const operand_t *operands) {
    walk->site.function = walk->beam->atoms[operand_value(operands[1])];
    walk->site.arity = (uint32_t)operand_value(operands[2]);
    walk->field_count = 0;
}

static int see_calls(struct walk *walk, const struct instruction *instruction) {
    const operand_t *operands = instruction->operands;
    switch (instruction->number) {
    case OP_CALL_EXT:
    case OP_CALL_EXT_LAST:
    case OP_CALL_EXT_ONLY: return tell_call(walk, operand_value(operands[1]));
    case OP_BIF0: return tell_bif(walk, operand_value(operands[0]), NULL, 0);
    case OP_BIF1: return tell_bif(walk, operand_value(operands[1]), operands + 2, 1);
    case OP_BIF2: return tell_bif(walk, operand_value(operands[1]), operands + 2, 2);
    case OP_GC_BIF1: return tell_bif(walk, operand_value(operands[2]), operands + 3, 1);
    case OP_GC_BIF2: return tell_bif(walk, operand_value(operands[2]), operands + 3, 2);
    case OP_GC_BIF3: return tell_bif(walk, operand_value(operands[2]), operands + 3, 3);
    case OP_APPLY:
    case OP_APPLY_LAST: return tell_apply(walk, operand_value(operands[0]));
    default: return 0;
    }
}

static void forget_targets(struct walk *walk, const struct instruction *instruction) {
    const struct opcode *opcode = &opcodes[instruction->number];
    for (unsigned i = 0; i < opcode->operand_count; i++)
        if (opcode->operands[i] == ROLE_REGISTER || opcode->operands[i] == ROLE_SLOT)
            forget(walk, instruction->operands[i]);
    forget_clobbered(walk, instruction->number);
}

/* After a move or a new tuple the target's value is known; other targets become unknown. */
static int see_instruction(struct walk *walk, const struct instruction *instruction) {
    const operand_t *operands = instruction->operands;
    struct beam_value left = {0};
    struct beam_value *slot = NULL;
    int result = see_calls(walk, instruction);
    if (instruction->number == OP_LINE) set_line(walk, operand_value(operands[0]));
    if (instruction->number == OP_FUNC_INFO) begin_function(walk, operands);
    if (instruction->number == OP_MOVE) {
        left = value_of(walk, operands[0]);
        slot = slot_of(walk, operands[1]);
    } else if (instruction->number == OP_PUT_TUPLE2 && result == 0) {
        result = build_tuple(walk, instruction, &left);
        slot = slot_of(walk, operands[0]);
    }
    forget_targets(walk, instruction);
    if (slot) *slot = left;
    return result;
}

int beam_each_site(const struct beam *beam, beam_site_fn *visit, void *data, struct error *reterr) {
    CLEANUP(walk_free)
    struct walk walk = {.beam = beam, .visit = visit, .data = data, .cursor = chunk_cursor(beam, CHUNK_CODE, reterr)};
    struct instruction instruction;
    int result = site_lines_read(beam, &walk.lines, reterr);
    if (result < 0) return result;
    walk.is_seen = calloc((size_t)beam->literal_count + 1, sizeof *walk.is_seen);
    if (!walk.is_seen) return beam_no_memory(reterr);
    walk.cursor.at = beam->code;
    while (result == 0 && cursor_left(&walk.cursor) > 0) {
        result = read_instruction(&walk, &instruction);
        if (result == 0) result = see_instruction(&walk, &instruction);
    }
    return result;
}

/* ---- literals ---- */

void beam_literal_bytes(const struct beam *beam, uint32_t literal, const uint8_t **ret, size_t *ret_size) {
    *ret = beam->literals[literal].data;
    *ret_size = beam->literals[literal].size;
}

int beam_literal(const struct beam *beam, uint32_t literal, struct term_doc **ret, struct error *reterr) {
    const struct chunk *bytes = &beam->literals[literal];
    struct term_bounds bounds = {
        .max_bytes = bytes->size, .max_terms = beam->options.max_terms, .max_depth = TERM_MAX_DEPTH};
    return term_decode(bytes->data, bytes->size, &bounds, ret, reterr);
}
