/* bs_match has its own small language: a list in which atoms name commands and are followed by their operands. */
#include "beam/code/code.h"

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

static const uint8_t *refuse(struct code *code, const uint8_t *at, const char *what) {
    code->cursor.at = at;
    code->failure = cursor_fail(&code->cursor, "%s of bs_match", what);
    return NULL;
}

static const uint8_t *read_command(struct code *code, const uint8_t *at, size_t *left) {
    operand_t name, operands[MAX_COMMAND_OPERANDS];
    at = code_operand_any(code, at, ROLE_ATOM, &name);
    if (!at) return NULL;
    const struct command *command = find_command(code->beam->atoms[operand_value(name)]);
    if (!command) return refuse(code, at, "an unknown command");
    if (command->operand_count >= *left) return refuse(code, at, "too few operands for a command");
    *left -= command->operand_count + 1;
    return code_operands_any(code, at, command->operands, command->operand_count, operands);
}

const uint8_t *read_match_commands(struct code *code, const uint8_t *at, size_t count) {
    while (at && count > 0) at = read_command(code, at, &count);
    return at;
}
