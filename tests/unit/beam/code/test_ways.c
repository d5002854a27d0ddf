/* Code of which half is a trap: integers and lists that hold what seem to be labels, headers and integers. Whatever it
   is, every way of reading it says the same. */
#include "beam/beam_test.h"
#include "code_ways.h"

enum { TIMES = 2500, LEAST_QUICK = TIMES / 4, LEAST_REFUSED = TIMES / 10, LABELS_PER_FUNCTION = 3, MAX_FUNCTIONS = 12 };

struct draft {
    uint64_t random;
    struct buf code;
    uint32_t function_count;
    uint32_t function; /* the present one, from 0 */
};

static uint32_t any_below(struct draft *draft, uint32_t end) {
    draft->random ^= draft->random << 13;
    draft->random ^= draft->random >> 7;
    draft->random ^= draft->random << 17;
    return (uint32_t)((draft->random >> 16) % end);
}

static bool one_of(struct draft *draft, uint32_t times) {
    return any_below(draft, times) == 0;
}

/* Seldom, so that most code is right. */
static bool is_wrong(struct draft *draft) {
    return one_of(draft, 2000);
}

static uint32_t label_of(uint32_t function, uint32_t place) {
    return LABELS_PER_FUNCTION * function + place;
}

static uint32_t label_count(const struct draft *draft) {
    return LABELS_PER_FUNCTION * draft->function_count + 1;
}

static void put(struct draft *draft, uint32_t byte) {
    buf_append_byte(&draft->code, (uint8_t)byte);
}

/* In any form that it has. */
static void put_value(struct draft *draft, unsigned tag, uint32_t value) {
    uint32_t form = any_below(draft, 20);
    if (value < 16 && form > 1) {
        put(draft, value << 4 | tag);
    } else if (value < 2048 && form > 0) {
        put(draft, value >> 8 << 5 | HEAD_WIDE | tag);
        put(draft, value);
    } else {
        put(draft, HEAD_LONG | tag);
        put(draft, value >> 8);
        put(draft, value);
    }
}

/* So many bytes, which seem to be all sorts of things. */
static void put_traps(struct draft *draft, size_t size) {
    static const char *const traps[] = {"\x40\xf9\x08\x40", "\x40\xf9\x28\x90", "\xa4\x03\x17\x18",
                                        "\x07\x30\x30",     "\x02\x12",         "\x01\x08"};
    size_t end = draft->code.size + size;
    while (draft->code.size < end) {
        const char *trap = traps[any_below(draft, ARRAY_SIZE(traps))];
        if (one_of(draft, 3) && draft->code.size + strlen(trap) < end) {
            buf_append_string(&draft->code, trap);
            put(draft, any_below(draft, label_count(draft)));
        } else {
            put(draft, one_of(draft, 6) ? any_below(draft, 256) : 0x13);
        }
    }
}

static void put_integer(struct draft *draft) {
    uint32_t length = any_below(draft, 7);
    switch (any_below(draft, 4)) {
    case 0: return put(draft, any_below(draft, 16) << 4 | COMPACT_INTEGER);
    case 1: put(draft, length << 5 | HEAD_LONG | COMPACT_INTEGER); return put_traps(draft, length + 2);
    default:
        length = any_below(draft, one_of(draft, 2) ? 900 : 40);
        put(draft, 7u << 5 | HEAD_LONG | COMPACT_INTEGER);
        put_value(draft, COMPACT_UNSIGNED, length);
        put(draft, 1);
        put_traps(draft, length + 8);
    }
}

static void put_register(struct draft *draft, unsigned tag) {
    bool has_type = one_of(draft, 10);
    if (has_type) put(draft, HEAD_TYPED_REGISTER);
    put_value(draft, tag, is_wrong(draft) ? MAX_REGISTERS : any_below(draft, one_of(draft, 10) ? MAX_REGISTERS : 16));
    if (has_type) put_value(draft, COMPACT_UNSIGNED, is_wrong(draft) ? WAYS_TYPES : 0);
}

static uint32_t number_for(struct draft *draft, const struct opcode *opcode, enum operand_role role, uint32_t arity) {
    switch (role) {
    case ROLE_IMPORT: return opcode->check == check_bif ? built_in_arity(opcode) : arity + is_wrong(draft);
    case ROLE_LAMBDA:
    case ROLE_LAMBDA_OR_ATOM: return is_wrong(draft) ? WAYS_LAMBDAS : 0;
    case ROLE_LINE: return is_wrong(draft) ? WAYS_LINES + 1 : any_below(draft, WAYS_LINES + 1);
    case ROLE_REGISTERS: return arity;
    default: return any_below(draft, one_of(draft, 10) ? 3000 : 16);
    }
}

static uint32_t label_for(struct draft *draft, enum operand_role role) {
    if (is_wrong(draft)) return any_below(draft, label_count(draft));
    if (role == ROLE_FUNCTION) return label_of(any_below(draft, draft->function_count), 2);
    return label_of(draft->function, 1 + any_below(draft, LABELS_PER_FUNCTION));
}

static void put_allocation(struct draft *draft) {
    uint32_t count = any_below(draft, ALLOCATION_KINDS + 1);
    put(draft, HEAD_ALLOCATION);
    for (put(draft, count << 4); count > 0; count--) {
        put(draft, any_below(draft, ALLOCATION_KINDS) << 4);
        put_value(draft, COMPACT_UNSIGNED, any_below(draft, 30));
    }
}

static enum operand_kind any_kind(struct draft *draft, uint32_t kinds) {
    for (;;) {
        uint32_t kind = 1u << any_below(draft, 12);
        if (kinds & kind) return kind;
    }
}

static void put_operand(struct draft *draft, const struct opcode *opcode, enum operand_role role, uint32_t arity) {
    if (is_wrong(draft)) return put(draft, any_below(draft, 256));
    switch (any_kind(draft, role_kinds[role])) {
    case IS_UNSIGNED: return put_value(draft, COMPACT_UNSIGNED, number_for(draft, opcode, role, arity));
    case IS_INTEGER: return put_integer(draft);
    case IS_ATOM: return put_value(draft, COMPACT_ATOM, is_wrong(draft) ? 0 : 1 + any_below(draft, WAYS_ATOMS - 1));
    case IS_NIL: return put(draft, COMPACT_ATOM);
    case IS_X: return put_register(draft, COMPACT_X);
    case IS_Y: return put_register(draft, COMPACT_Y);
    case IS_LABEL: return put_value(draft, COMPACT_LABEL, label_for(draft, role));
    case IS_NO_LABEL: return put(draft, COMPACT_LABEL);
    case IS_ALLOCATION: return put_allocation(draft);
    case IS_FLOAT_REGISTER:
        put(draft, HEAD_FLOAT_REGISTER);
        return put_value(draft, COMPACT_UNSIGNED, any_below(draft, 8));
    case IS_LITERAL:
        put(draft, HEAD_LITERAL);
        return put_value(draft, COMPACT_UNSIGNED, any_below(draft, WAYS_LITERALS) + is_wrong(draft));
    case IS_LIST: return; /* has elements */
    }
}

static void put_list(struct draft *draft, const struct opcode *opcode, uint32_t arity) {
    const struct list_form *form = opcode->list;
    uint32_t groups = opcode->check == check_make_fun ? 0 : any_below(draft, one_of(draft, 3) ? 60 : 4);
    put(draft, HEAD_LIST);
    put_value(draft, COMPACT_UNSIGNED, groups * form->period + is_wrong(draft));
    for (uint32_t i = 0; i < groups * form->period; i++)
        put_operand(draft, opcode, form->elements[i % form->period], arity);
}

/* Strings and match commands want more than operands of their roles; once is often enough for on_load. */
static bool is_free(const struct opcode *opcode) {
    static check_function *const others[] = {check_put_string, check_match_string, check_on_load,
                                             check_func_info,  check_code_end,     check_label};
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (opcode->check == others[i]) return false;
    return opcode->since != OPCODE_NEVER && !(opcode->list && (opcode->list->read || opcode->list->check));
}

static void put_instruction(struct draft *draft) {
    enum { MOVE = 64 };
    uint32_t number = MOVE;
    if (!one_of(draft, 4)) do
            number = any_below(draft, MAX_OPCODE + 1);
        while (!is_free(&opcodes[number]));
    const struct opcode *opcode = &opcodes[number];
    uint32_t arity = opcode->check == check_call ? 0 : any_below(draft, WAYS_IMPORTS);
    put(draft, number);
    for (unsigned i = 0; i < opcode->operand_count; i++) {
        if (opcode->operands[i] == ROLE_LIST)
            put_list(draft, opcode, arity);
        else
            put_operand(draft, opcode, opcode->operands[i], arity);
    }
}

static void put_label(struct draft *draft, uint32_t place) {
    put(draft, OP_LABEL);
    put_value(draft, COMPACT_UNSIGNED, label_of(draft->function, place));
}

static void put_function(struct draft *draft, uint32_t length) {
    put_label(draft, 1);
    if (one_of(draft, 2)) buf_append(&draft->code, BYTES("\x99\x00"));
    buf_append(&draft->code, BYTES("\x02\x12\x22\x00"));
    put_label(draft, 2);
    for (uint32_t i = 0, labelled = any_below(draft, length); i < length; i++) {
        if (i == labelled) put_label(draft, 3);
        put_instruction(draft);
    }
}

static void put_code(struct draft *draft) {
    uint32_t length = 1 + any_below(draft, one_of(draft, 4) ? 60 : 12);
    draft->function_count = 1 + any_below(draft, MAX_FUNCTIONS);
    for (draft->function = 0; draft->function < draft->function_count; draft->function++) put_function(draft, length);
    put(draft, OP_CODE_END);
    for (uint32_t changes = one_of(draft, 3) ? any_below(draft, 3) : 0; changes > 0; changes--)
        draft->code.data[any_below(draft, (uint32_t)draft->code.size)] = (uint8_t)any_below(draft, 256);
}

/* In memory of its own size. */
static struct ways_result try_exactly(const uint8_t *bytes, size_t size, uint32_t labels, uint32_t functions) {
    CLEANUP_FREE uint8_t *code = malloc(size);
    assert_non_null(code);
    memcpy(code, bytes, size);
    return ways_try(code, size, labels, functions);
}

static void test_traps_at_random(void **state) {
    (void)state;
    unsigned quick = 0, refused = 0;
    for (uint64_t seed = 1; seed <= TIMES; seed++) {
        CLEANUP_BUF struct buf code = BUF_INIT;
        struct draft draft = {.random = seed * UINT64_C(0x9e3779b97f4a7c15), .code = code};
        put_code(&draft);
        code = draft.code;
        assert_false(code.failed);
        struct ways_result result = try_exactly(code.data, code.size, label_count(&draft), draft.function_count);
        if (result.disagreement) fail_msg("%s: seed %ju", result.disagreement, (uintmax_t)seed);
        quick += result.is_quick;
        refused += !result.is_valid;
    }
    assert_in_range(quick, LEAST_QUICK, TIMES);
    assert_in_range(refused, LEAST_REFUSED, TIMES);
}

enum { MAX_HIDING = 1500, HIDING_LABELS = 100 };

/* f/0, which jumps to label 48 or returns, and moves an integer of 1,000 bytes or of 700, at 15. */
struct hiding {
    uint8_t code[MAX_HIDING];
    size_t size;
};

static struct hiding hide(size_t size, const char *first, const char *length) {
    struct hiding ret = {.size = size};
    memset(ret.code, 0x13, size); /* return */
    memcpy(ret.code, BYTES("\x01\x10\x02\x12\x22\x00\x01\x20"));
    memcpy(ret.code + 8, first, 3);
    memcpy(ret.code + 11, BYTES("\x40\xf9"));
    memcpy(ret.code + 13, length, 2);
    ret.code[size - 1] = OP_CODE_END;
    return ret;
}

#define JUMP_TO_48 "\x3d\x0d\x30"
#define RETURNS "\x13\x13\x13"
#define BYTES_1000 "\x68\xdf"
#define BYTES_700 "\x48\xb3"

static void assert_refused(const struct hiding *hiding, uint32_t functions) {
    struct ways_result result = try_exactly(hiding->code, hiding->size, HIDING_LABELS, functions);
    assert_null(result.disagreement);
    assert_false(result.is_valid);
}

/* A label that is only inside an integer is not defined. */
static void test_a_label_inside_an_integer(void **state) {
    (void)state;
    struct hiding hiding = hide(1024, JUMP_TO_48, BYTES_1000);
    memcpy(hiding.code + 520, BYTES("\x01\x08\x30"));
    hiding.code[1015] = 0x03; /* where it is moved to */
    assert_refused(&hiding, 1);
}

/* The walk comes out between two instructions, as the one that began inside would have it, but elsewhere. */
static void test_a_label_inside_a_last_operand(void **state) {
    (void)state;
    struct hiding hiding = hide(1024, JUMP_TO_48, BYTES_1000);
    hiding.code[11] = 72; /* badmatch */
    memcpy(hiding.code + 520, BYTES("\x01\x08\x30"));
    assert_refused(&hiding, 1);
}

/* A walk may begin at what seems to be one; a label has to be in front of it all the same. */
static void test_a_header_without_a_label(void **state) {
    (void)state;
    struct hiding hiding = hide(1024, RETURNS, BYTES_1000);
    memset(hiding.code + 11, 0x13, 4); /* no integer */
    memcpy(hiding.code + 600, BYTES("\x01\x30\x13\x99\x00\x02\x12\x22\x00\x01\x40"));
    assert_refused(&hiding, 2);
}

static void test_a_function_inside_an_integer(void **state) {
    (void)state;
    struct hiding hiding = hide(1024, RETURNS, BYTES_1000);
    memcpy(hiding.code + 520, BYTES("\x01\x08\x30\x02\x12\x32\x10\x01\x08\x31"));
    hiding.code[1015] = 0x03;
    assert_refused(&hiding, 2);
}

/* A walk that begins inside an integer comes to another, which covers code that is wrong. */
static void test_code_behind_what_seems_an_integer(void **state) {
    (void)state;
    struct hiding hiding = hide(MAX_HIDING, RETURNS, BYTES_700);
    memcpy(hiding.code + 400, BYTES("\x01\x08\x30\x40\xf9\x68\xd5"));
    hiding.code[715] = 0x03;
    memcpy(hiding.code + 760, BYTES("\x01\x08\x31\x07\x00\x18\xff\xff\x3d\x0d\x62"));
    assert_refused(&hiding, 1);
}

/* What is large, or has too many integers and lists with a length, is left to the slow way. */
static void test_what_takes_long_is_left_to_the_slow_way(void **state) {
    (void)state;
    static const struct {
        const char *instruction;
        size_t size, times;
        bool is_quick;
    } cases[] = {
        {BYTES("\x13"), QUICK_MAX_BYTES - 9, true},
        {BYTES("\x13"), QUICK_MAX_BYTES - 8, false},
        {BYTES("\xa4\x03\x17\x08\x01\x03"), 20, true},
        {BYTES("\xa4\x03\x17\x08\x01\x03"), 200, false},
        {BYTES("\x40\xf9\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x03"), 200, false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP_BUF struct buf code = BUF_INIT;
        buf_append(&code, BYTES("\x01\x10\x02\x12\x22\x00\x01\x20"));
        for (size_t j = 0; j < cases[i].times; j++) buf_append(&code, cases[i].instruction, cases[i].size);
        buf_append_byte(&code, OP_CODE_END);
        struct ways_result result = try_exactly(code.data, code.size, 3, 1);
        assert_null(result.disagreement);
        assert_true(result.is_valid);
        assert_int_equal(result.is_quick, cases[i].is_quick);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_traps_at_random),
        cmocka_unit_test(test_a_label_inside_an_integer),
        cmocka_unit_test(test_a_label_inside_a_last_operand),
        cmocka_unit_test(test_a_header_without_a_label),
        cmocka_unit_test(test_a_function_inside_an_integer),
        cmocka_unit_test(test_code_behind_what_seems_an_integer),
        cmocka_unit_test(test_what_takes_long_is_left_to_the_slow_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
