/* Reads the definitions of native records, which OTP 29 brought. */
#include "beam/code/code.h"

enum { RECORDS_VERSION = 0, OP_CALL_LAST = 5, RECORD_LEAST_BYTES = 5 };

/* [] is written as atom 0, which names nothing. */
static int read_atom(const struct beam *beam, struct cursor *cursor, operand_t *ret) {
    operand_t operand = 0;
    int result = operand_read(beam, cursor, &operand);
    if (result < 0) return result;
    if (operand_form(operand) != FORM_ATOM || operand_value(operand) == 0)
        return cursor_fail(cursor, "a name that is no atom");
    *ret = operand;
    return 0;
}

static int read_list_size(const struct beam *beam, struct cursor *cursor, uint64_t *ret) {
    operand_t operand = 0;
    int result = operand_read(beam, cursor, &operand);
    if (result < 0) return result;
    if (operand_form(operand) != FORM_LIST) return cursor_fail(cursor, "no list of fields");
    *ret = operand_value(operand);
    return 0;
}

static bool is_constant(operand_t operand) {
    enum operand_form form = operand_form(operand);
    return form == FORM_INTEGER || form == FORM_BIG || form == FORM_ATOM || form == FORM_LITERAL;
}

/* A name and its value when none is given; a plain number stands for no such value. */
static int read_field(const struct beam *beam, struct cursor *cursor) {
    operand_t name, value = 0;
    int result = read_atom(beam, cursor, &name);
    if (result == 0) result = operand_read(beam, cursor, &value);
    if (result < 0 || is_constant(value) || operand_form(value) == FORM_UNSIGNED) return result;
    return cursor_fail(cursor, "a field's value that is none");
}

static bool is_boolean(const struct beam *beam, operand_t atom) {
    struct beam_text text = beam->atoms[operand_value(atom)];
    return beam_text_is(text, "true") || beam_text_is(text, "false");
}

/* The compiler writes a definition as an instruction with three operands: the name, whether it is exported, and the
   list of fields. */
static int read_record(const struct beam *beam, struct cursor *cursor, uint64_t *fields_left) {
    operand_t name, is_exported;
    uint64_t size = 0;
    if (cursor_left(cursor) == 0 || *cursor->at++ != OP_CALL_LAST) return cursor_fail(cursor, "no definition");
    int result = read_atom(beam, cursor, &name);
    if (result == 0) result = read_atom(beam, cursor, &is_exported);
    if (result == 0 && !is_boolean(beam, is_exported)) return cursor_fail(cursor, "neither exported nor not");
    if (result == 0) result = read_list_size(beam, cursor, &size);
    if (result < 0) return result;
    if (size % 2 || size / 2 > *fields_left) return cursor_fail(cursor, "a list of %ju", (uintmax_t)size);
    *fields_left -= size / 2;
    for (uint64_t i = 0; result == 0 && i < size / 2; i++) result = read_field(beam, cursor);
    return result;
}

int read_records(struct beam *beam, struct error *reterr) {
    if (!beam->chunks[CHUNK_RECORDS].data) return 0;
    struct cursor cursor = chunk_cursor(beam, CHUNK_RECORDS, reterr);
    uint32_t version = 0, records = 0, fields = 0;
    int result = cursor_u32(&cursor, &version);
    if (result == 0 && version != RECORDS_VERSION) return cursor_too_new(&cursor, "version %u", version);
    if (result == 0) result = cursor_u32(&cursor, &records);
    if (result == 0) result = cursor_u32(&cursor, &fields);
    if (result == 0 && records > cursor_left(&cursor) / RECORD_LEAST_BYTES)
        return cursor_fail(&cursor, "%u records in %zu bytes", records, cursor_left(&cursor));
    uint64_t fields_left = fields;
    for (uint32_t i = 0; result == 0 && i < records; i++) result = read_record(beam, &cursor, &fields_left);
    if (result == 0 && fields_left > 0) return cursor_fail(&cursor, "%u fields are announced, too many", fields);
    return result < 0 ? result : cursor_end(&cursor);
}
