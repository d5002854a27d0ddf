/* api: the operation table over HTTP. Knows how to speak HTTP and who is asking; nothing of how operations work. */
#ifndef API_API_H
#define API_API_H

#include <uv.h>

#include "base/base.h"
#include "core/core.h"
#include "quota/quota.h"

struct api;

struct api_config {
    int listen_fd;   /* a listening unix socket; the api's from now on, even if it does not open */
    uid_t admin_uid; /* callers with this uid, and root, are admins; others are operators of their own sandboxes */
    uint32_t connections_max;
    size_t body_max_bytes;
    uint64_t request_timeout_ms;    /* from a request's header to its last byte, plus a second per 64 KiB of body */
    uint64_t idle_timeout_ms;       /* from a connection's start, or an answer's end, to the next request's header */
    uint64_t keepalive_interval_ms; /* a stream that is silent for so long gets an empty line */
    size_t stream_buffer_max_bytes; /* a reader who is further behind is cut off */
    struct quotas *quotas;          /* what callers may have; must live longer than the api. NULL: no bounds */
    const struct log *log;          /* NULL: nothing is logged */
};

void api_config_defaults(struct api_config *ret);
int api_open(uv_loop_t *loop, struct engine *engine, const struct api_config *config, struct api **ret,
             struct error *reterr);
/* Stop listening, cancel what can be cancelled, wait until the engine has answered the rest, close every handle. */
void api_close(struct api *api, void (*closed)(void *data), void *data);

/* A problem object (RFC 9457) for an error; result and sandbox_id may be NULL, and result is borrowed. NULL without
   memory. */
json_t *api_problem(const struct error *error, const char *sandbox_id, json_t *result);

#endif
