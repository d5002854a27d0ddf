/* Prints JSON values. Every answer is printed here, so text without escapes is copied as a whole, not by character. */
#include <string.h>

#include "term/term.h"

enum { REAL_TEXT_BYTES = 64 };

/* The character behind the backslash; 0: no escape is needed. */
static const char escapes[256] = {
    [0x00 ... 0x07] = 'u', ['\b'] = 'b', ['\t'] = 't',          ['\n'] = 'n', [0x0b] = 'u',
    ['\f'] = 'f',          ['\r'] = 'r', [0x0e ... 0x1f] = 'u', ['"'] = '"',  ['\\'] = '\\',
};

static void write_escape(char character, char escape, struct buf *to) {
    static const char hex[] = "0123456789ABCDEF";
    const char text[] = {'\\', escape, '0', '0', hex[(uint8_t)character >> 4], hex[character & 15]};
    buf_append(to, text, escape == 'u' ? sizeof text : 2);
}

void term_json_write_text(const char *text, size_t size, struct buf *to) {
    size_t copied = 0;
    buf_append_byte(to, '"');
    for (size_t i = 0; i < size; i++) {
        char escape = escapes[(uint8_t)text[i]];
        if (!escape) continue;
        if (i > copied) buf_append(to, text + copied, i - copied);
        write_escape(text[i], escape, to);
        copied = i + 1;
    }
    buf_append(to, text + copied, size - copied);
    buf_append_byte(to, '"');
}

void term_json_write_integer(json_int_t value, struct buf *to) {
    if (value < 0) buf_append_byte(to, '-');
    buf_append_decimal(to, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

static void write_real(const json_t *value, struct buf *to) {
    char text[REAL_TEXT_BYTES];
    size_t size = json_dumpb(value, text, sizeof text, JSON_ENCODE_ANY);
    if (size == 0 || size > sizeof text) to->failed = true; /* not a number */
    buf_append(to, text, to->failed ? 0 : size);
}

static void write_array(const json_t *array, struct buf *to) {
    size_t i;
    json_t *value;
    buf_append_byte(to, '[');
    json_array_foreach(array, i, value) {
        if (i > 0) buf_append_byte(to, ',');
        term_json_write(value, to);
    }
    buf_append_byte(to, ']');
}

static void write_object(const json_t *object, struct buf *to) {
    const char *name;
    size_t size;
    json_t *value;
    bool is_first = true;
    buf_append_byte(to, '{');
    json_object_keylen_foreach((json_t *)object, name, size, value) {
        if (!is_first) buf_append_byte(to, ',');
        is_first = false;
        term_json_write_text(name, size, to);
        buf_append_byte(to, ':');
        term_json_write(value, to);
    }
    buf_append_byte(to, '}');
}

void term_json_write(const json_t *value, struct buf *to) {
    if (!value) { /* the caller had no memory for it */
        to->failed = true;
        return;
    }
    switch (json_typeof(value)) {
    case JSON_OBJECT: write_object(value, to); break;
    case JSON_ARRAY: write_array(value, to); break;
    case JSON_STRING: term_json_write_text(json_string_value(value), json_string_length(value), to); break;
    case JSON_INTEGER: term_json_write_integer(json_integer_value(value), to); break;
    case JSON_REAL: write_real(value, to); break;
    case JSON_TRUE: buf_append(to, "true", 4); break;
    case JSON_FALSE: buf_append(to, "false", 5); break;
    case JSON_NULL: buf_append(to, "null", 4); break;
    }
}
