/* How much memory the bodies take that are being received or wait to be read. */
#include "api/api_internal.h"

enum { BODIES_BYTES = 64 << 20 };

/* Of one principal, or of all. */
static size_t reserved(const struct api *api, const uid_t *principal) {
    size_t bytes = direct_reserved_bytes(api, principal);
    const struct exchange *exchange;
    TAILQ_FOREACH(exchange, &api->exchanges, link) {
        if (exchange_is_of(exchange, principal)) bytes += exchange->reserved_bytes;
    }
    return bytes;
}

int bodies_reserve(const struct api *api, const struct caller *caller, size_t size, struct error *reterr) {
    if (size <= INTAKE_SHORT_BYTES) return 0;
    uid_t principal = api_principal(api, caller->uid);
    struct share share = {
        .all = BODIES_BYTES, .used = reserved(api, NULL) + size, .own = reserved(api, &principal) + size};
    if (quotas_is_fair(api->config.quotas, caller->uid, &share)) return 0;
    return error_set(reterr, E_LIMIT,
                     "requests of %llu bytes are being received, %llu of them from this user: there is no room for "
                     "%zu bytes more",
                     (unsigned long long)share.used - size, (unsigned long long)share.own - size, size);
}
