/* Names of transactions. A node tells the next daemon which of its transactions was the last, and its word is not
   believed: a name holds the digest of the build and a seal over it and the sandbox, which only daemons of this home
   can make. So a node can at most name a build that it was given before. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "core/core_internal.h"
#include "core/reload/reload.h"

enum { NONCE_TEXT_BYTES = 16, SEAL_TEXT_BYTES = 32, DIGEST_TEXT_BYTES = STORE_DIGEST_BYTES - 1 };

int reload_key_open(struct engine *engine, struct error *reterr) {
    char path[PATH_MAX];
    int result = string_format(path, sizeof path, reterr, "%s/reload.key", engine->config.home);
    if (result < 0) return result;
    CLEANUP_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return error_errno(reterr, errno, "opening %s", path);
    if (read(fd, engine->reload_key, sizeof engine->reload_key) == (ssize_t)sizeof engine->reload_key) return 0;
    /* None yet, or torn: what was sealed before is then not recognised. */
    if (getrandom(engine->reload_key, sizeof engine->reload_key, 0) != (ssize_t)sizeof engine->reload_key ||
        pwrite(fd, engine->reload_key, sizeof engine->reload_key, 0) != (ssize_t)sizeof engine->reload_key)
        return error_errno(reterr, errno, "writing %s", path);
    return 0;
}

static void seal(const struct sandbox *sandbox, const char *digest_and_nonce, char ret[SEAL_TEXT_BYTES + 1]) {
    uint8_t mac[EVP_MAX_MD_SIZE];
    char text[SANDBOX_ID_BYTES + RELOAD_ID_BYTES];
    const struct engine *engine = sandbox->engine;
    int length =
        snprintf(text, sizeof text, "%s %.*s", sandbox->id, DIGEST_TEXT_BYTES + NONCE_TEXT_BYTES, digest_and_nonce);
    if (!HMAC(EVP_sha256(), engine->reload_key, sizeof engine->reload_key, (const uint8_t *)text, (size_t)length, mac,
              NULL))
        abort(); /* an id without a seal would be believed by no daemon */
    hex_encode(mac, SEAL_TEXT_BYTES / 2, ret);
}

void reload_id_make(const struct sandbox *sandbox, const char *digest, char ret[RELOAD_ID_BYTES]) {
    uint64_t nonce;
    if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce) abort(); /* never, once the machine has booted */
    snprintf(ret, RELOAD_ID_BYTES, "%s%016llx", digest, (unsigned long long)nonce);
    seal(sandbox, ret, ret + DIGEST_TEXT_BYTES + NONCE_TEXT_BYTES);
}

bool reload_id_read(const struct sandbox *sandbox, const char *id, char ret_digest[STORE_DIGEST_BYTES]) {
    char expected[SEAL_TEXT_BYTES + 1];
    if (strlen(id) != RELOAD_ID_BYTES - 1) return false;
    seal(sandbox, id, expected);
    if (CRYPTO_memcmp(expected, id + DIGEST_TEXT_BYTES + NONCE_TEXT_BYTES, SEAL_TEXT_BYTES) != 0) return false;
    memcpy(ret_digest, id, DIGEST_TEXT_BYTES);
    ret_digest[DIGEST_TEXT_BYTES] = '\0';
    return true;
}
