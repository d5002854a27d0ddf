/* The line and file that a `line` instruction means. */
#ifndef BEAM_SITE_LINES_H
#define BEAM_SITE_LINES_H

#include "beam/beam_internal.h"

struct site_line {
    uint32_t file; /* 0: the module's own */
    uint32_t line;
};

struct site_lines {
    struct site_line *lines; /* by number; the first means "unknown" */
    uint32_t line_count;
    struct beam_text *files; /* likewise; the first is empty */
    uint32_t file_count;
};

/* For a beam that was read, so the chunk is valid. */
int site_lines_read(const struct beam *beam, struct site_lines *ret, struct error *reterr);
void site_lines_free(struct site_lines *lines);

#endif
