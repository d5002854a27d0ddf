/* Reads the lines and files of stack traces. */
#include "beam/code/compact.h"

enum { LINE_VERSION = 0, NAME_LEAST_BYTES = 2 };

struct line_header {
    uint32_t flags;
    uint32_t instructions;
    uint32_t lines;
    uint32_t names;
};

static int read_header(struct cursor *cursor, struct line_header *ret) {
    struct line_header header = {0};
    int result = cursor_u32(cursor, &header.flags);
    if (result == 0) result = cursor_u32(cursor, &header.instructions);
    if (result == 0) result = cursor_u32(cursor, &header.lines);
    if (result == 0) result = cursor_u32(cursor, &header.names);
    if (result < 0) return result;
    if (header.lines > cursor_left(cursor) || header.names > cursor_left(cursor) / NAME_LEAST_BYTES)
        return cursor_fail(cursor, "%u lines and %u names in %zu bytes", header.lines, header.names,
                           cursor_left(cursor));
    *ret = header;
    return 0;
}

/* Nearly all are lines of two bytes, and most others of one. Returns how many of these follow. */
static uint32_t skip_short_lines(struct cursor *cursor, uint32_t most) {
    const uint8_t *at = cursor->at;
    uint32_t count = 0;
    for (; count < most && cursor->end - at >= 2; count++) {
        if ((*at & 0x1f) == (HEAD_WIDE | COMPACT_INTEGER))
            at += 2;
        else if ((*at & 0x0f) == COMPACT_INTEGER)
            at++;
        else
            break;
    }
    cursor->at = at;
    return count;
}

/* An integer is a line. An atom's tag selects the file of the following lines; 0 is the module's own. */
static int read_line_entries(struct cursor *cursor, const struct line_header *header) {
    for (uint32_t count = 0; count < header->lines;) {
        count += skip_short_lines(cursor, header->lines - count);
        if (count == header->lines) break;
        struct compact entry;
        int result = compact_read(cursor, &entry);
        if (result < 0) return result;
        if (entry.tag == COMPACT_INTEGER && !entry.is_big && entry.value >= 0)
            count++;
        else if (entry.tag != COMPACT_ATOM)
            return cursor_fail(cursor, "neither a line nor a file");
        else if (entry.value > header->names)
            return cursor_fail(cursor, "file %jd, there are %u", entry.value, header->names);
    }
    return 0;
}

static int read_name(struct cursor *cursor) {
    uint16_t size = 0;
    int result = cursor_u16(cursor, &size);
    const uint8_t *name = cursor->at;
    if (result == 0) result = cursor_skip(cursor, size);
    if (result == 0 && !utf8_valid(name, size)) return cursor_fail(cursor, "a file's name is not UTF-8");
    return result;
}

int read_lines(struct beam *beam, struct error *reterr) {
    if (!beam->chunks[CHUNK_LINES].data) return 0;
    struct cursor cursor = chunk_cursor(beam, CHUNK_LINES, reterr);
    uint32_t version = 0;
    struct line_header header = {0};
    int result = cursor_u32(&cursor, &version);
    if (result < 0 || version != LINE_VERSION) return result; /* a loader stops here too */
    result = read_header(&cursor, &header);
    const uint8_t *entries = cursor.at;
    if (result == 0) result = read_line_entries(&cursor, &header);
    if (result < 0) return result;
    const uint8_t *names = cursor.at;
    for (uint32_t i = 0; result == 0 && i < header.names; i++) result = read_name(&cursor);
    if (result < 0) return result;
    beam->has_lines = true;
    beam->line_entries = entries;
    beam->line_names = names;
    beam->line_name_count = header.names;
    beam->line_count = header.lines;
    beam->line_instruction_count = header.instructions;
    return cursor_end(&cursor);
}
