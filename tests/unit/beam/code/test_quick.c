/* The quick way of reading code, held against the slow one. */
#include "beam/beam_test.h"
#include "beam/code/survey.h"

/* As minimal_parts has them, with a built-in function of each arity that opcodes have, and more labels. */
#define MANY_IMPORTS                                                                                                   \
    "\0\0\0\x05\0\0\0\x03\0\0\0\x04\0\0\0\0\0\0\0\x03\0\0\0\x05\0\0\0\x01\0\0\0\x03\0\0\0\x05\0\0\0\x02\0\0\0\x03"     \
    "\0\0\0\x05\0\0\0\x03\0\0\0\x01\0\0\0\x06\0\0\0\x03"

enum { MAX_LABELS = 3000, LEAST_ACCEPTED = 2000 };

static void begin_code(struct buf *code, uint32_t labels, uint32_t functions) {
    buf_append(code, BYTES("\0\0\0\x10\0\0\0\0\0\0\0\xbf"));
    buf_append_u32(code, labels + 1);
    buf_append_u32(code, functions);
}

static void append_number(struct buf *code, uint8_t tag, uint32_t value) {
    if (value < 16) return buf_append_byte(code, (uint8_t)(value << 4 | tag));
    if (value < 2048) {
        buf_append_byte(code, (uint8_t)(value >> 8 << 5 | HEAD_WIDE | tag));
        return buf_append_byte(code, (uint8_t)value);
    }
    buf_append_byte(code, HEAD_LONG | tag);
    buf_append_byte(code, (uint8_t)(value >> 8));
    buf_append_byte(code, (uint8_t)value);
}

static void append_label(struct buf *code, uint32_t number) {
    buf_append_byte(code, OP_LABEL);
    append_number(code, COMPACT_UNSIGNED, number);
}

/* f/0, whose label in front is first, the other one the next. */
static void append_header(struct buf *code, uint32_t first) {
    append_label(code, first);
    buf_append(code, BYTES("\x99\x00\x02\x12\x22\x00"));
    append_label(code, first + 1);
}

static void append_end(struct buf *code) {
    buf_append(code, BYTES(FUNCTION_END));
}

/* A file with this code; NULL: it is refused. */
static struct beam *read_file(const struct buf *code, uint8_t **ret_bytes) {
    struct part parts[ARRAY_SIZE(minimal_parts)];
    CLEANUP_BUF struct buf file = BUF_INIT;
    struct error error;
    struct beam *beam = NULL;
    memcpy(parts, minimal_parts, sizeof parts);
    parts[3] = (struct part){"ImpT", BYTES(MANY_IMPORTS)};
    parts[9] = (struct part){"Line", BYTES("\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\x01\0\0\0\0\x51")};
    build(&file, parts, &(struct part){"Code", (const char *)code->data, code->size});
    read_exactly(file.data, file.size, &beam_default_options, &beam, ret_bytes, &error);
    return beam;
}

struct finding {
    struct code_function functions[MAX_LABELS];
    struct label labels[MAX_LABELS + 1];
    bool on_load;
    unsigned min_otp;
};

static void find(const struct beam *beam, struct finding *ret) {
    assert_in_range(beam->label_count, 1, MAX_LABELS + 1);
    memcpy(ret->functions, beam->functions, beam->function_count * sizeof *ret->functions);
    memcpy(ret->labels, beam->labels, beam->label_count * sizeof *ret->labels);
    ret->on_load = beam->on_load;
    ret->min_otp = beam->min_otp;
}

static void assert_same(const struct beam *beam, const struct finding *a, const struct finding *b) {
    for (uint32_t i = 0; i < beam->function_count; i++) {
        assert_int_equal(a->functions[i].atom, b->functions[i].atom);
        assert_int_equal(a->functions[i].arity, b->functions[i].arity);
        assert_int_equal(a->functions[i].entry, b->functions[i].entry);
        assert_int_equal(a->functions[i].body, b->functions[i].body);
        assert_int_equal(a->functions[i].body_end, b->functions[i].body_end);
    }
    for (uint32_t i = 0; i < beam->label_count; i++) {
        assert_int_equal(a->labels[i].function, b->labels[i].function);
        assert_int_equal(a->labels[i].entered_with, b->labels[i].entered_with);
    }
    assert_int_equal(a->on_load, b->on_load);
    assert_int_equal(a->min_otp, b->min_otp);
}

/* Whether the quick way takes what is valid. What it finds is what the slow way finds, on every processor. */
static bool is_quick(struct beam *beam) {
    static struct finding slow, quick;
    const struct surveyor *const surveyors[] = {&plain_surveyor, surveyor_best()};
    int results[ARRAY_SIZE(surveyors)];
    assert_int_equal(read_code_again(beam, NULL), 0);
    find(beam, &slow);
    for (size_t i = 0; i < ARRAY_SIZE(surveyors); i++) {
        results[i] = read_code_quickly(beam, surveyors[i], NULL);
        find(beam, &quick);
        if (results[i] == 0) assert_same(beam, &slow, &quick);
    }
    assert_int_equal(results[0], results[1]);
    return results[0] == 0;
}

enum outcome { REFUSED, SLOW, QUICK };

static enum outcome read_it(const struct buf *code) {
    CLEANUP_FREE uint8_t *bytes = NULL;
    CLEANUP_BEAM struct beam *beam = read_file(code, &bytes);
    if (!beam) return REFUSED;
    return is_quick(beam) ? QUICK : SLOW;
}

/* Operands in all their forms; those that the quick way leaves to the slow one are marked. */
static const struct form {
    const char *bytes;
    size_t size;
    bool is_slow;
} forms[] = {
    {BYTES("\x00"), false},
    {BYTES("\x10"), false},
    {BYTES("\x20"), false},
    {BYTES("\x30"), false},
    {BYTES("\x40"), false},
    {BYTES("\x08\x02"), false},
    {BYTES("\x28\xff"), false},
    {BYTES("\x88\x00"), true}, /* 1024 registers, but no register 1024 */
    {BYTES("\x18\x01\x00"), false},
    {BYTES("\x18\xff\xff"), false},
    {BYTES("\x38\x00\x00\x01"), true},
    {BYTES("\x01"), false},
    {BYTES("\xf1"), false},
    {BYTES("\x29\x00"), false},
    {BYTES("\x19\xff\xff"), false},
    {BYTES("\x39\x01\x02\x03"), false},
    {BYTES("\xd9\x01\x02\x03\x04\x05\x06\x07\x08"), false},
    {BYTES("\xf9\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09"), false},
    {BYTES("\xf9\x00\x00\x00\x03\x04\x05\x06\x07\x08\x09"), false}, /* needless bytes: refused */
    {BYTES("\xf9\xf0\x01"), false},
    {BYTES("\x02"), false},
    {BYTES("\x12"), false},
    {BYTES("\x62"), false},
    {BYTES("\x72"), false}, /* there is no atom 7 */
    {BYTES("\x0a\x06"), false},
    {BYTES("\x0a\x07"), false},
    {BYTES("\x0a\x00"), true},
    {BYTES("\x1a\x00\x05"), false},
    {BYTES("\x03"), false},
    {BYTES("\xf3"), false},
    {BYTES("\x6b\xff"), false},
    {BYTES("\x8b\x00"), false},
    {BYTES("\x1b\x00\x01"), false},
    {BYTES("\x04"), false},
    {BYTES("\xf4"), false},
    {BYTES("\x0c\x20"), false},
    {BYTES("\x05"), false},
    {BYTES("\x15"), false},
    {BYTES("\x25"), false},
    {BYTES("\x35"), false}, /* is not defined */
    {BYTES("\x0d\x02"), false},
    {BYTES("\x0d\x00"), true},
    {BYTES("\x1d\x00\x01"), false},
    {BYTES("\x06"), false},
    {BYTES("\x07"), false},
    {BYTES("\x67"), false},
    {BYTES("\x27\x00"), false},
    {BYTES("\x27\x68\xff"), false},
    {BYTES("\x27\x88\x00"), false},
    {BYTES("\x37\x00"), false},
    {BYTES("\x37\x20\x00\x30\x10\x08\x20"), false},
    {BYTES("\x37\x10\x30\x00"), false},
    {BYTES("\x37\x10\x08\x00\x00"), true},
    {BYTES("\x37\x40\x00\x30\x10\x10\x20\x10\x00\x10"), false},
    {BYTES("\x47\x10"), false},
    {BYTES("\x47\x20"), false},
    {BYTES("\x47\x08\x01"), false},
    {BYTES("\x57\x03\x00"), false},
    {BYTES("\x57\x04\x08\x00"), false},
    {BYTES("\x57\x03\x10"), false},
    {BYTES("\x57\x12\x00"), false},
    {BYTES("\x17\x00"), false},
    {BYTES("\x17\x08\x00"), true},
};

/* An operand that each role takes. */
static struct form usual_form(enum operand_role role) {
    switch (role) {
    case ROLE_ATOM: return (struct form){BYTES("\x12"), false};
    case ROLE_JUMP:
    case ROLE_JUMP_OR_ATOM: return (struct form){BYTES("\x15"), false};
    case ROLE_FAILURE: return (struct form){BYTES("\x05"), false};
    case ROLE_FUNCTION: return (struct form){BYTES("\x25"), false};
    case ROLE_SLOT: return (struct form){BYTES("\x04"), false};
    case ROLE_REGISTER:
    case ROLE_SOURCE:
    case ROLE_SOURCE_OR_NUMBER:
    case ROLE_REGISTER_OR_FLOAT:
    case ROLE_SOURCE_OR_FLOAT: return (struct form){BYTES("\x03"), false};
    case ROLE_CONSTANT:
    case ROLE_FLAGS: return (struct form){BYTES("\x02"), false};
    case ROLE_FLOAT: return (struct form){BYTES("\x27\x00"), false};
    case ROLE_LIST: return (struct form){BYTES("\x17\x00"), false};
    default: return (struct form){BYTES("\x00"), false};
    }
}

/* Built-in functions need an import of their arity; import 4 has three parameters. */
static struct form first_form(const struct opcode *opcode, unsigned place) {
    static const char *const imports[] = {"\x00", "\x10", "\x20", "\x30"};
    enum operand_role role = opcode->operands[place];
    if (opcode->check == check_bif && role == ROLE_IMPORT)
        return (struct form){imports[built_in_arity(opcode)], 1, false};
    if (opcode->check == check_call_external && place < 2)
        return place == 0 ? (struct form){BYTES("\x30"), false} : (struct form){BYTES("\x40"), false};
    return usual_form(role);
}

static enum outcome read_with_form(uint8_t number, unsigned changed, const struct form *form) {
    CLEANUP_BUF struct buf code = BUF_INIT;
    const struct opcode *opcode = &opcodes[number];
    begin_code(&code, 3, 1);
    append_header(&code, 1);
    buf_append_byte(&code, number);
    for (unsigned i = 0; i < opcode->operand_count; i++) {
        struct form usual = first_form(opcode, i);
        const struct form *used = i == changed ? form : &usual;
        buf_append(&code, used->bytes, used->size);
    }
    append_end(&code);
    return read_it(&code);
}

static bool is_movable(uint8_t number) {
    bool is_frame = number == OP_LABEL || number == OP_FUNC_INFO || number == OP_CODE_END;
    return opcodes[number].since != OPCODE_NEVER && !is_frame;
}

/* Where a closure goes is in one byte or two, if it is to be quick. */
static void test_every_operand_in_every_form(void **state) {
    (void)state;
    unsigned accepted = 0;
    for (uint8_t number = 0; number <= MAX_OPCODE; number++) {
        if (!is_movable(number)) continue;
        if (read_with_form(number, MAX_OPERANDS, NULL) != QUICK) fail_msg("%s is not read", opcodes[number].name);
        for (unsigned place = 0; place < opcodes[number].operand_count; place++) {
            for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
                enum outcome outcome = read_with_form(number, place, &forms[i]);
                accepted += outcome == QUICK;
                if (outcome == SLOW && !forms[i].is_slow && opcodes[number].check != check_make_fun)
                    fail_msg("%s: form %zu of operand %u is left to the slow way", opcodes[number].name, i, place);
            }
        }
    }
    assert_in_range(accepted, LEAST_ACCEPTED, UINT32_MAX);
}

/* So many elements, one of them changed. */
static void append_list(struct buf *code, const struct list_form *form, uint32_t count, uint32_t changed,
                        const struct form *changed_form) {
    append_number(code, COMPACT_UNSIGNED, count);
    for (uint32_t i = 0; i < count; i++) {
        struct form usual =
            form->read ? (struct form){BYTES("\x00"), false} : usual_form(form->elements[i % form->period]);
        const struct form *used = i == changed ? changed_form : &usual;
        buf_append(code, used->bytes, used->size);
    }
}

static enum outcome read_with_list(uint8_t number, uint32_t count, uint32_t changed, const struct form *form) {
    CLEANUP_BUF struct buf code = BUF_INIT;
    const struct opcode *opcode = &opcodes[number];
    begin_code(&code, 3, 1);
    append_header(&code, 1);
    buf_append_byte(&code, number);
    for (unsigned i = 0; i + 1 < opcode->operand_count; i++) {
        struct form usual = first_form(opcode, i);
        buf_append(&code, usual.bytes, usual.size);
    }
    buf_append_byte(&code, HEAD_LIST);
    append_list(&code, opcode->list, count, changed, form);
    append_end(&code);
    return read_it(&code);
}

/* Match commands and closures want more of their lists than that each element is right. */
static bool has_free_list(uint8_t number) {
    const struct opcode *opcode = &opcodes[number];
    return opcode->list && !opcode->list->read && opcode->check != check_make_fun;
}

static void test_lists_of_all_lengths(void **state) {
    (void)state;
    static const uint32_t counts[] = {0,  1,   2,   6,   12,  14,  15,  16,   17,   18,  30,
                                      36, 126, 128, 130, 254, 256, 258, 2046, 2048, 6000};
    for (uint8_t number = 0; number <= MAX_OPCODE; number++) {
        for (size_t i = 0; has_free_list(number) && i < ARRAY_SIZE(counts); i++) {
            bool is_right = counts[i] % opcodes[number].list->period == 0;
            enum outcome outcome = read_with_list(number, counts[i], UINT32_MAX, NULL);
            if (outcome != (is_right ? QUICK : REFUSED))
                fail_msg("%s with %u elements: %d", opcodes[number].name, counts[i], outcome);
        }
    }
}

static void test_elements_in_every_form(void **state) {
    (void)state;
    static const uint32_t counts[] = {6, 12, 18, 132};
    for (uint8_t number = 0; number <= MAX_OPCODE; number++) {
        if (!has_free_list(number)) continue;
        for (size_t i = 0; i < ARRAY_SIZE(counts) * ARRAY_SIZE(forms); i++) {
            const struct form *form = &forms[i / ARRAY_SIZE(counts)];
            uint32_t count = counts[i % ARRAY_SIZE(counts)];
            for (uint32_t place = 0; place < 6; place++)
                if (read_with_list(number, count, count - 6 + place, form) == SLOW && !form->is_slow)
                    fail_msg("%s: form %zu in a list of %u is left to the slow way", opcodes[number].name,
                             i / ARRAY_SIZE(counts), count);
        }
    }
}

/* Functions with a label of their own, a jump and a call, and in their middle what seems to be a beginning and is none.
 */
static void append_functions(struct buf *code, uint32_t count, const char *middle, size_t size) {
    begin_code(code, 3 * count, count);
    for (uint32_t i = 0; i < count; i++) {
        append_header(code, 3 * i + 1);
        buf_append(code, middle, size);
        buf_append_byte(code, 61); /* jump */
        append_number(code, COMPACT_LABEL, 3 * i + 3);
        append_label(code, 3 * i + 3);
        buf_append(code, BYTES("\x04\x00")); /* call */
        append_number(code, COMPACT_LABEL, 3 * ((i + 7) % count) + 2);
        buf_append(code, BYTES("\x13"));
    }
    buf_append(code, BYTES("\x03"));
}

static const struct {
    const char *name;
    const char *bytes;
    size_t size;
} middles[] = {
    {"nothing", BYTES("")},
    {"a label in an integer", BYTES("\x40\x79\x01\x08\x20\x13\x13\x03")},
    {"labels in integers", BYTES("\x40\x79\x01\x08\x20\x13\x13\x03\x40\x79\x01\x08\x21\x13\x13\x03")},
    {"a header in an integer", BYTES("\x40\x79\x99\x00\x02\x12\x22\x03")},
    {"a header in a longer one", BYTES("\x40\x99\x00\x02\x12\x22\x00\x01\x03")},
    {"a header of [] and an opcode", BYTES("\x99\x00\xa4\x03\x17\x20\x01\x02\x12\x00")},
    {"a list", BYTES("\xa4\x03\x17\x08\x12\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03")},
    {"a large integer", BYTES("\x40\xf9\x40\x01\x08\x20\x13\x02\x12\x22\x00\x01\x08\x20\x13\x13\x03")},
};

static void test_walks_that_begin_at_the_wrong_place(void **state) {
    (void)state;
    static const uint32_t counts[] = {1, 2, 3, 4, 5, 8, 20, 100, 300, MAX_LABELS / 3};
    for (size_t i = 0; i < ARRAY_SIZE(middles) * ARRAY_SIZE(counts); i++) {
        CLEANUP_BUF struct buf code = BUF_INIT;
        size_t middle = i / ARRAY_SIZE(counts);
        append_functions(&code, counts[i % ARRAY_SIZE(counts)], middles[middle].bytes, middles[middle].size);
        enum outcome outcome = read_it(&code);
        if (outcome != QUICK)
            fail_msg("%s, %u functions: %d", middles[middle].name, counts[i % ARRAY_SIZE(counts)], outcome);
    }
}

/* A list that covers what seem to be functions, and ends in the middle of one. */
static void test_a_list_over_many_beginnings(void **state) {
    (void)state;
    for (uint32_t count = 16; count < 1500; count += 37) {
        CLEANUP_BUF struct buf code = BUF_INIT;
        begin_code(&code, 40, 1);
        append_header(&code, 1);
        buf_append(&code, BYTES("\xa4\x03\x17"));
        append_number(&code, COMPACT_UNSIGNED, count);
        for (uint32_t i = 0; i < count; i++) buf_append(&code, BYTES("\x79\x01\x08\x11\x02\x12"));
        append_end(&code);
        assert_int_equal(read_it(&code), QUICK);
    }
}

/* Nothing that the slow way refuses is taken, whatever byte is changed; read_it sees to that. */
static void test_every_byte_changed(void **state) {
    (void)state;
    static const uint8_t changes[] = {0x01, 0x02, 0x08, 0x10, 0x18, 0x80, 0xff};
    CLEANUP_BUF struct buf code = BUF_INIT;
    unsigned refused = 0, quick = 0;
    append_functions(&code, 12,
                     BYTES("\xa4\x03\x17\x20\x12\x51\xab\x00\x03\x17\x00\x07\x30\x40\x7d\x05\x00\x20\x03\x47\x10\x03"));
    for (size_t at = 20; at < code.size * ARRAY_SIZE(changes); at++) {
        uint8_t *byte = &code.data[at % code.size], change = changes[at / code.size];
        *byte ^= change;
        enum outcome outcome = read_it(&code);
        refused += outcome == REFUSED;
        quick += outcome == QUICK;
        *byte ^= change;
    }
    assert_in_range(refused, code.size, UINT32_MAX);
    assert_in_range(quick, code.size / 4, UINT32_MAX);
}

static void test_calls_with_many_arguments(void **state) {
    (void)state;
    static const struct {
        const char *arity, *arguments;
        size_t size;
        enum outcome expected;
    } cases[] = {
        {"\xf0", "\xf0", 1, QUICK},
        {"\x08\x10", "\x08\x10", 2, QUICK},
        {"\x08\xff", "\x08\xff", 2, QUICK},
        {"\x08\x10", "\x08\x11", 2, REFUSED},
        {"\x18\x00\x10", "\x18\x00\x10", 3, SLOW},
        {"\x28\x00", "\x28\x00", 2, REFUSED},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP_BUF struct buf code = BUF_INIT;
        begin_code(&code, 4, 2);
        append_header(&code, 1);
        buf_append(&code, BYTES("\x04"));
        buf_append(&code, cases[i].arguments, cases[i].size);
        buf_append(&code, BYTES("\x45\x13\x01\x30\x02\x12\x62"));
        buf_append(&code, cases[i].arity, cases[i].size);
        buf_append(&code, BYTES("\x01\x40\x13\x03"));
        assert_int_equal(read_it(&code), cases[i].expected);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operand_in_every_form), cmocka_unit_test(test_lists_of_all_lengths),
        cmocka_unit_test(test_elements_in_every_form),      cmocka_unit_test(test_walks_that_begin_at_the_wrong_place),
        cmocka_unit_test(test_a_list_over_many_beginnings), cmocka_unit_test(test_every_byte_changed),
        cmocka_unit_test(test_calls_with_many_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
