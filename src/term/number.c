/* Numbers as text: the shortest floats that read back equal, and large integers. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "term/term_internal.h"

enum { MAX_DIGITS = 17 }; /* enough for any double */

/* The digits of d.ddd × 10^exponent. */
struct decimal {
    char digits[MAX_DIGITS + 1];
    int count;
    int exponent;
};

static struct decimal round_to(double value, int digits) {
    char text[FLOAT_TEXT_BYTES];
    snprintf(text, sizeof text, "%.*e", digits - 1, value);
    struct decimal decimal = {0};
    /* Skips the decimal point, which depends on the locale. */
    for (const char *at = text; *at != 'e'; at++)
        if (*at >= '0' && *at <= '9') decimal.digits[decimal.count++] = *at;
    decimal.exponent = atoi(strchr(text, 'e') + 1);
    return decimal;
}

static bool reads_back(const struct decimal *decimal, double value) {
    char text[FLOAT_TEXT_BYTES];
    snprintf(text, sizeof text, "%se%d", decimal->digits, decimal->exponent - decimal->count + 1);
    return strtod(text, NULL) == value;
}

/* The next larger decimal with as many digits; false on overflow. */
static bool step_up(struct decimal *decimal) {
    for (int i = decimal->count - 1; i >= 0; i--) {
        if (decimal->digits[i] < '9') {
            decimal->digits[i]++;
            return true;
        }
        decimal->digits[i] = '0';
    }
    return false;
}

static bool try_digits(double value, int digits, struct decimal *ret) {
    struct decimal decimal = round_to(value, digits);
    if (!reads_back(&decimal, value)) {
        /* Above a power of two, neighbours are twice as far away as below: the next decimal may still read back
           equal. */
        int unused;
        if (frexp(value, &unused) != 0.5 || !step_up(&decimal) || !reads_back(&decimal, value)) return false;
    }
    *ret = decimal;
    return true;
}

static struct decimal shortest(double value) {
    struct decimal decimal = round_to(value, MAX_DIGITS);
    /* For a normal number, 15 digits show any shorter form. A subnormal one may need fewer. */
    int too_few = value < DBL_MIN ? 0 : DBL_DIG - 1, enough = MAX_DIGITS;
    while (enough - too_few > 1) {
        int middle = (too_few + enough) / 2;
        if (try_digits(value, middle, &decimal))
            enough = middle;
        else
            too_few = middle;
    }
    while (decimal.count > 1 && decimal.digits[decimal.count - 1] == '0') decimal.digits[--decimal.count] = '\0';
    return decimal;
}

enum { UNSIGNED_TEXT_BYTES = FLOAT_TEXT_BYTES - 1 };

static int scientific(const struct decimal *decimal, char *ret) {
    const char *rest = decimal->count > 1 ? decimal->digits + 1 : "0";
    return snprintf(ret, UNSIGNED_TEXT_BYTES, "%c.%se%d", decimal->digits[0], rest, decimal->exponent);
}

static int positional(const struct decimal *decimal, char *ret) {
    int whole = decimal->exponent + 1; /* digits before the point */
    if (whole <= 0) return snprintf(ret, UNSIGNED_TEXT_BYTES, "0.%.*s%s", -whole, "00000000", decimal->digits);
    if (whole >= decimal->count)
        return snprintf(ret, UNSIGNED_TEXT_BYTES, "%s%.*s.0", decimal->digits, whole - decimal->count,
                        "00000000000000000");
    return snprintf(ret, UNSIGNED_TEXT_BYTES, "%.*s.%s", whole, decimal->digits, decimal->digits + whole);
}

void term_format_float(double value, char ret[FLOAT_TEXT_BYTES]) {
    const double integers_end = 9007199254740992.0; /* 2^53: from here on, not every integer is a double */
    char *at = ret;
    if (signbit(value)) *at++ = '-';
    value = fabs(value);
    if (value == 0) {
        snprintf(at, UNSIGNED_TEXT_BYTES, "0.0");
        return;
    }
    struct decimal decimal = shortest(value);
    char longhand[UNSIGNED_TEXT_BYTES], exponential[UNSIGNED_TEXT_BYTES];
    int exponential_length = scientific(&decimal, exponential);
    bool short_enough = decimal.exponent > -8 && value < integers_end;
    bool plain = short_enough && positional(&decimal, longhand) <= exponential_length;
    snprintf(at, UNSIGNED_TEXT_BYTES, "%s", plain ? longhand : exponential);
}

__extension__ typedef unsigned __int128 wide;

enum { LIMB_DIGITS = 18, MAX_WORDS = DECIMAL_MAX_BYTES / sizeof(uint64_t) };

/* Divides the words, little endian, by 10^18; returns the remainder. */
static uint64_t divide_words(uint64_t *words, size_t count) {
    const uint64_t base = 1000000000000000000;
    uint64_t remainder = 0;
    for (size_t i = count; i > 0; i--) {
        wide value = (wide)remainder << 64 | words[i - 1];
        words[i - 1] = (uint64_t)(value / base);
        remainder = (uint64_t)(value % base);
    }
    return remainder;
}

static void append_decimal(struct buf *buf, const uint8_t *digits, size_t size) {
    uint64_t words[MAX_WORDS] = {0};
    uint64_t limbs[MAX_WORDS * 11 / 10]; /* a word holds 19.3 digits, a limb 18 */
    size_t count = (size + 7) / 8, limb_count = 0;
    for (size_t i = 0; i < size; i++) words[i / 8] |= (uint64_t)digits[i] << 8 * (i % 8);
    do {
        limbs[limb_count++] = divide_words(words, count);
        while (count > 0 && words[count - 1] == 0) count--;
    } while (count > 0);
    buf_printf(buf, "%" PRIu64, limbs[limb_count - 1]);
    for (size_t i = limb_count - 1; i > 0; i--) buf_printf(buf, "%0*" PRIu64, LIMB_DIGITS, limbs[i - 1]);
}

static void append_hex(struct buf *buf, const uint8_t *digits, size_t size, size_t end) {
    static const char hex[] = "0123456789ABCDEF";
    if (digits[size - 1] > 15) buf_append_byte(buf, (uint8_t)hex[digits[size - 1] >> 4]);
    buf_append_byte(buf, (uint8_t)hex[digits[size - 1] & 15]);
    for (size_t i = size - 1; i > 0 && buf->size <= end; i--) {
        char pair[] = {hex[digits[i - 1] >> 4], hex[digits[i - 1] & 15]};
        buf_append(buf, pair, sizeof pair);
    }
}

void term_append_big(struct buf *buf, const struct term *big, const char *hex_prefix, size_t end) {
    if (big->big.negative) buf_append_byte(buf, '-');
    if (big->big.size <= DECIMAL_MAX_BYTES) {
        append_decimal(buf, big->big.digits, big->big.size);
        return;
    }
    buf_append_string(buf, hex_prefix);
    append_hex(buf, big->big.digits, big->big.size, end);
}
