/* How much memory the bodies take that are being received or wait to be read. One caller can't take it all, and some is
   left for admins. */
#include "api/api_internal.h"

enum {
    BODIES_OF_ONE_BYTES = 16 << 20,
    BODIES_BYTES = 64 << 20,
    BODIES_OF_ADMINS_BYTES = 16 << 20, /* more, for them alone */
};

/* Of one caller, or of all. The connection of an exchange may be gone: its operation is still being called off. */
static size_t reserved(const struct api *api, const uid_t *uid) {
    size_t bytes = direct_reserved_bytes(api, uid);
    const struct exchange *exchange;
    TAILQ_FOREACH(exchange, &api->exchanges, link) {
        if (!uid || exchange->request.caller.uid == *uid) bytes += exchange->reserved_bytes;
    }
    return bytes;
}

int bodies_reserve(const struct api *api, const struct caller *caller, size_t size, struct error *reterr) {
    bool is_admin = caller->role == ROLE_ADMIN;
    if (size <= INTAKE_SHORT_BYTES) return 0;
    if (!is_admin && reserved(api, &caller->uid) + size > BODIES_OF_ONE_BYTES)
        return error_set(reterr, E_LIMIT, "requests of %d bytes are being received for this user already",
                         BODIES_OF_ONE_BYTES);
    if (reserved(api, NULL) + size > BODIES_BYTES + (is_admin ? BODIES_OF_ADMINS_BYTES : 0))
        return error_set(reterr, E_LIMIT, "requests of %d bytes are being received already", BODIES_BYTES);
    return 0;
}
