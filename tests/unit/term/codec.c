/* What the differential test drives: reads length-prefixed terms from standard input and answers each with three
   length-prefixed parts: the term written again, its Erlang text and its Elixir text. With "samples" as its argument it
   writes, instead, one term made by each of the writer's functions. */
#include <stdio.h>
#include <string.h>

#include "terms.h"

static bool read_exactly(void *data, size_t size) {
    return fread(data, 1, size, stdin) == size;
}

static bool write_part(struct buf *part) {
    uint8_t length[] = {(uint8_t)(part->size >> 24), (uint8_t)(part->size >> 16), (uint8_t)(part->size >> 8),
                        (uint8_t)part->size};
    bool written = !part->failed && fwrite(length, 1, sizeof length, stdout) == sizeof length &&
                   fwrite(part->data, 1, part->size, stdout) == part->size;
    buf_clear(part);
    return written;
}

static int answer(const uint8_t *data, size_t size, struct buf *part, struct error *reterr) {
    CLEANUP_TERM struct term_doc *doc = NULL;
    int result = term_decode(data, size, &term_default_bounds, &doc, reterr);
    if (result < 0) return result;
    term_put_version(part);
    result = term_put(part, term_root(doc), reterr);
    if (result < 0) return result;
    if (!write_part(part)) return error_set(reterr, E_SYSTEM, "writing failed");
    for (int language = TERM_ERLANG; language <= TERM_ELIXIR; language++) {
        term_print(part, term_root(doc), (enum term_language)language, SIZE_MAX);
        if (!write_part(part)) return error_set(reterr, E_SYSTEM, "writing failed");
    }
    return 0;
}

static int answer_all(struct error *reterr) {
    struct buf part = BUF_INIT;
    uint8_t length[4];
    int result = 0;
    while (result == 0 && read_exactly(length, sizeof length)) {
        size_t size = (size_t)length[0] << 24 | (size_t)length[1] << 16 | (size_t)length[2] << 8 | length[3];
        CLEANUP_FREE uint8_t *data = malloc(size + 1);
        if (!data || !read_exactly(data, size)) return error_set(reterr, E_SYSTEM, "input ends inside a term");
        result = answer(data, size, &part, reterr);
    }
    buf_free(&part);
    return result;
}

static void put_samples(struct buf *buf) {
    static const int64_t integers[] = {0,         255,       256,       -1,        INT32_MAX,
                                       INT32_MIN, 1LL << 31, INT64_MAX, INT64_MIN, -(1LL << 40)};
    term_put_version(buf);
    term_put_tuple(buf, 10);
    term_put_list(buf, ARRAY_SIZE(integers));
    for (size_t i = 0; i < ARRAY_SIZE(integers); i++) term_put_integer(buf, integers[i]);
    term_put_nil(buf);
    term_put_uint64(buf, UINT64_MAX);
    term_put_float(buf, -1.5e300);
    term_put_atom(buf, "grüße");
    term_put_bool(buf, true);
    term_put_binary(buf, "\0\xff", 2);
    term_put_string(buf, "text");
    term_put_list(buf, 0);
    term_put_map(buf, 2);
    term_put_atom(buf, "a");
    term_put_tuple(buf, 0);
    term_put_integer(buf, 7);
    term_put_nil(buf);
    term_put_tuple(buf, 300);
    for (int i = 0; i < 300; i++) term_put_integer(buf, i);
}

int main(int argc, char **argv) {
    struct error error = {0};
    if (argc > 1 && strcmp(argv[1], "samples") == 0) {
        struct buf samples = BUF_INIT;
        put_samples(&samples);
        bool written = write_part(&samples);
        buf_free(&samples);
        return written ? 0 : 1;
    }
    if (answer_all(&error) < 0) {
        fprintf(stderr, "codec: %s\n", error.detail);
        return 1;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
