/* bs_match has a small language of its own: a list in which atoms name commands and are followed by their operands. */
#include "beam/code.h"

enum { U = ROLE_NUMBER, N = ROLE_REGISTERS, D = ROLE_REGISTER, FLAGS = ROLE_FLAGS, MAX_COMMAND_OPERANDS = 5 };

static const struct command {
    const char *name;
    size_t operand_count;
    uint8_t operands[MAX_COMMAND_OPERANDS]; /* roles */
} commands[] = {
    {"ensure_at_least", 2, {U, U}},
    {"ensure_exactly", 1, {U}},
    {"integer", 5, {N, FLAGS, U, U, D}},
    {"binary", 5, {N, FLAGS, U, U, D}},
    {"skip", 1, {U}},
    {"get_tail", 3, {N, U, D}},
    {"=:=", 3, {ROLE_REGISTERS_OR_NIL, U, ROLE_NUMBER_OR_INTEGER}},
};

static const struct command *find_command(struct beam_text name) {
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        if (beam_text_is(name, commands[i].name)) return &commands[i];
    return NULL;
}

static int read_command(struct code *code, size_t *left) {
    static const uint8_t name_role = ROLE_ATOM;
    operand_t name, operands[MAX_COMMAND_OPERANDS];
    int result = code_operands(code, &name_role, 1, &name);
    if (result < 0) return result;
    const struct command *command = find_command(code->beam->atoms[operand_value(name)]);
    if (!command) return cursor_fail(&code->cursor, "an unknown command of bs_match");
    if (command->operand_count >= *left) return cursor_fail(&code->cursor, "command %s lacks operands", command->name);
    *left -= command->operand_count + 1;
    return code_operands(code, command->operands, command->operand_count, operands);
}

int read_match_commands(struct code *code, size_t count) {
    int result = 0;
    while (result == 0 && count > 0) result = read_command(code, &count);
    return result;
}
