/* Code made by hand: what each instruction may be, and what is wrong with it. */
#include "beam/beam_test.h"
#include "beam/code/code.h"

static const struct {
    const char *name;
    const char *body; /* between the entry label and return */
    size_t size;
    const char *expected; /* NULL: it is valid */
} bodies[] = {
    {"nothing", BYTES(""), NULL},
    {"move", BYTES("\x40\x03\x13"), NULL},
    {"move of a small integer", BYTES("\x40\x71\x03"), NULL},
    {"move of two bytes", BYTES("\x40\x29\xff\x03"), NULL},
    {"move of a negative integer", BYTES("\x40\x19\xff\xfe\x03"), NULL},
    {"move of five bytes", BYTES("\x40\x79\x80\0\0\0\0\x03"), NULL},
    {"move of eight bytes", BYTES("\x40\xd9\xff\0\0\0\0\0\0\0\x03"), NULL},
    {"a register of five bytes", BYTES("\x40\x7b\0\0\0\0\x01\x13"), NULL},
    {"a long integer for a register", BYTES("\x40\x03\x39\0\0\0"), "an integer where it can't be"},
    {"move of nine bytes", BYTES("\x40\xf9\x00\x01\0\0\0\0\0\0\0\0\x03"), NULL},
    {"needless leading bytes", BYTES("\x40\xf9\x00\0\0\x01\0\0\0\0\0\0\x03"), "needless leading bytes"},
    {"a number past the end", BYTES("\x40\xf9\xe0\x01"), "past the end"},
    {"length of a length", BYTES("\x40\xf9\xf8\x01"), "does not fit"},
    {"index of nine bytes", BYTES("\x40\xfa\x00\0\0\0\0\0\0\0\0\x01\x03"), "an index of 9 bytes"},
    {"atom", BYTES("\x40\x62\x03"), NULL},
    {"nil", BYTES("\x40\x02\x03"), NULL},
    {"atom out of range", BYTES("\x40\x72\x03"), "atom 7, there are 6"},
    {"atom to an atom", BYTES("\x40\x12\x12"), "an atom where it can't be"},
    {"x1023", BYTES("\x40\x6b\xff\x03"), NULL},
    {"x1024", BYTES("\x40\x8b\x00\x03"), "register 1024"},
    {"y1024", BYTES("\x40\x8c\x00\x03"), "register 1024"},
    {"character", BYTES("\x40\x16\x03"), "unknown kind"},
    {"literal", BYTES("\x40\x47\x10\x03"), NULL},
    {"literal out of range", BYTES("\x40\x47\x20\x03"), "literal 2, there are 2"},
    {"typed register", BYTES("\x40\x57\x03\x00\x13"), NULL},
    {"type out of range", BYTES("\x40\x57\x03\x10\x13"), "type 1, there are 1"},
    {"type of an atom", BYTES("\x40\x57\x12\x00\x13"), "no register"},
    {"float of old", BYTES("\x40\x07\x03"), "extended operand 0"},
    {"unknown extended", BYTES("\x40\x67\x03"), "extended operand 6"},
    {"list where none is", BYTES("\x40\x17\x10\x03\x03"), "a list where it can't be"},
    {"float registers", BYTES("\x62\x05\x27\x00\x27\x10\x27\x20"), NULL},
    {"float register out of range", BYTES("\x62\x05\x27\x88\x00\x27\x10\x27\x20"), "float register 1024"},
    {"allocation", BYTES("\x10\x37\x20\x00\x30\x10\x10\x00"), NULL},
    {"allocation of many words", BYTES("\x10\x37\x20\x00\x28\xff\x10\x18\x10\x00\x00"), NULL},
    {"allocation of four kinds", BYTES("\x10\x37\x40\x00\x30\x10\x10\x20\x10\x00\x10\x00"), "a number of allocations"},
    {"allocation where none is", BYTES("\x12\x37\x10\x00\x10"), "an allocation where it can't be"},
    {"allocation of an unknown kind", BYTES("\x10\x37\x10\x30\x10\x00"), "an allocation's kind 3"},
    {"allocation without end", BYTES("\x10\x37\xf0"), "a number of allocations"},

    {"jump", BYTES("\x3d\x15"), NULL},
    {"jump nowhere", BYTES("\x3d\x05"), "no label where it can't be"},
    {"jump to an undefined label", BYTES("\x3d\x35"), "label 3 is not defined"},
    {"jump to a label out of range", BYTES("\x3d\x45"), "label 4, the last is 3"},
    {"label twice", BYTES("\x01\x20"), "label 2 a second time"},
    {"label 0", BYTES("\x01\x00"), "label 0"},
    {"label out of range", BYTES("\x01\x90"), "label 9, the last is 3"},
    {"third label", BYTES("\x01\x30"), NULL},

    {"call", BYTES("\x04\x00\x25"), NULL},
    {"call with arguments", BYTES("\x04\x10\x25"), "a call with 1 arguments of a function with 0"},
    {"call into the middle", BYTES("\x04\x00\x15"), "where no function begins"},
    {"calls that disagree", BYTES("\x04\x00\x25\x04\x10\x25"), "others have 0"},
    {"external call", BYTES("\x07\x30\x20"), NULL},
    {"external call's arity", BYTES("\x07\x20\x20"), "2 arguments for an import of arity 3"},
    {"import out of range", BYTES("\x07\x20\x30"), "number 3, it must be below 3"},
    {"bif0", BYTES("\x09\x00\x03"), NULL},
    {"bif0 of two parameters", BYTES("\x09\x10\x03"), "0 arguments for an import of arity 2"},
    {"gc_bif2", BYTES("\x7d\x05\x00\x10\x03\x11\x03"), NULL},
    {"gc_bif2 of another module", BYTES("\x7d\x05\x00\x20\x03\x11\x03"), "not erlang's"},
    {"live registers", BYTES("\x0c\x00\x88\x01"), "number 1025, it must be below 1025"},

    {"make_fun3", BYTES("\xab\x00\x03\x17\x00"), NULL},
    {"make_fun3 with too much", BYTES("\xab\x00\x03\x17\x10\x03"), "closes over 0"},
    {"lambda out of range", BYTES("\xab\x10\x03\x17\x00"), "number 1, it must be below 1"},
    {"select_val", BYTES("\x3b\x03\x15\x17\x40\x12\x15\x51\x15"), NULL},
    {"select_val of three", BYTES("\x3b\x03\x15\x17\x30\x12\x15\x51"), "do not come in 2s"},
    {"select_val of registers", BYTES("\x3b\x03\x15\x17\x20\x13\x15"), "an x register where it can't be"},
    {"list past the end", BYTES("\xa4\x03\x17\xe8\xff"), "goes past the end"},
    {"put_tuple2", BYTES("\xa4\x03\x17\x20\x13\x02"), NULL},
    {"init_yregs of x", BYTES("\xac\x17\x10\x03"), "an x register where it can't be"},
    {"put_string", BYTES("\x5c\x20\x40"), NULL},
    {"put_string past the strings", BYTES("\x5c\x30\x40"), "3 bytes at 4 of chunk StrT"},
    {"match_string past the strings", BYTES("\x84\x15\x03\x90\x50"), "2 bytes at 5 of chunk StrT"},
    {"line", BYTES("\x99\x10"), NULL},
    {"line out of range", BYTES("\x99\x20"), "number 2, it must be below 2"},
    {"more lines than announced", BYTES("\x99\x10\x99\x10\x99\x00"), "3 line instructions, chunk Line announces 2"},
    {"on_load", BYTES("\x95"), NULL},
    {"on_load twice", BYTES("\x95\x95"), "on_load a second time"},
    {"debug_line", BYTES("\xb8\x12\x10\x00\x00"), NULL},
    {"executable_line", BYTES("\xb7\x10\x00"), NULL},
    {"is_any_native_record", BYTES("\xba\x15\x03"), NULL},
    {"is_native_record", BYTES("\xbb\x15\x03\x12\x22"), NULL},
    {"get_record_elements", BYTES("\xbc\x15\x03\x17\x20\x12\x13"), NULL},
    {"get_record_elements into an atom", BYTES("\xbc\x15\x03\x17\x20\x12\x12"), "an atom where it can't be"},
    {"put_record", BYTES("\xbd\x05\x12\x02\x03\x10\x17\x20\x12\x03"), NULL},
    {"put_record of registers", BYTES("\xbd\x05\x12\x02\x03\x10\x17\x20\x03\x03"), "an x register where it can't be"},
    {"is_record_accessible", BYTES("\xbe\x15\x03\x12"), NULL},
    {"get_record_field", BYTES("\xbf\x05\x03\x12\x22\x03"), NULL},

    {"obsolete", BYTES("\x1b\x05\x03\x03\x03"), "opcode 27 is unknown or obsolete"},
    {"opcode 0", BYTES("\x00"), "opcode 0 is unknown"},
    {"opcode above the header's", BYTES("\xc0"), "opcode 192, the highest announced is 191"},
    {"function without label", BYTES("\x02\x12\x22\x00\x01\x30"), "without a label in front"},
    {"one function too many", BYTES("\x01\x30\x02\x12\x22\x00"), "more functions than the 1"},
    {"end before the end", BYTES("\x03"), "2 bytes too many"},
};

static void code_with(struct buf *code, const void *body, size_t size, size_t returns) {
    buf_append(code, BYTES(CODE_HEADER FUNCTION_START));
    buf_append(code, body, size);
    for (size_t i = 0; i < returns; i++) buf_append(code, BYTES("\x13"));
    buf_append(code, BYTES(FUNCTION_END));
}

/* Far from the file's end, instructions are read in another way. */
static void expect_body(const struct part *parts, size_t i, size_t returns) {
    CLEANUP_BUF struct buf code = BUF_INIT;
    code_with(&code, bodies[i].body, bodies[i].size, returns);
    expect_of(parts, bodies[i].name, &(struct part){"Code", (const char *)code.data, code.size}, bodies[i].expected);
}

/* What is cut by the end is cut no more. */
static bool is_about_the_end(const char *expected) {
    return expected && (strstr(expected, "past the end") || strstr(expected, "too many"));
}

static void test_bodies(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) expect_body(minimal_parts, i, 0);
}

static void test_bodies_at_the_end_of_the_file(void **state) {
    (void)state;
    struct part parts[ARRAY_SIZE(minimal_parts)] = {0};
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_SIZE(minimal_parts); i++)
        if (!minimal_parts[i].tag || strcmp(minimal_parts[i].tag, "Code") != 0) parts[count++] = minimal_parts[i];
    for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
        expect_body(parts, i, 0);
        if (!is_about_the_end(bodies[i].expected)) expect_body(parts, i, 100);
    }
}

static void test_bodies_far_from_the_end(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bodies); i++)
        if (!is_about_the_end(bodies[i].expected)) expect_body(minimal_parts, i, 100);
}

static const struct {
    const char *name;
    struct part part;
    const char *expected;
} wholes[] = {
    {"header cut", {"Code", BYTES("\0\0\0\x10\0\0")}, "a header of 16 bytes"},
    {"header too short", {"Code", BYTES("\0\0\0\x04\0\0\0\0\x03")}, "a header of 4 bytes"},
    {"another format", {"Code", BYTES("\0\0\0\x10\0\0\0\x01\0\0\0\x9f\0\0\0\x01\0\0\0\0\x03")}, "instruction format 1"},
    {"a later OTP", {"Code", BYTES("\0\0\0\x10\0\0\0\0\0\0\0\xc8\0\0\0\x01\0\0\0\0\x03")}, "newer OTP"},
    {"labels without code",
     {"Code", BYTES("\0\0\0\x10\0\0\0\0\0\0\0\x9f\xff\xff\0\x01\0\0\0\0\x03")},
     "labels in 1 bytes"},
    {"functions without code",
     {"Code", BYTES("\0\0\0\x10\0\0\0\0\0\0\0\x9f\0\0\0\x01\0\0\xff\0\x03")},
     "functions in 1 bytes"},
    {"no end",
     {"Code", BYTES(CODE_HEADER FUNCTION_START "\x13")},
     "instruction 5 (?): chunk Code, byte 29: the code has no end"},
    {"cut in an operand", {"Code", BYTES(CODE_HEADER FUNCTION_START "\x40\x03")}, "instruction 4 (move)"},
    {"outside of functions",
     {"Code", BYTES(CODE_HEADER "\x13" FUNCTION_START FUNCTION_END)},
     "outside of any function"},
    {"no entry label",
     {"Code", BYTES(CODE_HEADER "\x01\x10\x02\x12\x22\x00\x13\x01\x20\x03")},
     "without an entry label"},
    {"another module's function",
     {"Code", BYTES(CODE_HEADER "\x01\x10\x02\x22\x22\x00\x01\x20\x13\x03")},
     "another module"},
    {"fewer functions",
     {"Code", BYTES("\0\0\0\x10\0\0\0\0\0\0\0\xb8\0\0\0\x04\0\0\0\x02" FUNCTION_START FUNCTION_END "\0\0\0\0\0\0")},
     "too many"},
    {"larger header",
     {"Code", BYTES("\0\0\0\x14\0\0\0\0\0\0\0\xb8\0\0\0\x04\0\0\0\x01more" FUNCTION_START FUNCTION_END)},
     NULL},
};

static void test_whole_chunk(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(wholes); i++) expect(wholes[i].name, &wholes[i].part, wholes[i].expected);
}

/* f/0 and g/1; the second jumps to a label of the first. */
static void test_jump_to_another_function(void **state) {
    (void)state;
    expect("two functions",
           &(struct part){"Code", BYTES("\0\0\0\x10\0\0\0\0\0\0\0\xb8\0\0\0\x05\0\0\0\x02" FUNCTION_START
                                        "\x13\x01\x30\x02\x12\x62\x10\x01\x40\x3d\x35\x03")},
           NULL);
    expect("a jump between them",
           &(struct part){"Code", BYTES("\0\0\0\x10\0\0\0\0\0\0\0\xb8\0\0\0\x05\0\0\0\x02" FUNCTION_START
                                        "\x13\x01\x30\x02\x12\x62\x10\x01\x40\x3d\x15\x03")},
           "a jump to label 1 of another function");
}

static void expect_generation(size_t returns) {
    CLEANUP_BUF struct buf code = BUF_INIT, file = BUF_INIT;
    struct part parts[ARRAY_SIZE(minimal_parts)];
    memcpy(parts, minimal_parts, sizeof parts);
    code_with(&code, BYTES("\xb5\x12\x20\x03\x13\x17\x20\x10\x03"), returns);
    parts[1] = (struct part){"Code", (const char *)code.data, code.size};
    parts[6] = (struct part){"Xlit", BYTES("")};
    build(&file, parts, NULL);
    struct beam_options options = beam_default_options;
    struct error error;
    options.otp = 26;
    assert_null(complaint(file.data, file.size, &options, &error));
    options.otp = 25;
    assert_non_null(strstr(complaint(file.data, file.size, &options, &error),
                           "(update_record): chunk Code, byte 28: opcode 181 needs OTP 26"));
    CLEANUP_BEAM struct beam *beam = NULL;
    assert_int_equal(beam_read(file.data, file.size, &beam_default_options, &beam, &error), 0);
    assert_int_equal(beam_min_otp(beam), 26);
}

static void test_generation(void **state) {
    (void)state;
    expect_generation(0);
    expect_generation(100);
}

/* Reading an instruction takes the list's length from there without another look. */
static void test_lists_have_a_length(void **state) {
    (void)state;
    unsigned lists = 0;
    for (unsigned number = 0; number <= MAX_OPCODE; number++) {
        const struct opcode *opcode = &opcodes[number];
        if (!opcode->list) continue;
        lists++;
        assert_in_range(opcode->operand_count, 1, MAX_OPERANDS);
        assert_int_equal(opcode->operands[opcode->operand_count - 1], ROLE_LIST);
    }
    assert_in_range(lists, 1, MAX_OPCODE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_bodies_at_the_end_of_the_file),
        cmocka_unit_test(test_bodies_far_from_the_end),
        cmocka_unit_test(test_whole_chunk),
        cmocka_unit_test(test_jump_to_another_function),
        cmocka_unit_test(test_generation),
        cmocka_unit_test(test_lists_have_a_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
