/* api: the operation table over HTTP. Knows how to speak HTTP and who is asking; nothing of how operations work. */
#ifndef API_API_H
#define API_API_H

#include <uv.h>

#include "base/base.h"
#include "core/core.h"

struct api;

struct api_config {
    int listen_fd;   /* a listening unix socket; the api's from now on */
    uid_t admin_uid; /* callers with this uid, and root, are admins; others are operators of their own sandboxes */
    uint32_t connections_max;
    size_t body_max_bytes;
    const struct log *log;
};

void api_config_defaults(struct api_config *ret);
int api_open(uv_loop_t *loop, struct engine *engine, const struct api_config *config, struct api **ret,
             struct error *reterr);
/* Stop listening, let running requests finish or cancel them, close every handle. */
void api_close(struct api *api, void (*closed)(void *data), void *data);

/* A problem object (RFC 9457) for an error; result and sandbox_id may be NULL, and result is borrowed. */
json_t *api_problem(const struct error *error, const char *sandbox_id, json_t *result);

#endif
