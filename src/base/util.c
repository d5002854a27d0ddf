/* Helpers for strings, numbers with units, escaped text, descriptors, and memory without which the daemon ends. */
#include "base/util.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/data/buf.h"

int fd_close(int fd) {
    if (fd >= 0) {
        int saved = errno;
        close(fd);
        errno = saved;
    }
    return -1;
}

void *zeroed_or_abort(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory) abort();
    return memory;
}

bool string_equal(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool string_starts(const char *string, const char *prefix) {
    return strncmp(string, prefix, strlen(prefix)) == 0;
}

bool string_ends(const char *string, const char *suffix) {
    size_t length = strlen(string);
    size_t suffix_length = strlen(suffix);
    return length >= suffix_length && strcmp(string + length - suffix_length, suffix) == 0;
}

char *string_trim(char *text) {
    static const char blank[] = " \t\r\n";
    text += strspn(text, blank);
    for (size_t length = strlen(text); length > 0 && strchr(blank, text[length - 1]); length--) text[length - 1] = '\0';
    return text;
}

int string_format(char *ret, size_t size, struct error *reterr, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(ret, size, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= size)
        return error_set(reterr, E_INVALID, "'%.60s…' is longer than %zu bytes", ret, size - 1);
    return 0;
}

char *string_print(const char *format, ...) {
    struct buf buf = BUF_INIT;
    va_list arguments;
    va_start(arguments, format);
    buf_vprintf(&buf, format, arguments);
    va_end(arguments);
    return buf_take_string(&buf);
}

/* Digits up to the first other character, which *ret_rest points at. */
static bool parse_digits(const char *text, uint64_t *ret, const char **ret_rest) {
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    if (at == text) return false;
    *ret = value;
    *ret_rest = at;
    return true;
}

bool parse_u64(const char *text, uint64_t *ret) {
    uint64_t value;
    const char *rest;
    if (!parse_digits(text, &value, &rest) || *rest) return false;
    *ret = value;
    return true;
}

struct unit {
    const char *name;
    uint64_t factor;
};

static bool parse_with_unit(const char *text, const struct unit *units, size_t count, uint64_t *ret) {
    uint64_t value;
    const char *rest;
    if (!parse_digits(text, &value, &rest)) return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(rest, units[i].name) == 0) {
            if (__builtin_mul_overflow(value, units[i].factor, &value)) return false;
            *ret = value;
            return true;
        }
    return false;
}

bool parse_size(const char *text, uint64_t *ret_bytes) {
    static const struct unit units[] = {
        {"", 1},           {"B", 1},
        {"K", 1ULL << 10}, {"KiB", 1ULL << 10},
        {"M", 1ULL << 20}, {"MiB", 1ULL << 20},
        {"G", 1ULL << 30}, {"GiB", 1ULL << 30},
        {"T", 1ULL << 40},
    };
    return parse_with_unit(text, units, ARRAY_SIZE(units), ret_bytes);
}

bool parse_duration(const char *text, uint64_t *ret_ms) {
    static const struct unit units[] = {
        {"ms", 1}, {"s", 1000}, {"m", 60000}, {"min", 60000}, {"h", 3600000}, {"d", 86400000},
    };
    return parse_with_unit(text, units, ARRAY_SIZE(units), ret_ms);
}

bool parse_percent(const char *text, uint64_t *ret_percent) {
    char digits[24];
    size_t size = strlen(text);
    if (size > 0 && text[size - 1] == '%') size--;
    if (size >= sizeof digits) return false;
    memcpy(digits, text, size);
    digits[size] = '\0';
    return parse_u64(digits, ret_percent);
}

struct printed_unit {
    const char *name;
    uint64_t factor;
};

/* Largest first; the last divides everything. */
static void print_quantity(uint64_t value, const struct printed_unit *unit, char ret[QUANTITY_BYTES]) {
    while (unit->factor > 1 && (value == 0 || value % unit->factor != 0)) unit++;
    snprintf(ret, QUANTITY_BYTES, "%llu%s", (unsigned long long)(value / unit->factor), unit->name);
}

void count_to_text(uint64_t count, char ret[QUANTITY_BYTES]) {
    snprintf(ret, QUANTITY_BYTES, "%llu", (unsigned long long)count);
}

void size_to_text(uint64_t bytes, char ret[QUANTITY_BYTES]) {
    static const struct printed_unit units[] = {
        {"T", UINT64_C(1) << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"", 1}};
    print_quantity(bytes, units, ret);
}

void duration_to_text(uint64_t duration_ms, char ret[QUANTITY_BYTES]) {
    static const struct printed_unit units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    print_quantity(duration_ms, units, ret);
}

void percent_to_text(uint64_t percent, char ret[QUANTITY_BYTES]) {
    snprintf(ret, QUANTITY_BYTES, "%llu%%", (unsigned long long)percent);
}

static const char hex_digits[] = "0123456789abcdef";

void hex_encode(const uint8_t *data, size_t size, char *ret) {
    for (size_t i = 0; i < size; i++) {
        ret[2 * i] = hex_digits[data[i] >> 4];
        ret[2 * i + 1] = hex_digits[data[i] & 15];
    }
    ret[2 * size] = '\0';
}

static bool is_printable(uint32_t code) {
    return code >= 0x20 && (code < 0x7F || code >= 0xA0);
}

static void append_escaped(struct buf *buf, const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; i++) {
        const char text[] = {'\\', 'x', hex_digits[data[i] >> 4], hex_digits[data[i] & 15]};
        buf_append(buf, text, sizeof text);
    }
}

/* Strangers choose the bytes, so the worst ones must not be slow: plain text goes over in long pieces, and the rest
   without the cost of formatting. */
void escape_text(struct buf *buf, const char *text, size_t size) {
    const uint8_t *data = (const uint8_t *)text;
    size_t plain = 0; /* where what is taken as it is begins */
    for (size_t at = 0; at < size;) {
        uint32_t code = data[at];
        size_t length = code < 0x80 ? 1 : utf8_decode(data + at, size - at, &code);
        bool is_plain = length > 0 && is_printable(code);
        bool is_quoted = is_plain && (code == '"' || code == '\\');
        if (!is_plain || is_quoted) {
            buf_append(buf, data + plain, at - plain);
            plain = at;
        }
        if (is_quoted) buf_append_byte(buf, '\\');
        if (length == 0) length = 1;
        if (!is_plain) {
            append_escaped(buf, data + at, length);
            plain = at + length;
        }
        at += length;
    }
    buf_append(buf, data + plain, size - plain);
}
