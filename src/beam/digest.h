/* SHA-256 over a sequence of values. Each is preceded by its length, so that sequences can't be confused. */
#ifndef BEAM_DIGEST_H
#define BEAM_DIGEST_H

#include <openssl/evp.h>

#include "beam/beam_internal.h"

struct digest {
    EVP_MD_CTX *context;
    bool good;
};

void digest_begin(struct digest *digest);
void digest_number(struct digest *digest, uint64_t number);
void digest_bytes(struct digest *digest, const void *data, size_t size);
void digest_text(struct digest *digest, struct beam_text text);
/* A term by its content: the order of a map's pairs does not matter. */
void digest_term(struct digest *digest, const struct term *term);
int digest_end(struct digest *digest, char ret[BEAM_DIGEST_BYTES], struct error *reterr);
void digest_free(struct digest *digest);

#define CLEANUP_DIGEST CLEANUP(digest_free)

#endif
