/* Writes a map pair by pair: the count in the map's header is filled in at the end. */
#include "term/term_internal.h"

enum { COUNT_OFFSET = 1 }; /* after the tag */

struct term_map term_map_begin(struct buf *buf) {
    struct term_map map = {.buf = buf, .at = buf->size};
    term_put_map(buf, 0);
    return map;
}

struct buf *term_map_key(struct term_map *map, const char *key) {
    map->pairs++;
    term_put_atom(map->buf, key);
    return map->buf;
}

void term_map_end(const struct term_map *map) {
    if (map->buf->failed) return;
    uint8_t *count = map->buf->data + map->at + COUNT_OFFSET;
    for (int i = 0; i < 4; i++) count[i] = (uint8_t)(map->pairs >> (24 - 8 * i));
}

void term_map_text(struct term_map *map, const char *key, const char *text) {
    term_map_key(map, key);
    if (text)
        term_put_string(map->buf, text);
    else
        term_put_atom(map->buf, "nil");
}

void term_map_bytes(struct term_map *map, const char *key, const void *data, size_t size) {
    term_map_key(map, key);
    if (data)
        term_put_binary(map->buf, data, size);
    else
        term_put_atom(map->buf, "nil");
}

void term_map_atom(struct term_map *map, const char *key, const char *text) {
    term_put_atom(term_map_key(map, key), text);
}

void term_map_number(struct term_map *map, const char *key, uint64_t value) {
    term_put_uint64(term_map_key(map, key), value);
}

void term_map_bool(struct term_map *map, const char *key, bool value) {
    term_put_bool(term_map_key(map, key), value);
}
