/* Builds the automaton that reads code byte by byte, from the tables of opcodes and roles. Runs when the program is
   built. */
#include "beam/code/automaton.h"

#include <stdlib.h>
#include <string.h>

enum {
    NARROW_VALUES = 16,
    SHORT_LENGTHS = 7, /* of integers, from two bytes; longer ones have an explicit length */
    CLASS_BITS = 6,
    CLASSES = 1 << CLASS_BITS,
    ROW_ALIGNMENT = 4, /* leaves room for a row's kind */
    STOP_ROW = STOP_PERIOD + 1,
    MAX_STATES = 4096,
    MAX_LIST_FORMS = 16,
};

/* What is expected next. */
enum symbol_kind {
    AN_OPERAND,    /* what: its role; mark: that of a plain number */
    A_NUMBER,      /* mark */
    A_REGISTER,    /* what: kinds; it has a type */
    BYTES,         /* what: how many bytes of any content */
    AN_ALLOCATION, /* how many kinds */
    A_KIND,        /* of an allocation */
    A_LIST,        /* what: the number of its form */
    A_LENGTH,      /* likewise */
    A_STOP,        /* what: the period of a list; 0: an integer */
    THE_MODULE,
    AN_INSTRUCTION,
    NOTHING,
};

struct symbol {
    uint8_t kind, what, mark;
};

/* A state is the expected symbol and the state after it. So instructions with the same remaining operands share a
   state. */
struct state {
    struct symbol symbol;
    uint16_t behind;
    uint16_t row;
    uint16_t in_front; /* the first of the states that lead to this one, */
    uint16_t sibling;  /* and another state that leads to the same one; 0: none */
};

enum {
    BETWEEN,
    BEHIND_LABEL,
    BEHIND_LINE,
    BEHIND_HEADER,
    ENDED,
    WRONG,
    LIST_ELEMENTS, /* for each form, where its elements begin and repeat */
    FIXED_STATES = LIST_ELEMENTS + MAX_LIST_FORMS,
};

struct build {
    struct automaton *out;
    const struct list_form *forms[MAX_LIST_FORMS];
    unsigned form_count;
    unsigned state_count;
    struct state states[MAX_STATES];
};

static void require(bool holds) {
    if (!holds) abort();
}

static unsigned columns_of(struct symbol symbol) {
    if (symbol.kind == AN_INSTRUCTION) return STEP_COLUMN_MASK + 1;
    return symbol.kind == BYTES || symbol.kind == A_STOP || symbol.kind == NOTHING ? 1 : CLASSES;
}

static step_t step_to(const struct build *build, unsigned state, unsigned mark) {
    const struct state *next = &build->states[state];
    return (step_t)next->row << STEP_ROW_SHIFT | mark << STEP_MARK_SHIFT | (columns_of(next->symbol) - 1);
}

static unsigned add_state(struct build *build, struct symbol symbol, unsigned behind) {
    unsigned number = build->state_count++, row = build->out->step_count;
    bool is_elements = number >= LIST_ELEMENTS && number < FIXED_STATES, is_stop = symbol.kind == A_STOP;
    enum row_kind kind = is_stop ? ROW_STOP : is_elements ? ROW_ELEMENTS : ROW_PLAIN;
    unsigned size = kind + (is_stop ? STOP_ROW : columns_of(symbol));
    build->out->step_count += (size + ROW_ALIGNMENT - 1) / ROW_ALIGNMENT * ROW_ALIGNMENT;
    require(build->state_count < MAX_STATES && build->out->step_count <= MAX_STEPS);
    build->states[number] = (struct state){.symbol = symbol, .behind = (uint16_t)behind, .row = (uint16_t)(row + kind)};
    return number;
}

/* Returns the state that expects the symbol and continues with `behind`. */
static unsigned expect(struct build *build, struct symbol symbol, unsigned behind) {
    for (unsigned i = build->states[behind].in_front; i; i = build->states[i].sibling)
        if (memcmp(&build->states[i].symbol, &symbol, sizeof symbol) == 0) return i;
    unsigned state = add_state(build, symbol, behind);
    build->states[state].sibling = build->states[behind].in_front;
    build->states[behind].in_front = (uint16_t)state;
    return state;
}

static unsigned expect_number(struct build *build, enum mark mark, unsigned behind) {
    return expect(build, (struct symbol){A_NUMBER, 0, (uint8_t)mark}, behind);
}

/* The byte that represents all bytes which are equivalent wherever an operand may be. */
static unsigned alike(unsigned byte) {
    unsigned tag = byte & 7, value = byte >> 4;
    bool is_length_known = tag == COMPACT_INTEGER || byte >> 5 == 0;
    if ((byte & HEAD_LONG) == HEAD_LONG) return is_length_known ? byte : 1 << 5 | HEAD_LONG | tag;
    if (byte & HEAD_WIDE) return HEAD_WIDE | tag;
    switch (tag) {
    case COMPACT_UNSIGNED: return byte;
    case COMPACT_EXTENDED: return byte <= HEAD_TYPED_REGISTER ? byte : tag;
    case COMPACT_ATOM: return byte <= HEAD_FIRST_ATOM ? byte : 2 << 4 | tag;
    case COMPACT_LABEL: return value == 0 ? byte : 1 << 4 | tag;
    default: return tag;
    }
}

static bool is_opcode(unsigned byte) {
    return byte <= MAX_OPCODE && opcodes[byte].since != OPCODE_NEVER;
}

/* The lower bits of a column are the class of equivalent bytes; the upper ones distinguish opcodes in it. */
static void number_columns(struct automaton *out) {
    unsigned class_count = 0, classes[256] = {0}, opcode_counts[CLASSES] = {0};
    for (unsigned byte = 0; byte < 256; byte++)
        if (alike(byte) == byte) classes[byte] = class_count++;
    require(class_count <= CLASSES);
    for (unsigned byte = 0; byte < 256; byte++) {
        unsigned class = classes[alike(byte)], which = is_opcode(byte) ? ++opcode_counts[class] : 0;
        require((which << CLASS_BITS) <= STEP_COLUMN_MASK);
        out->columns[byte] = (uint16_t)(which << CLASS_BITS | class);
    }
}

static void set(struct build *build, unsigned state, unsigned byte, unsigned next, unsigned mark) {
    const struct state *from = &build->states[state];
    unsigned column = build->out->columns[byte] & (columns_of(from->symbol) - 1);
    build->out->steps[from->row + column] = step_to(build, next, mark);
}

/* Values of one byte, of two, or with a length in the first byte, which is marked. A narrow value may need no mark. */
static void set_value(struct build *build, unsigned state, unsigned tag, unsigned least, unsigned narrow_mark,
                      unsigned mark) {
    unsigned behind = build->states[state].behind, lengths = tag == COMPACT_INTEGER ? SHORT_LENGTHS : 1;
    for (unsigned value = least; value < NARROW_VALUES; value++)
        set(build, state, value << 4 | tag, behind, narrow_mark);
    set(build, state, HEAD_WIDE | tag, expect(build, (struct symbol){BYTES, 1, 0}, behind), mark);
    for (unsigned i = 0; i < lengths; i++) {
        unsigned bytes = expect(build, (struct symbol){BYTES, (uint8_t)(2 + i), 0}, behind);
        set(build, state, i << 5 | HEAD_LONG | tag, bytes, mark);
    }
}

static void set_integer(struct build *build, unsigned state) {
    unsigned stop = expect(build, (struct symbol){A_STOP, 0, 0}, build->states[state].behind);
    set_value(build, state, COMPACT_INTEGER, 0, MARK_NONE, MARK_NONE);
    set(build, state, SHORT_LENGTHS << 5 | HEAD_LONG | COMPACT_INTEGER, stop, MARK_NONE);
}

static void set_registers(struct build *build, unsigned state, unsigned kinds) {
    if (kinds & IS_X) set_value(build, state, COMPACT_X, 0, MARK_NONE, MARK_REGISTER);
    if (kinds & IS_Y) set_value(build, state, COMPACT_Y, 0, MARK_NONE, MARK_REGISTER);
}

static void set_extended(struct build *build, unsigned state, unsigned kinds) {
    unsigned behind = build->states[state].behind;
    if (kinds & IS_LITERAL) set(build, state, HEAD_LITERAL, expect_number(build, MARK_LITERAL, behind), MARK_NONE);
    if (kinds & IS_FLOAT_REGISTER)
        set(build, state, HEAD_FLOAT_REGISTER, expect_number(build, MARK_REGISTER, behind), MARK_NONE);
    if (kinds & IS_ALLOCATION)
        set(build, state, HEAD_ALLOCATION, expect(build, (struct symbol){AN_ALLOCATION, 0, 0}, behind), MARK_NONE);
    if (!(kinds & (IS_X | IS_Y))) return;
    struct symbol typed = {A_REGISTER, kinds & (IS_X | IS_Y), 0};
    unsigned type = expect_number(build, MARK_TYPE, behind);
    set(build, state, HEAD_TYPED_REGISTER, expect(build, typed, type), MARK_NONE);
}

static void set_operand(struct build *build, unsigned state) {
    struct symbol symbol = build->states[state].symbol;
    unsigned kinds = role_kinds[symbol.what], behind = build->states[state].behind;
    unsigned narrow_mark = symbol.mark == MARK_REGISTER ? MARK_NONE : symbol.mark;
    unsigned label_mark = symbol.what == ROLE_FUNCTION ? MARK_CALL : MARK_JUMP;
    if (kinds & IS_UNSIGNED) set_value(build, state, COMPACT_UNSIGNED, 0, narrow_mark, symbol.mark);
    if (kinds & IS_INTEGER) set_integer(build, state);
    if (kinds & IS_ATOM) set_value(build, state, COMPACT_ATOM, 1, MARK_ATOM, MARK_ATOM);
    if (kinds & IS_NIL) set(build, state, COMPACT_ATOM, behind, MARK_NONE);
    if (kinds & IS_LABEL) set_value(build, state, COMPACT_LABEL, 1, label_mark, label_mark);
    if (kinds & IS_NO_LABEL) set(build, state, COMPACT_LABEL, behind, MARK_NONE);
    set_registers(build, state, kinds);
    set_extended(build, state, kinds);
}

static void set_allocation(struct build *build, unsigned state) {
    unsigned behind = build->states[state].behind;
    for (unsigned count = 0; count <= ALLOCATION_KINDS; count++) {
        set(build, state, count << 4, behind, MARK_NONE);
        behind = expect(build, (struct symbol){A_KIND, 0, 0}, expect_number(build, MARK_NONE, behind));
    }
}

static void set_kind(struct build *build, unsigned state) {
    for (unsigned kind = 0; kind < ALLOCATION_KINDS; kind++)
        set(build, state, kind << 4, build->states[state].behind, MARK_NONE);
}

/* For roles whose bounds the full reader checks (role.c). */
static enum mark number_mark(enum operand_role role) {
    switch (role) {
    case ROLE_REGISTERS:
    case ROLE_REGISTERS_OR_NIL: return MARK_REGISTER;
    case ROLE_IMPORT: return MARK_EXTERNAL;
    case ROLE_LAMBDA:
    case ROLE_LAMBDA_OR_ATOM: return MARK_LAMBDA;
    case ROLE_LINE: return MARK_LOCATION;
    default: return MARK_NONE;
    }
}

static struct symbol operand_symbol(enum operand_role role) {
    return (struct symbol){AN_OPERAND, (uint8_t)role, (uint8_t)number_mark(role)};
}

/* A list with its own language is only skipped: any elements are accepted. */
static unsigned period_of(const struct list_form *form) {
    return form->read ? 1 : form->period;
}

static struct symbol element_symbol(const struct list_form *form, unsigned place) {
    return operand_symbol(form->read ? ROLE_SOURCE_OR_NUMBER : form->elements[place]);
}

static unsigned expect_elements(struct build *build, const struct list_form *form, unsigned from, unsigned behind) {
    for (unsigned i = period_of(form); i-- > from;) behind = expect(build, element_symbol(form, i), behind);
    return behind;
}

/* Short lists have a state for each number of remaining elements. */
static void set_length(struct build *build, unsigned state) {
    unsigned number = build->states[state].symbol.what, behind = build->states[state].behind;
    const struct list_form *form = build->forms[number];
    struct symbol stop = {A_STOP, (uint8_t)period_of(form), 0};
    set(build, state, HEAD_WIDE, expect(build, stop, LIST_ELEMENTS + number), MARK_NONE);
    set(build, state, HEAD_LONG, expect(build, stop, LIST_ELEMENTS + number), MARK_NONE);
    for (unsigned count = 0; count < NARROW_VALUES; count += period_of(form)) {
        if (count > 0) behind = expect_elements(build, form, 0, behind);
        set(build, state, count << 4, behind, MARK_NONE);
    }
}

static unsigned find_form(const struct build *build, const struct list_form *form) {
    unsigned number = 0;
    while (number < build->form_count && build->forms[number] != form) number++;
    return number;
}

static struct symbol symbol_at(const struct build *build, const struct opcode *opcode, unsigned place) {
    static const struct {
        check_function *check;
        enum operand_role role;
        enum mark mark;
    } uses[] = {
        {check_label, ROLE_NUMBER, MARK_LABEL},
        {check_line, ROLE_LINE, MARK_LINE},
        {check_bif, ROLE_IMPORT, MARK_BUILT_IN},
    };
    enum operand_role role = opcode->operands[place];
    struct symbol symbol = operand_symbol(role);
    if (role == ROLE_LIST) return (struct symbol){A_LIST, (uint8_t)find_form(build, opcode->list), 0};
    if (opcode->check == check_func_info && place == 0) return (struct symbol){THE_MODULE, 0, 0};
    for (size_t i = 0; i < ARRAY_SIZE(uses); i++)
        if (opcode->check == uses[i].check && role == uses[i].role) symbol.mark = (uint8_t)uses[i].mark;
    return symbol;
}

/* Whether an instruction needs a check that marks don't cover. */
static bool is_special(const struct opcode *opcode) {
    static check_function *const known[] = {NULL,          check_label, check_func_info,     check_code_end,
                                            check_line,    check_call,  check_call_external, check_bif,
                                            check_make_fun};
    if (opcode->list && (opcode->list->check || opcode->list->read)) return true;
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (opcode->check == known[i]) return false;
    return true;
}

static unsigned state_behind(unsigned state, unsigned number) {
    switch (number) {
    case OP_LABEL: return state == BEHIND_HEADER ? BETWEEN : BEHIND_LABEL;
    case OP_LINE: return state == BEHIND_LABEL ? BEHIND_LINE : BETWEEN;
    case OP_FUNC_INFO: return BEHIND_HEADER;
    case OP_CODE_END: return ENDED;
    default: return BETWEEN;
    }
}

/* A function header follows its label, with at most a line in between, and an entry label follows the header. */
static bool may_come(unsigned state, unsigned number) {
    if (state == BEHIND_HEADER) return number == OP_LABEL;
    return is_opcode(number) && (number != OP_FUNC_INFO || state == BEHIND_LABEL || state == BEHIND_LINE);
}

static void set_instructions(struct build *build, unsigned state) {
    for (unsigned number = 0; number <= MAX_OPCODE; number++) {
        const struct opcode *opcode = &opcodes[number];
        if (!may_come(state, number)) continue;
        unsigned next = state_behind(state, number);
        for (unsigned i = opcode->operand_count; i-- > 0;) {
            struct symbol symbol = symbol_at(build, opcode, i);
            if (state == BEHIND_HEADER) symbol.mark = MARK_ENTRY;
            next = expect(build, symbol, next);
        }
        set(build, state, number, next, is_special(opcode) ? MARK_SPECIAL : MARK_OPCODE);
    }
}

static void set_bytes(struct build *build, unsigned state) {
    unsigned left = build->states[state].symbol.what - 1u, behind = build->states[state].behind;
    unsigned next = left > 0 ? expect(build, (struct symbol){BYTES, (uint8_t)left, 0}, behind) : behind;
    set(build, state, 0, next, MARK_NONE);
}

static void set_stop(struct build *build, unsigned state) {
    step_t *row = &build->out->steps[build->states[state].row];
    row[0] = step_to(build, state, MARK_NONE);
    row[STOP_RESUME] = step_to(build, build->states[state].behind, MARK_NONE);
    row[STOP_PERIOD] = build->states[state].symbol.what;
}

static void set_list(struct build *build, unsigned state) {
    struct symbol length = {A_LENGTH, build->states[state].symbol.what, 0};
    set(build, state, HEAD_LIST, expect(build, length, build->states[state].behind), MARK_NONE);
}

static void set_row(struct build *build, unsigned state) {
    struct state from = build->states[state];
    for (unsigned i = 0; i < columns_of(from.symbol); i++)
        build->out->steps[from.row + i] = step_to(build, WRONG, MARK_NONE);
    switch ((enum symbol_kind)from.symbol.kind) {
    case AN_OPERAND: return set_operand(build, state);
    case A_NUMBER: return set_value(build, state, COMPACT_UNSIGNED, 0, from.symbol.mark, from.symbol.mark);
    case A_REGISTER: return set_registers(build, state, from.symbol.what);
    case BYTES: return set_bytes(build, state);
    case AN_ALLOCATION: return set_allocation(build, state);
    case A_KIND: return set_kind(build, state);
    case A_LIST: return set_list(build, state);
    case A_LENGTH: return set_length(build, state);
    case A_STOP: return set_stop(build, state);
    case THE_MODULE: return set(build, state, HEAD_FIRST_ATOM, from.behind, MARK_NONE);
    case AN_INSTRUCTION: return set_instructions(build, state);
    case NOTHING: return;
    }
}

static void find_forms(struct build *build) {
    for (unsigned number = 0; number <= MAX_OPCODE; number++) {
        const struct list_form *form = opcodes[number].list;
        if (!form || find_form(build, form) < build->form_count) continue;
        require(build->form_count < MAX_LIST_FORMS);
        build->forms[build->form_count++] = form;
    }
}

static void add_fixed_states(struct build *build) {
    for (unsigned i = 0; i < LIST_ELEMENTS; i++)
        add_state(build, (struct symbol){i <= BEHIND_HEADER ? AN_INSTRUCTION : NOTHING, 0, 0}, WRONG);
    for (unsigned i = 0; i < MAX_LIST_FORMS; i++) {
        bool is_there = i < build->form_count;
        add_state(build, is_there ? element_symbol(build->forms[i], 0) : (struct symbol){NOTHING, 0, 0}, WRONG);
    }
    for (unsigned i = 0; i < build->form_count; i++)
        build->states[LIST_ELEMENTS + i].behind =
            (uint16_t)expect_elements(build, build->forms[i], 1, LIST_ELEMENTS + i);
}

/* Requires that the highest opcode is the newest, and that the full reader can check its instructions without knowing
   the users of labels. */
static void require_order(void) {
    unsigned newest = 0;
    for (unsigned number = 0; number <= MAX_OPCODE; number++) {
        if (!is_opcode(number)) continue;
        require(opcodes[number].since >= newest);
        require(!is_special(&opcodes[number]) || opcodes[number].check != check_call);
        newest = opcodes[number].since;
    }
}

void automaton_build(struct automaton *ret) {
    struct build build = {.out = ret};
    require_order();
    number_columns(ret);
    find_forms(&build);
    add_fixed_states(&build);
    for (unsigned state = 0; state < build.state_count; state++) set_row(&build, state); /* which adds states */
    ret->between = step_to(&build, BETWEEN, MARK_NONE);
    ret->behind_label = step_to(&build, BEHIND_LABEL, MARK_NONE);
    ret->behind_line = step_to(&build, BEHIND_LINE, MARK_NONE);
    ret->end = step_to(&build, ENDED, MARK_NONE);
    ret->wrong = step_to(&build, WRONG, MARK_NONE);
}
