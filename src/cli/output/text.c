/* Text for terminals: colours, widths, units, and strangers' text made harmless. */
#include <string.h>

#include "cli/cli_internal.h"

const char *style_code(bool colour, enum style style) {
    static const char *const codes[] = {
        [STYLE_PLAIN] = "\033[0m", [STYLE_BOLD] = "\033[1m",   [STYLE_DIM] = "\033[2m",
        [STYLE_RED] = "\033[31m",  [STYLE_GREEN] = "\033[32m", [STYLE_YELLOW] = "\033[33m",
    };
    return colour ? codes[style] : "";
}

const char *text_of(const json_t *object, const char *name, const char *otherwise) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : otherwise;
}

size_t number_of(const json_t *object, const char *name) {
    json_int_t value = json_integer_value(json_object_get(object, name));
    return value > 0 ? (size_t)value : 0;
}

/* The length of a character and its code; a byte that begins none stands alone, with code 0. */
static size_t decode(const char *text, size_t size, uint32_t *ret_code) {
    size_t length = utf8_decode((const uint8_t *)text, size, ret_code);
    if (length == 0) *ret_code = 0;
    return length ? length : 1;
}

struct range {
    uint32_t first, last;
};

static bool within(uint32_t code, const struct range *ranges, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (code >= ranges[i].first && code <= ranges[i].last) return true;
    return false;
}

/* What could move the cursor, colour the screen, or make text read in another order than it is written. */
static bool is_harmful(uint32_t code) {
    static const struct range ranges[] = {
        {0x00, 0x08}, {0x0B, 0x1F}, {0x7F, 0x9F}, {0x200E, 0x200F}, {0x2028, 0x202E}, {0x2066, 0x2069},
    };
    return within(code, ranges, ARRAY_SIZE(ranges));
}

static void clean(struct buf *buf, const char *text, size_t size, bool is_line) {
    for (size_t at = 0; at < size;) {
        uint32_t code;
        size_t length = decode(text + at, size - at, &code);
        if (is_line && code == '\n')
            buf_append_string(buf, "\\n");
        else if (!is_harmful(code))
            buf_append(buf, text + at, length);
        else if (code > 0xFF)
            buf_printf(buf, "\\u{%X}", code);
        else
            buf_printf(buf, "\\x%02X", code ? code : (unsigned)(uint8_t)text[at]);
        at += length;
    }
}

void text_clean(struct buf *buf, const char *text, size_t size) {
    clean(buf, text, size, false);
}

void text_clean_line(struct buf *buf, const char *text, size_t size) {
    clean(buf, text, size, true);
}

static void print(FILE *out, const char *text, bool is_line) {
    CLEANUP(buf_free) struct buf cleaned = BUF_INIT;
    clean(&cleaned, text, strlen(text), is_line);
    if (cleaned.size > 0 && !cleaned.failed) fwrite(cleaned.data, 1, cleaned.size, out);
}

void text_print(FILE *out, const char *text) {
    print(out, text, false);
}

void text_print_line(FILE *out, const char *text) {
    print(out, text, true);
}

static size_t character_width(uint32_t code) {
    static const struct range nothing[] = {
        {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x0610, 0x061A}, {0x064B, 0x065F}, {0x1AB0, 0x1AFF},
        {0x1DC0, 0x1DFF}, {0x200B, 0x200D}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xE0100, 0xE01EF},
    };
    static const struct range wide[] = {
        {0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xAC00, 0xD7A3},
        {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
        {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1FAFF}, {0x20000, 0x3FFFD},
    };
    if (within(code, nothing, ARRAY_SIZE(nothing))) return 0;
    return within(code, wide, ARRAY_SIZE(wide)) ? 2 : 1;
}

size_t text_width(const char *text) {
    size_t width = 0;
    for (size_t at = 0, size = strlen(text); at < size;) {
        uint32_t code;
        at += decode(text + at, size - at, &code);
        width += character_width(code);
    }
    return width;
}

/* ---- quantities ---- */

/* "64 MiB" */
static void format_bytes(int64_t bytes, struct buf *buf) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit < ARRAY_SIZE(units) - 1) {
        value /= 1024;
        unit++;
    }
    bool whole = value >= 100 || value == (double)(int64_t)value;
    buf_printf(buf, whole ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

struct unit {
    const char *name;
    int64_t ms;
};

/* The two largest units that are not zero: enough to know, short enough for a column. */
void format_duration_ms(int64_t duration_ms, struct buf *buf) {
    static const struct unit units[] = {{"d", 86400000}, {"h", 3600000}, {"min", 60000}, {"s", 1000}};
    if (duration_ms < 1000) {
        buf_printf(buf, "%lld ms", (long long)duration_ms);
        return;
    }
    if (duration_ms < 10000 && duration_ms % 1000 != 0) {
        buf_printf(buf, "%.1f s", (double)duration_ms / 1000);
        return;
    }
    int written = 0;
    for (size_t i = 0; i < ARRAY_SIZE(units) && written < 2; i++) {
        int64_t count = duration_ms / units[i].ms;
        if (count == 0) continue;
        buf_printf(buf, "%s%lld %s", written++ ? " " : "", (long long)count, units[i].name);
        duration_ms %= units[i].ms;
    }
}

static void format_percent(int64_t percent, struct buf *buf) {
    buf_printf(buf, "%lld %%", (long long)percent);
}

static void format_duration_us(int64_t duration_us, struct buf *buf) {
    if (duration_us < 1000)
        buf_printf(buf, "%lld µs", (long long)duration_us);
    else if (duration_us < 100000)
        buf_printf(buf, "%.1f ms", (double)duration_us / 1000);
    else
        format_duration_ms(duration_us / 1000, buf);
}

static const struct {
    const char *suffix;
    void (*format)(int64_t value, struct buf *buf);
} quantities[] = {
    {"_bytes", format_bytes},
    {"_ms", format_duration_ms},
    {"_us", format_duration_us},
    {"_percent", format_percent},
};

static void format_compact(const json_t *value, struct buf *buf) {
    CLEANUP_FREE char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text) text_clean(buf, text, strlen(text));
}

static void format_array(const char *key, const json_t *array, struct buf *buf) {
    size_t index;
    json_t *entry;
    json_array_foreach(array, index, entry) {
        if (index > 0) buf_append_string(buf, ", ");
        format_value(key, entry, buf);
    }
    if (json_array_size(array) == 0) buf_append_string(buf, "-");
}

static bool format_quantity(const char *key, const json_t *value, struct buf *buf) {
    for (size_t i = 0; i < ARRAY_SIZE(quantities); i++) {
        if (!string_ends(key, quantities[i].suffix)) continue;
        quantities[i].format((int64_t)json_number_value(value), buf);
        return true;
    }
    return false;
}

void format_value(const char *key, const json_t *value, struct buf *buf) {
    if (json_is_number(value) && format_quantity(key, value, buf)) return;
    if (json_is_string(value))
        text_clean_line(buf, json_string_value(value), json_string_length(value));
    else if (json_is_boolean(value))
        buf_append_string(buf, json_is_true(value) ? "yes" : "no");
    else if (json_is_array(value))
        format_array(key, value, buf);
    else if (!value || json_is_null(value))
        buf_append_string(buf, "-");
    else
        format_compact(value, buf);
}
