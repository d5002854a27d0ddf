/* Maps the numbers of `line` instructions to lines and files of the source. */
#include "beam/site_lines.h"

#include <stdlib.h>

#include "beam/code/compact.h"

void site_lines_free(struct site_lines *lines) {
    free(lines->lines);
    free(lines->files);
    *lines = (struct site_lines){0};
}

static int read_entries(const struct beam *beam, struct site_lines *lines, struct cursor *cursor) {
    uint32_t file = 0;
    for (uint32_t count = 1; count < lines->line_count;) {
        struct compact entry;
        int result = compact_read(cursor, &entry);
        if (result < 0) return result;
        if (entry.tag == COMPACT_ATOM)
            file = entry.value <= beam->line_name_count ? (uint32_t)entry.value : 0;
        else
            lines->lines[count++] = (struct site_line){file, (uint32_t)entry.value};
    }
    return 0;
}

static int read_files(struct site_lines *lines, struct cursor *cursor) {
    for (uint32_t i = 1; i < lines->file_count; i++) {
        uint16_t size = 0;
        int result = cursor_u16(cursor, &size);
        const uint8_t *name = cursor->at;
        if (result == 0) result = cursor_skip(cursor, size);
        if (result < 0) return result;
        lines->files[i] = (struct beam_text){(const char *)name, size};
    }
    return 0;
}

int site_lines_read(const struct beam *beam, struct site_lines *ret, struct error *reterr) {
    CLEANUP(site_lines_free)
    struct site_lines lines = {.line_count = beam->line_count + 1, .file_count = beam->line_name_count + 1};
    struct cursor cursor = chunk_cursor(beam, CHUNK_LINES, reterr);
    lines.lines = calloc(lines.line_count, sizeof *lines.lines);
    lines.files = calloc(lines.file_count, sizeof *lines.files);
    if (!lines.lines || !lines.files) return beam_no_memory(reterr);
    int result = 0;
    if (beam->has_lines) {
        cursor.at = beam->line_entries;
        result = read_entries(beam, &lines, &cursor);
        cursor.at = beam->line_names;
        if (result == 0) result = read_files(&lines, &cursor);
    }
    if (result < 0) return result;
    *ret = lines;
    lines = (struct site_lines){0};
    return 0;
}
