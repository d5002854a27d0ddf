/* The signature of deliveries: HMAC-SHA256 of the timestamp and the body. */
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "webhook/webhook_internal.h"

void webhook_sign(const char *secret, int64_t timestamp_s, const char *body, size_t size,
                  char ret[WEBHOOK_SIGNATURE_BYTES]) {
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    CLEANUP(buf_free) struct buf message = BUF_INIT;
    buf_printf(&message, "%lld.", (long long)timestamp_s);
    buf_append(&message, body, size);
    if (message.failed ||
        !HMAC(EVP_sha256(), secret, (int)strlen(secret), (const uint8_t *)message.data, message.size, digest, &length))
        abort(); /* crash-only: no delivery leaves unsigned */
    int at = snprintf(ret, WEBHOOK_SIGNATURE_BYTES, "sha256=");
    for (unsigned i = 0; i < length; i++)
        at += snprintf(ret + at, (size_t)(WEBHOOK_SIGNATURE_BYTES - at), "%02x", digest[i]);
}
