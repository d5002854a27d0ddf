#include "beam/common_checks.h"
#include "beam/instruction.h"

enum {
    U = ROLE_NUMBER,
    N = ROLE_REGISTERS,
    T = ROLE_WORDS,
    E = ROLE_IMPORT,
    K = ROLE_LAMBDA,
    A = ROLE_ATOM,
    F = ROLE_JUMP,
    J = ROLE_FAILURE,
    C = ROLE_FUNCTION,
    Y = ROLE_SLOT,
    D = ROLE_REGISTER,
    S = ROLE_SOURCE,
    V = ROLE_SOURCE_OR_NUMBER,
    L = ROLE_FLOAT,
};

static const struct list_form list_values = {.period = 1, .elements = {S}};
static const struct list_form list_slots = {.period = 1, .elements = {Y}};
static const struct list_form list_value_labels = {.period = 2, .elements = {ROLE_CONSTANT, F}};
static const struct list_form list_arity_labels = {.period = 2, .elements = {U, F}};
static const struct list_form list_pairs = {.period = 2, .elements = {S, S}};
static const struct list_form list_key_registers = {.period = 2, .elements = {S, D}};
static const struct list_form list_updates = {.period = 2, .elements = {U, S}};
static const struct list_form list_segments = {
    .period = 6, .elements = {A, U, U, ROLE_FLAGS, V, V}, .check = check_binary_segment};
static const struct list_form list_match_commands = {.read = read_match_commands};

#define COUNT_OF(...) sizeof((uint8_t[]){__VA_ARGS__})
#define NO_OPERANDS .operand_count = 0
#define OPERANDS(...) .operand_count = COUNT_OF(__VA_ARGS__), .operands = {__VA_ARGS__}
#define OBSOLETE .since = OPCODE_NEVER

const struct opcode opcodes[MAX_OPCODE + 1] = {
    [0] = {"?", OBSOLETE},
    [1] = {"label", OPERANDS(U), .check = check_label},
    [2] = {"func_info", OPERANDS(A, A, N), .check = check_func_info},
    [3] = {"int_code_end", NO_OPERANDS, .check = check_code_end},
    [4] = {"call", OPERANDS(N, C), .check = check_call},
    [5] = {"call_last", OPERANDS(N, C, N), .check = check_call},
    [6] = {"call_only", OPERANDS(N, C), .check = check_call},
    [7] = {"call_ext", OPERANDS(N, E), .check = check_call_external},
    [8] = {"call_ext_last", OPERANDS(N, E, N), .check = check_call_external},
    [9] = {"bif0", OPERANDS(E, D), .check = check_bif},
    [10] = {"bif1", OPERANDS(J, E, S, D), .check = check_bif},
    [11] = {"bif2", OPERANDS(J, E, S, S, D), .check = check_bif},
    [12] = {"allocate", OPERANDS(N, N)},
    [13] = {"allocate_heap", OPERANDS(N, T, N)},
    [14] = {"allocate_zero", OPERANDS(N, N)},
    [15] = {"allocate_heap_zero", OPERANDS(N, T, N)},
    [16] = {"test_heap", OPERANDS(T, N)},
    [17] = {"init", OPERANDS(Y)},
    [18] = {"deallocate", OPERANDS(N)},
    [19] = {"return", NO_OPERANDS},
    [20] = {"send", NO_OPERANDS},
    [21] = {"remove_message", NO_OPERANDS},
    [22] = {"timeout", NO_OPERANDS},
    [23] = {"loop_rec", OPERANDS(F, D)},
    [24] = {"loop_rec_end", OPERANDS(F)},
    [25] = {"wait", OPERANDS(F)},
    [26] = {"wait_timeout", OPERANDS(F, S)},
    [27] = {"m_plus", OBSOLETE},
    [28] = {"m_minus", OBSOLETE},
    [29] = {"m_times", OBSOLETE},
    [30] = {"m_div", OBSOLETE},
    [31] = {"int_div", OBSOLETE},
    [32] = {"int_rem", OBSOLETE},
    [33] = {"int_band", OBSOLETE},
    [34] = {"int_bor", OBSOLETE},
    [35] = {"int_bxor", OBSOLETE},
    [36] = {"int_bsl", OBSOLETE},
    [37] = {"int_bsr", OBSOLETE},
    [38] = {"int_bnot", OBSOLETE},
    [39] = {"is_lt", OPERANDS(F, S, S)},
    [40] = {"is_ge", OPERANDS(F, S, S)},
    [41] = {"is_eq", OPERANDS(F, S, S)},
    [42] = {"is_ne", OPERANDS(F, S, S)},
    [43] = {"is_eq_exact", OPERANDS(F, S, S)},
    [44] = {"is_ne_exact", OPERANDS(F, S, S)},
    [45] = {"is_integer", OPERANDS(F, S)},
    [46] = {"is_float", OPERANDS(F, S)},
    [47] = {"is_number", OPERANDS(F, S)},
    [48] = {"is_atom", OPERANDS(F, S)},
    [49] = {"is_pid", OPERANDS(F, S)},
    [50] = {"is_reference", OPERANDS(F, S)},
    [51] = {"is_port", OPERANDS(F, S)},
    [52] = {"is_nil", OPERANDS(F, S)},
    [53] = {"is_binary", OPERANDS(F, S)},
    [54] = {"is_constant", OBSOLETE},
    [55] = {"is_list", OPERANDS(F, S)},
    [56] = {"is_nonempty_list", OPERANDS(F, S)},
    [57] = {"is_tuple", OPERANDS(F, S)},
    [58] = {"test_arity", OPERANDS(F, S, U)},
    [59] = {"select_val", OPERANDS(S, F, ROLE_LIST), .list = &list_value_labels},
    [60] = {"select_tuple_arity", OPERANDS(S, F, ROLE_LIST), .list = &list_arity_labels},
    [61] = {"jump", OPERANDS(F)},
    [62] = {"catch", OPERANDS(Y, F)},
    [63] = {"catch_end", OPERANDS(Y)},
    [64] = {"move", OPERANDS(S, D)},
    [65] = {"get_list", OPERANDS(S, D, D)},
    [66] = {"get_tuple_element", OPERANDS(S, U, D)},
    [67] = {"set_tuple_element", OPERANDS(S, D, U)},
    [68] = {"put_string", OBSOLETE},
    [69] = {"put_list", OPERANDS(S, S, D)},
    [70] = {"put_tuple", OPERANDS(U, D)},
    [71] = {"put", OPERANDS(S)},
    [72] = {"badmatch", OPERANDS(S)},
    [73] = {"if_end", NO_OPERANDS},
    [74] = {"case_end", OPERANDS(S)},
    [75] = {"call_fun", OPERANDS(N)},
    [76] = {"make_fun", OBSOLETE},
    [77] = {"is_function", OPERANDS(F, S)},
    [78] = {"call_ext_only", OPERANDS(N, E), .check = check_call_external},
    [79] = {"bs_start_match", OBSOLETE},
    [80] = {"bs_get_integer", OBSOLETE},
    [81] = {"bs_get_float", OBSOLETE},
    [82] = {"bs_get_binary", OBSOLETE},
    [83] = {"bs_skip_bits", OBSOLETE},
    [84] = {"bs_test_tail", OBSOLETE},
    [85] = {"bs_save", OBSOLETE},
    [86] = {"bs_restore", OBSOLETE},
    [87] = {"bs_init", OBSOLETE},
    [88] = {"bs_final", OBSOLETE},
    [89] = {"bs_put_integer", OPERANDS(J, S, U, U, S)},
    [90] = {"bs_put_binary", OPERANDS(J, S, U, U, S)},
    [91] = {"bs_put_float", OPERANDS(J, S, U, U, S)},
    [92] = {"bs_put_string", OPERANDS(U, U), .check = check_put_string},
    [93] = {"bs_need_buf", OBSOLETE},
    [94] = {"fclearerror", NO_OPERANDS},
    [95] = {"fcheckerror", OPERANDS(J)},
    [96] = {"fmove", OPERANDS(ROLE_SOURCE_OR_FLOAT, ROLE_REGISTER_OR_FLOAT)},
    [97] = {"fconv", OPERANDS(S, L)},
    [98] = {"fadd", OPERANDS(J, L, L, L)},
    [99] = {"fsub", OPERANDS(J, L, L, L)},
    [100] = {"fmul", OPERANDS(J, L, L, L)},
    [101] = {"fdiv", OPERANDS(J, L, L, L)},
    [102] = {"fnegate", OPERANDS(J, L, L)},
    [103] = {"make_fun2", OPERANDS(K)},
    [104] = {"try", OPERANDS(Y, F)},
    [105] = {"try_end", OPERANDS(Y)},
    [106] = {"try_case", OPERANDS(Y)},
    [107] = {"try_case_end", OPERANDS(S)},
    [108] = {"raise", OPERANDS(S, S)},
    [109] = {"bs_init2", OPERANDS(J, V, T, N, U, D)},
    [110] = {"bs_bits_to_bytes", OBSOLETE},
    [111] = {"bs_add", OPERANDS(J, S, S, U, D)},
    [112] = {"apply", OPERANDS(N)},
    [113] = {"apply_last", OPERANDS(N, N)},
    [114] = {"is_boolean", OPERANDS(F, S)},
    [115] = {"is_function2", OPERANDS(F, S, S)},
    [116] = {"bs_start_match2", OPERANDS(F, S, N, V, D)},
    [117] = {"bs_get_integer2", OPERANDS(F, D, N, S, U, U, D)},
    [118] = {"bs_get_float2", OPERANDS(F, D, N, S, U, U, D)},
    [119] = {"bs_get_binary2", OPERANDS(F, D, N, S, U, U, D)},
    [120] = {"bs_skip_bits2", OPERANDS(F, D, S, U, U)},
    [121] = {"bs_test_tail2", OPERANDS(F, D, U)},
    [122] = {"bs_save2", OPERANDS(D, ROLE_NUMBER_OR_ATOM)},
    [123] = {"bs_restore2", OPERANDS(D, ROLE_NUMBER_OR_ATOM)},
    [124] = {"gc_bif1", OPERANDS(J, N, E, S, D), .check = check_bif},
    [125] = {"gc_bif2", OPERANDS(J, N, E, S, S, D), .check = check_bif},
    [126] = {"bs_final2", OBSOLETE},
    [127] = {"bs_bits_to_bytes2", OBSOLETE},
    [128] = {"put_literal", OBSOLETE},
    [129] = {"is_bitstr", OPERANDS(F, S)},
    [130] = {"bs_context_to_binary", OPERANDS(D)},
    [131] = {"bs_test_unit", OPERANDS(F, D, U)},
    [132] = {"bs_match_string", OPERANDS(F, D, U, U), .check = check_match_string},
    [133] = {"bs_init_writable", NO_OPERANDS},
    [134] = {"bs_append", OPERANDS(J, S, T, N, U, S, U, D)},
    [135] = {"bs_private_append", OPERANDS(J, S, U, S, U, D)},
    [136] = {"trim", OPERANDS(N, N)},
    [137] = {"bs_init_bits", OPERANDS(J, V, T, N, U, D)},
    [138] = {"bs_get_utf8", OPERANDS(F, D, N, U, D)},
    [139] = {"bs_skip_utf8", OPERANDS(F, D, N, U)},
    [140] = {"bs_get_utf16", OPERANDS(F, D, N, U, D)},
    [141] = {"bs_skip_utf16", OPERANDS(F, D, N, U)},
    [142] = {"bs_get_utf32", OPERANDS(F, D, N, U, D)},
    [143] = {"bs_skip_utf32", OPERANDS(F, D, N, U)},
    [144] = {"bs_utf8_size", OPERANDS(J, S, D)},
    [145] = {"bs_put_utf8", OPERANDS(J, U, S)},
    [146] = {"bs_utf16_size", OPERANDS(J, S, D)},
    [147] = {"bs_put_utf16", OPERANDS(J, U, S)},
    [148] = {"bs_put_utf32", OPERANDS(J, U, S)},
    [149] = {"on_load", NO_OPERANDS, .check = check_on_load},
    [150] = {"recv_mark", OPERANDS(F)},
    [151] = {"recv_set", OPERANDS(F)},
    [152] = {"gc_bif3", OPERANDS(J, N, E, S, S, S, D), .check = check_bif},
    [153] = {"line", OPERANDS(ROLE_LINE), .check = check_line},
    [154] = {"put_map_assoc", OPERANDS(J, S, D, N, ROLE_LIST), .list = &list_pairs},
    [155] = {"put_map_exact", OPERANDS(J, S, D, N, ROLE_LIST), .list = &list_pairs},
    [156] = {"is_map", OPERANDS(F, S)},
    [157] = {"has_map_fields", OPERANDS(F, S, ROLE_LIST), .list = &list_values},
    [158] = {"get_map_elements", OPERANDS(F, S, ROLE_LIST), .list = &list_key_registers},
    [159] = {"is_tagged_tuple", OPERANDS(F, S, U, A)},
    [160] = {"build_stacktrace", NO_OPERANDS, .since = 21},
    [161] = {"raw_raise", NO_OPERANDS, .since = 21},
    [162] = {"get_hd", OPERANDS(S, D), .since = 21},
    [163] = {"get_tl", OPERANDS(S, D), .since = 21},
    [164] = {"put_tuple2", OPERANDS(D, ROLE_LIST), .list = &list_values, .since = 22},
    [165] = {"bs_get_tail", OPERANDS(D, D, N), .since = 22},
    [166] = {"bs_start_match3", OPERANDS(F, S, N, D), .since = 22},
    [167] = {"bs_get_position", OPERANDS(D, D, N), .since = 22},
    [168] = {"bs_set_position", OPERANDS(D, D), .since = 22},
    [169] = {"swap", OPERANDS(D, D), .since = 23},
    [170] = {"bs_start_match4", OPERANDS(ROLE_JUMP_OR_ATOM, N, S, D), .since = 23},
    [171] = {"make_fun3", OPERANDS(K, D, ROLE_LIST), .check = check_make_fun, .list = &list_values, .since = 24},
    [172] = {"init_yregs", OPERANDS(ROLE_LIST), .list = &list_slots, .since = 24},
    [173] = {"recv_marker_bind", OPERANDS(D, D), .since = 24},
    [174] = {"recv_marker_clear", OPERANDS(D), .since = 24},
    [175] = {"recv_marker_reserve", OPERANDS(D), .since = 24},
    [176] = {"recv_marker_use", OPERANDS(D), .since = 24},
    [177] = {"bs_create_bin", OPERANDS(J, T, N, U, D, ROLE_LIST), .list = &list_segments, .since = 25},
    [178] = {"call_fun2", OPERANDS(ROLE_LAMBDA_OR_ATOM, N, S), .since = 25},
    [179] = {"nif_start", NO_OPERANDS, .since = 25},
    [180] = {"badrecord", OPERANDS(S), .since = 25},
    [181] = {"update_record", OPERANDS(A, U, S, D, ROLE_LIST), .list = &list_updates, .since = 26},
    [182] = {"bs_match", OPERANDS(F, D, ROLE_LIST), .list = &list_match_commands, .since = 26},
    [183] = {"executable_line", OPERANDS(ROLE_LINE, U), .since = 27},
    [184] = {"debug_line", OPERANDS(A, ROLE_LINE, U, N), .since = 28},
};

/* The highest opcode that may come. */
static uint32_t opcode_limit(const struct beam *beam) {
    uint32_t limit = beam->max_opcode;
    while (limit > 0 && opcodes[limit].since > beam->options.otp) limit--;
    return limit;
}

/* Behind the last instruction that enough bytes follow. */
static const uint8_t *quick_end(const struct code *code, const uint8_t *at) {
    const uint8_t *end = code->cursor.end;
    ptrdiff_t missing = SHORT_INSTRUCTION_BYTES - (code->readable_end - end);
    if (missing <= 0) return end;
    return end - at > missing ? end - missing : at;
}

#define COMMON(number)                                                                                                 \
    case number: at = read_instruction(code, at, &opcodes[number]); break

/* The reader is compiled once for each of the opcodes that nineteen of twenty instructions have: what their operands
   may be is then in the code, and the processor learns for each how long they mostly are. */
const uint8_t *code_instructions(struct code *code, const uint8_t *at) {
    const uint8_t *end = quick_end(code, at);
    uint32_t limit = opcode_limit(code->beam), highest = OP_LABEL;
    while (at && at < end) {
        uint32_t number = *at;
        if (number > limit) return code_instruction_any(code, at);
        highest = number > highest ? number : highest;
        switch (number) {
            COMMON(1);
            COMMON(2);
            COMMON(4);
            COMMON(5);
            COMMON(6);
            COMMON(7);
            COMMON(8);
            COMMON(10);
            COMMON(11);
            COMMON(12);
            COMMON(13);
            COMMON(16);
            COMMON(18);
            COMMON(19);
            COMMON(39);
            COMMON(40);
            COMMON(43);
            COMMON(44);
            COMMON(52);
            COMMON(55);
            COMMON(56);
            COMMON(57);
            COMMON(58);
            COMMON(59);
            COMMON(60);
            COMMON(61);
            COMMON(64);
            COMMON(65);
            COMMON(66);
            COMMON(69);
            COMMON(72);
            COMMON(74);
            COMMON(78);
            COMMON(124);
            COMMON(125);
            COMMON(136);
            COMMON(153);
            COMMON(156);
            COMMON(158);
            COMMON(159);
            COMMON(163);
            COMMON(164);
            COMMON(169);
            COMMON(171);
            COMMON(172);
            COMMON(180);
        default: at = read_uncommon(code, at, &opcodes[number]);
        }
    }
    if (opcodes[highest].since > code->beam->min_otp) code->beam->min_otp = opcodes[highest].since;
    return at;
}
