/* Reads the types of registers that the compiler gives to the JIT. */
#include "beam/beam_internal.h"

enum { FIXED_TYPE_BYTES = 18, BOUND_BYTES = 8, UNIT_BYTES = 1 };

/* The encoding of a type in each version: a set of kinds in 16 bits, whose first all-ones word means "any", and what
   follows. */
struct type_form {
    uint32_t version;
    uint16_t any;
    uint16_t numbers; /* kinds that may have bounds */
    uint16_t bitstring;
    uint16_t lower, upper, unit; /* flags for what follows; 0: the encoding has a fixed size */
};

static const struct type_form forms[] = {
    {.version = 1, .any = 0x1fff},
    {.version = 2,
     .any = 0x1fff,
     .numbers = 1 << 4 | 1 << 6,
     .bitstring = 1 << 1,
     .lower = 1 << 13,
     .upper = 1 << 14,
     .unit = 1 << 15},
    {.version = 3,
     .any = 0x0fff,
     .numbers = 1 << 3 | 1 << 5,
     .bitstring = 1 << 1,
     .lower = 1 << 12,
     .upper = 1 << 13,
     .unit = 1 << 14},
    {.version = 4,
     .any = 0x1fff,
     .numbers = 1 << 3 | 1 << 5,
     .bitstring = 1 << 1,
     .lower = 1 << 13,
     .upper = 1 << 14,
     .unit = 1 << 15},
};

static const struct type_form *find_form(uint32_t version) {
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
        if (forms[i].version == version) return &forms[i];
    return NULL;
}

static size_t extra_bytes(const struct type_form *form, uint16_t type) {
    if (!form->unit) return FIXED_TYPE_BYTES - 2;
    return (type & form->lower ? BOUND_BYTES : 0u) + (type & form->upper ? BOUND_BYTES : 0u) +
           (type & form->unit ? UNIT_BYTES : 0u);
}

static int read_type(struct cursor *cursor, const struct type_form *form, uint32_t number) {
    uint16_t type = 0;
    int result = cursor_u16(cursor, &type);
    if (result < 0) return result;
    uint16_t bounds = form->lower | form->upper;
    if (type == 0) return cursor_fail(cursor, "type %u is none", number);
    if (type & ~(form->any | bounds | form->unit)) return cursor_fail(cursor, "type %u is unknown", number);
    if ((type & bounds && !(type & form->numbers)) || (type & form->unit && !(type & form->bitstring)))
        return cursor_fail(cursor, "type %u has bounds that its kind can't have", number);
    if (number == 0 && type != form->any) return cursor_fail(cursor, "the first type is not 'any'");
    return cursor_skip(cursor, extra_bytes(form, type));
}

int read_types(struct beam *beam, struct error *reterr) {
    if (!beam->chunks[CHUNK_TYPES].data) return 0;
    struct cursor cursor = chunk_cursor(beam, CHUNK_TYPES, reterr);
    uint32_t version = 0, count = 0;
    int result = cursor_u32(&cursor, &version);
    const struct type_form *form = find_form(version);
    if (result < 0 || !form) return result; /* a loader ignores types of an unknown version */
    result = cursor_count(&cursor, 2, &count);
    if (result == 0 && count == 0) return cursor_fail(&cursor, "no type");
    for (uint32_t i = 0; result == 0 && i < count; i++) result = read_type(&cursor, form, i);
    if (result < 0) return result;
    beam->has_types = true;
    beam->type_count = count;
    return cursor_end(&cursor);
}
