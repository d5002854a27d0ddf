/* Digests of BEAM files: the checksum of the loaded chunks, and digests of terms. */
#include "beam/digest.h"

#include <string.h>

void digest_begin(struct digest *digest) {
    digest->context = EVP_MD_CTX_new();
    digest->good = digest->context && EVP_DigestInit_ex(digest->context, EVP_sha256(), NULL) == 1;
}

static void update(struct digest *digest, const void *data, size_t size) {
    digest->good = digest->good && EVP_DigestUpdate(digest->context, data, size) == 1;
}

void digest_number(struct digest *digest, uint64_t number) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(number >> (56 - 8 * i));
    update(digest, bytes, sizeof bytes);
}

void digest_bytes(struct digest *digest, const void *data, size_t size) {
    digest_number(digest, size);
    if (size > 0) update(digest, data, size);
}

void digest_text(struct digest *digest, struct beam_text text) {
    digest_bytes(digest, text.data, text.size);
}

static void digest_elements(struct digest *digest, const struct term *term) {
    digest_number(digest, term->items.count);
    for (size_t i = 0; i < term_element_count(term); i++) digest_term(digest, &term->items.elements[i]);
    if (term->type == TERM_LIST) digest_term(digest, term->items.tail);
}

static void digest_map(struct digest *digest, const struct term *map) {
    digest_number(digest, map->items.count);
    for (size_t i = 0; i < map->items.count; i++) {
        const struct term *pair = &map->items.elements[2 * (size_t)map->items.sorted[i]];
        digest_term(digest, &pair[0]);
        digest_term(digest, &pair[1]);
    }
}

/* Numbers, pids and the like in their external format. */
static void digest_leaf(struct digest *digest, const struct term *term) {
    struct buf bytes = BUF_INIT;
    if (term_put(&bytes, term, NULL) < 0 || bytes.failed)
        digest->good = false;
    else
        digest_bytes(digest, bytes.data, bytes.size);
    buf_free(&bytes);
}

void digest_term(struct digest *digest, const struct term *term) {
    digest_number(digest, term->type);
    switch (term->type) {
    case TERM_LIST:
    case TERM_RECORD:
    case TERM_TUPLE: digest_elements(digest, term); break;
    case TERM_MAP: digest_map(digest, term); break;
    case TERM_ATOM: digest_bytes(digest, term->atom.text, term->atom.length); break;
    case TERM_BINARY: digest_bytes(digest, term->binary.data, term->binary.size); break;
    case TERM_INTEGER: digest_number(digest, (uint64_t)term->integer); break;
    case TERM_NIL: break;
    default: digest_leaf(digest, term); break;
    }
}

int digest_end(struct digest *digest, char ret[BEAM_DIGEST_BYTES], struct error *reterr) {
    uint8_t bytes[EVP_MAX_MD_SIZE];
    if (!digest->good || EVP_DigestFinal_ex(digest->context, bytes, NULL) != 1)
        return error_set(reterr, E_NO_MEMORY, "no memory to hash a BEAM file");
    hex_encode(bytes, (BEAM_DIGEST_BYTES - 1) / 2, ret);
    return 0;
}

void digest_free(struct digest *digest) {
    EVP_MD_CTX_free(digest->context);
}

/* Chunks come in the order of their list, not of the file. A missing chunk differs from an empty one. Sizes have 32
   bits, so each chunk's name and size form one number. */
int beam_checksum(const struct beam *beam, char ret[BEAM_DIGEST_BYTES], struct error *reterr) {
    CLEANUP_DIGEST struct digest digest = {0};
    digest_begin(&digest);
    for (enum chunk_kind kind = 0; kind < CHUNK_COUNT; kind++) {
        const struct chunk *chunk = &beam->chunks[kind];
        if (!chunk_forms[kind].loaded || !chunk->data) continue;
        digest_number(&digest, (uint64_t)load_u32((const uint8_t *)chunk_forms[kind].tag) << 32 | chunk->size);
        if (chunk->size > 0) update(&digest, chunk->data, chunk->size);
    }
    return digest_end(&digest, ret, reterr);
}
