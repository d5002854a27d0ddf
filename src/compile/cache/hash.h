/* SHA-256 in steps, for what is made of many parts. A failure is remembered until the end. */
#ifndef COMPILE_CACHE_HASH_H
#define COMPILE_CACHE_HASH_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash {
    EVP_MD_CTX *context;
    bool good;
};

void hash_begin(struct hash *hash);
void hash_bytes(struct hash *hash, const void *data, size_t size);
void hash_text(struct hash *hash, const char *text); /* with its end, so that "a", "bc" is not "ab", "c" */
bool hash_end(struct hash *hash, uint8_t ret[32]);   /* also frees it */

#endif
