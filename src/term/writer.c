/* Writes the external term format. */
#include <string.h>

#include "term/term_internal.h"

void term_put_version(struct buf *buf) {
    buf_append_byte(buf, TAG_VERSION);
}

static void put_tag_u32(struct buf *buf, enum tag tag, size_t value) {
    if (value > UINT32_MAX) buf->failed = true;
    buf_append_byte(buf, (uint8_t)tag);
    buf_append_u32(buf, (uint32_t)value);
}

static void put_big(struct buf *buf, const uint8_t *digits, size_t size, bool negative) {
    if (size <= UINT8_MAX) {
        buf_append_byte(buf, TAG_SMALL_BIG);
        buf_append_byte(buf, (uint8_t)size);
    } else {
        put_tag_u32(buf, TAG_LARGE_BIG, size);
    }
    buf_append_byte(buf, negative);
    buf_append(buf, digits, size);
}

static void put_magnitude(struct buf *buf, uint64_t magnitude, bool negative) {
    uint8_t digits[sizeof magnitude];
    size_t size = 0;
    for (; magnitude > 0; magnitude >>= 8) digits[size++] = (uint8_t)magnitude;
    put_big(buf, digits, size, negative);
}

void term_put_integer(struct buf *buf, int64_t value) {
    if (value >= 0 && value <= UINT8_MAX) {
        buf_append_byte(buf, TAG_SMALL_INTEGER);
        buf_append_byte(buf, (uint8_t)value);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
        put_tag_u32(buf, TAG_INTEGER, (uint32_t)value);
    } else {
        put_magnitude(buf, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
    }
}

void term_put_uint64(struct buf *buf, uint64_t value) {
    if (value <= INT64_MAX)
        term_put_integer(buf, (int64_t)value);
    else
        put_magnitude(buf, value, false);
}

void term_put_float(struct buf *buf, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    buf_append_byte(buf, TAG_NEW_FLOAT);
    buf_append_u64(buf, bits);
}

static void put_atom(struct buf *buf, const char *text, size_t length) {
    size_t characters = 0;
    for (size_t i = 0; i < length; i++) characters += ((uint8_t)text[i] & 0xC0) != 0x80;
    if (characters > ATOM_MAX_CHARACTERS) buf->failed = true;
    if (length <= UINT8_MAX) {
        buf_append_byte(buf, TAG_SMALL_ATOM_UTF8);
        buf_append_byte(buf, (uint8_t)length);
    } else {
        buf_append_byte(buf, TAG_ATOM_UTF8);
        buf_append_u16(buf, (uint16_t)length);
    }
    buf_append(buf, text, length);
}

void term_put_atom(struct buf *buf, const char *text) {
    put_atom(buf, text, strlen(text));
}

void term_put_bool(struct buf *buf, bool value) {
    term_put_atom(buf, value ? "true" : "false");
}

void term_put_binary(struct buf *buf, const void *data, size_t size) {
    put_tag_u32(buf, TAG_BINARY, size);
    buf_append(buf, data, size);
}

void term_put_string(struct buf *buf, const char *text) {
    term_put_binary(buf, text, strlen(text));
}

void term_put_tuple(struct buf *buf, size_t arity) {
    if (arity > UINT8_MAX) {
        put_tag_u32(buf, TAG_LARGE_TUPLE, arity);
        return;
    }
    buf_append_byte(buf, TAG_SMALL_TUPLE);
    buf_append_byte(buf, (uint8_t)arity);
}

void term_put_list(struct buf *buf, size_t count) {
    if (count > 0)
        put_tag_u32(buf, TAG_LIST, count);
    else
        term_put_nil(buf);
}

void term_put_nil(struct buf *buf) {
    buf_append_byte(buf, TAG_NIL);
}

void term_put_map(struct buf *buf, size_t pairs) {
    put_tag_u32(buf, TAG_MAP, pairs);
}

static void put_any(struct buf *buf, const struct term *term);

static void put_elements(struct buf *buf, const struct term *elements, size_t count) {
    for (size_t i = 0; i < count && !buf->failed; i++) put_any(buf, &elements[i]);
}

static bool is_byte(uint32_t code) {
    return code <= UINT8_MAX;
}

/* As the VM does, so that its terms are written back byte for byte. */
static bool put_as_string(struct buf *buf, const struct term *list) {
    if (list->items.count > UINT16_MAX || !list_is_text(list, is_byte)) return false;
    buf_append_byte(buf, TAG_STRING);
    buf_append_u16(buf, (uint16_t)list->items.count);
    for (size_t i = 0; i < list->items.count; i++) buf_append_byte(buf, (uint8_t)list->items.elements[i].integer);
    return true;
}

static void put_list(struct buf *buf, const struct term *list) {
    if (put_as_string(buf, list)) return;
    term_put_list(buf, list->items.count);
    put_elements(buf, list->items.elements, list->items.count);
    put_any(buf, list->items.tail);
}

static void put_bits(struct buf *buf, const struct term *term) {
    put_tag_u32(buf, TAG_BIT_BINARY, term->binary.size);
    buf_append_byte(buf, (uint8_t)term->binary.last_bits);
    buf_append(buf, term->binary.data, term->binary.size);
}

static void put_pid(struct buf *buf, const struct term_identifier *pid) {
    buf_append_byte(buf, TAG_NEW_PID);
    put_any(buf, pid->node);
    buf_append_u32(buf, (uint32_t)pid->id);
    buf_append_u32(buf, pid->serial);
    buf_append_u32(buf, pid->creation);
}

static void put_port(struct buf *buf, const struct term_identifier *port) {
    const uint64_t new_port_end = 1 << 28; /* understood by releases before 24 */
    bool wide = port->id >= new_port_end;
    buf_append_byte(buf, wide ? TAG_V4_PORT : TAG_NEW_PORT);
    put_any(buf, port->node);
    if (wide)
        buf_append_u64(buf, port->id);
    else
        buf_append_u32(buf, (uint32_t)port->id);
    buf_append_u32(buf, port->creation);
}

static void put_reference(struct buf *buf, const struct term_identifier *reference) {
    buf_append_byte(buf, TAG_NEWER_REFERENCE);
    buf_append_u16(buf, (uint16_t)reference->word_count);
    put_any(buf, reference->node);
    buf_append_u32(buf, reference->creation);
    for (unsigned i = 0; i < reference->word_count; i++) buf_append_u32(buf, reference->words[i]);
}

static void put_export(struct buf *buf, const struct term_fun *fun) {
    buf_append_byte(buf, TAG_EXPORT);
    put_any(buf, fun->module);
    put_any(buf, fun->function);
    term_put_integer(buf, fun->arity);
}

static void put_any(struct buf *buf, const struct term *term) {
    switch (term->type) {
    case TERM_INTEGER: term_put_integer(buf, term->integer); break;
    case TERM_BIG: put_big(buf, term->big.digits, term->big.size, term->big.negative); break;
    case TERM_FLOAT: term_put_float(buf, term->number); break;
    case TERM_ATOM: put_atom(buf, term->atom.text, term->atom.length); break;
    case TERM_BINARY: term_put_binary(buf, term->binary.data, term->binary.size); break;
    case TERM_BITSTRING: put_bits(buf, term); break;
    case TERM_NIL: term_put_nil(buf); break;
    case TERM_LIST: put_list(buf, term); break;
    case TERM_TUPLE:
        term_put_tuple(buf, term->items.count);
        put_elements(buf, term->items.elements, term->items.count);
        break;
    case TERM_MAP:
        term_put_map(buf, term->items.count);
        put_elements(buf, term->items.elements, 2 * term->items.count);
        break;
    case TERM_PID: put_pid(buf, term->identifier); break;
    case TERM_PORT: put_port(buf, term->identifier); break;
    case TERM_REFERENCE: put_reference(buf, term->identifier); break;
    case TERM_FUN: buf_append(buf, term->fun->raw, term->fun->raw_size); break;
    case TERM_EXPORT: put_export(buf, term->fun); break;
    case TERM_RECORD:
        put_tag_u32(buf, TAG_RECORD, term->items.count);
        buf_append_byte(buf, term->items.is_exported);
        put_elements(buf, term->items.elements, term_element_count(term));
        break;
    }
}

int term_put(struct buf *buf, const struct term *term, struct error *reterr) {
    put_any(buf, term);
    if (!buf->failed) return 0;
    if (buf->max) return error_set(reterr, E_TOO_LARGE, "a term does not fit %zu bytes", buf->max);
    return error_set(reterr, E_NO_MEMORY, "no memory to write a term");
}
