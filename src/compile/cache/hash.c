/* SHA-256 over texts and bytes, each with its length, so that no two lists of texts are the same input. */
#include "compile/cache/hash.h"

#include <string.h>

void hash_begin(struct hash *hash) {
    hash->context = EVP_MD_CTX_new();
    hash->good = hash->context && EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) == 1;
}

void hash_bytes(struct hash *hash, const void *data, size_t size) {
    hash->good = hash->good && EVP_DigestUpdate(hash->context, data, size) == 1;
}

void hash_text(struct hash *hash, const char *text) {
    hash_bytes(hash, text, strlen(text) + 1);
}

bool hash_end(struct hash *hash, uint8_t ret[32]) {
    bool good = hash->good && EVP_DigestFinal_ex(hash->context, ret, NULL) == 1;
    EVP_MD_CTX_free(hash->context);
    *hash = (struct hash){0};
    return good;
}
