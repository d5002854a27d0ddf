/* The digest of a build: SHA-256 over the paths and contents of its files. */
#include "store/store_internal.h"

#include <openssl/evp.h>
#include <string.h>

void build_hash_begin(struct build_hash *hash) {
    hash->context = EVP_MD_CTX_new();
    hash->good = hash->context && EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) == 1;
}

/* Each length precedes its bytes, so that no two sets of files give the same input. */
static void add_bytes(struct build_hash *hash, const void *data, size_t size) {
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)size >> (56 - 8 * i));
    hash->good = hash->good && EVP_DigestUpdate(hash->context, length, sizeof length) == 1 &&
                 EVP_DigestUpdate(hash->context, data, size) == 1;
}

void build_hash_add(struct build_hash *hash, const char *path, const void *data, size_t size) {
    add_bytes(hash, path, strlen(path));
    add_bytes(hash, data, size);
}

int build_hash_end(struct build_hash *hash, char ret[STORE_DIGEST_BYTES], struct error *reterr) {
    uint8_t digest[EVP_MAX_MD_SIZE];
    if (!hash->good || EVP_DigestFinal_ex(hash->context, digest, NULL) != 1)
        return error_set(reterr, E_NO_MEMORY, "no memory to hash a build");
    hex_encode(digest, (STORE_DIGEST_BYTES - 1) / 2, ret);
    return 0;
}

void build_hash_free(struct build_hash *hash) {
    EVP_MD_CTX_free(hash->context);
}
