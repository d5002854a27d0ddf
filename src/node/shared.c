/* What libraries of every language expect of a host: the certificates that it trusts, and its time zones. */
#include <string.h>

#include "node/node_internal.h"

/* The first of a kind that there is. OTP looks for certificates in each of these places. */
static const struct {
    const char *kind, *place;
} shared[] = {
    {"certificates", "/etc/ssl/certs/ca-certificates.crt"},
    {"certificates", "/etc/pki/tls/certs/ca-bundle.crt"},
    {"certificates", "/etc/ssl/ca-bundle.pem"},
    {"certificates", "/etc/ssl/cert.pem"},
    {"zones", "/usr/share/zoneinfo"},
};

size_t shared_find(const char *root, struct shared_place ret[SHARED_MAX]) {
    struct error absent;
    const char *last = "";
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_SIZE(shared) && count < SHARED_MAX; i++) {
        if (strcmp(shared[i].kind, last) == 0 ||
            toolchain_resolve(root, shared[i].place, ret[count].source, &absent) < 0 ||
            access(ret[count].source, R_OK) < 0)
            continue;
        ret[count++].place = shared[i].place;
        last = shared[i].kind;
    }
    return count;
}
