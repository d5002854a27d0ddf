/* A cursor over untrusted bytes, with errors that give the place. */
#include <stdio.h>
#include <string.h>

#include "beam/beam_internal.h"

/* The functions that the macros of these names wrap. */
#undef cursor_fail
#undef cursor_too_new
#undef cursor_short

static int fail(const struct cursor *cursor, enum error_code code, const char *format, va_list arguments) {
    char what[256];
    vsnprintf(what, sizeof what, format, arguments);
    return error_set(cursor->reterr, code, "%s, byte %zu: %s", cursor->chunk, (size_t)(cursor->at - cursor->start),
                     what);
}

int cursor_fail(const struct cursor *cursor, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int result = fail(cursor, E_FORMAT, format, arguments);
    va_end(arguments);
    return result;
}

int cursor_too_new(const struct cursor *cursor, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int result = fail(cursor, E_TOO_NEW, format, arguments);
    va_end(arguments);
    return result;
}

int cursor_short(const struct cursor *cursor, size_t size) {
    return cursor_fail(cursor, "%zu bytes are missing", size - cursor_left(cursor));
}

int cursor_end(const struct cursor *cursor) {
    return cursor_left(cursor) == 0 ? 0 : cursor_fail(cursor, "%zu bytes too many", cursor_left(cursor));
}

int cursor_count(struct cursor *cursor, size_t entry_bytes, uint32_t *ret) {
    uint32_t count = 0;
    int result = cursor_u32(cursor, &count);
    if (result < 0) return result;
    if (count > cursor_left(cursor) / entry_bytes)
        return cursor_fail(cursor, "%u entries in %zu bytes", count, cursor_left(cursor));
    *ret = count;
    return 0;
}

struct cursor chunk_cursor(const struct beam *beam, enum chunk_kind kind, struct error *reterr) {
    const struct chunk *chunk = &beam->chunks[kind];
    static const char *const names[] = {
#define X(name, tag, required, loaded) "chunk " tag,
        CHUNK_LIST(X)
#undef X
    };
    return (struct cursor){
        .start = chunk->data,
        .at = chunk->data,
        .end = chunk->data + chunk->size,
        .chunk = names[kind],
        .reterr = reterr,
    };
}

bool beam_text_equal(struct beam_text a, struct beam_text b) {
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}
