/* Prints terms as text, bounded in length: the parts that both languages share. */
#include <inttypes.h>
#include <string.h>

#include "term/term_internal.h"

bool printer_is_full(const struct printer *printer) {
    return printer->out->failed || printer->out->size > printer->end;
}

void print_text(struct printer *printer, const char *text) {
    buf_append_string(printer->out, text);
}

void print_bytes(struct printer *printer, const void *data, size_t size) {
    buf_append(printer->out, data, size);
}

void print_code_point(struct printer *printer, uint32_t code) {
    char text[UTF8_MAX_BYTES];
    buf_append(printer->out, text, utf8_encode(code, text));
}

void print_number(struct printer *printer, int64_t number) {
    buf_printf(printer->out, "%" PRId64, number);
}

void print_big(struct printer *printer, const struct term *big, const char *hex_prefix) {
    term_append_big(printer->out, big, hex_prefix, printer->end);
}

void print_float(struct printer *printer, double number) {
    char text[FLOAT_TEXT_BYTES];
    term_format_float(number, text);
    print_text(printer, text);
}

void print_identifier(struct printer *printer, const char *name, const struct term *term) {
    const struct term_identifier *identifier = term->identifier;
    buf_printf(printer->out, "%s<0", name);
    for (unsigned i = identifier->word_count; i > 0; i--) buf_printf(printer->out, ".%u", identifier->words[i - 1]);
    if (term->type != TERM_REFERENCE) buf_printf(printer->out, ".%" PRIu64, identifier->id);
    if (term->type == TERM_PID) buf_printf(printer->out, ".%u", identifier->serial);
    print_text(printer, ">");
}

void print_bits(struct printer *printer, const struct term *term, const char *separator, const char *size_open,
                const char *size_close) {
    size_t size = term->binary.size;
    unsigned last_bits = term->binary.last_bits;
    for (size_t i = 0; i < size && !printer_is_full(printer); i++) {
        bool partial = last_bits < 8 && i + 1 == size;
        if (i > 0) print_text(printer, separator);
        print_number(printer, partial ? term->binary.data[i] >> (8 - last_bits) : term->binary.data[i]);
        if (partial) buf_printf(printer->out, "%s%u%s", size_open, last_bits, size_close);
    }
}

bool is_visible(uint32_t code) {
    return (code >= 0x20 && code <= 0x7E) || (code >= 0xA0 && code <= 0xD7FF) || (code >= 0xE000 && code <= 0xFFFD) ||
           (code >= 0x10000 && code <= 0x10FFFF);
}

bool is_named_control(uint32_t code) {
    return (code >= '\b' && code <= '\r') || code == 27;
}

bool bytes_are_text(const uint8_t *data, size_t size, bool (*takes)(uint32_t code)) {
    for (size_t at = 0; at < size;) {
        uint32_t code;
        size_t length = utf8_decode(data + at, size - at, &code);
        if (length == 0 || !takes(code)) return false;
        at += length;
    }
    return true;
}

void term_print(struct buf *buf, const struct term *term, enum term_language language, size_t max_bytes) {
    size_t start = buf->size;
    struct printer printer = {.out = buf, .end = max_bytes > SIZE_MAX - start ? SIZE_MAX : start + max_bytes};
    if (language == TERM_ELIXIR)
        print_elixir(&printer, term);
    else
        print_erlang(&printer, term);
    if (buf->failed || buf->size <= printer.end) return;
    buf->size = start + utf8_cut(buf->data + start, buf->size - start, max_bytes);
    buf_append_string(buf, "…");
}
