/* webhook: delivers events to one receiver by HTTP POST, in order and signed, and tries again until they arrive or are
   given up. A separate thread waits for the receiver; the loop only queues. The module knows nothing of sandboxes. */
#ifndef WEBHOOK_WEBHOOK_H
#define WEBHOOK_WEBHOOK_H

#include <uv.h>

#include "base/base.h"

enum {
    WEBHOOK_URL_MAX_BYTES = 2048,
    WEBHOOK_BODY_MAX_BYTES = 256 << 10, /* of one delivery */
    WEBHOOK_REASON_BYTES = 160,
};

struct webhook_retry {
    uint32_t tries_max;        /* of one delivery */
    uint64_t first_ms, max_ms; /* pause after the first failure; doubled after each further one */
};

struct webhook_settings {
    const char *url;
    const char *secret;  /* NULL or "": not signed */
    uint32_t queue_max;  /* waiting deliveries */
    uint64_t timeout_ms; /* of one try in total */
    struct webhook_retry retry;
};

extern const struct webhook_settings webhook_defaults; /* without a URL */

/* Reports of deliveries that did not simply arrive. */
#define WEBHOOK_STATE_LIST(X)                                                                                          \
    X(FAILING, "failing")   /* the first failed try since a delivery                                                   \
                               arrived */                                                                              \
    X(GIVEN_UP, "given_up") /* a delivery is lost after all tries, or because the receiver refused it */               \
    X(DROPPING, "dropping") /* the queue is full: the first lost delivery since there was                              \
                               room */                                                                                 \
    X(ARRIVING, "arriving") /* the first delivery that arrived after failures */

enum webhook_state {
#define X(name, text) WEBHOOK_##name,
    WEBHOOK_STATE_LIST(X)
#undef X
};

struct webhook_report {
    enum webhook_state state;
    uint32_t tries; /* of the present delivery */
    uint64_t lost;  /* deliveries since the webhook was opened */
    char reason[WEBHOOK_REASON_BYTES];
};

const char *webhook_state_name(enum webhook_state state);

struct webhook_status {
    size_t queued;
    uint64_t delivered, lost;
    uint32_t failures; /* failed tries in a row */
    char last_error[WEBHOOK_REASON_BYTES];
};

struct webhook;

/* Called on the loop's thread, in a later turn of the loop. */
typedef void webhook_report_fn(void *data, const struct webhook_report *report);

int webhook_open(uv_loop_t *loop, const struct webhook_settings *settings, webhook_report_fn *report, void *data,
                 struct webhook **ret, struct error *reterr);
/* Queues one more delivery. kind and id go into its headers. */
void webhook_post(struct webhook *webhook, const char *kind, uint64_t id, const char *body, size_t size);
void webhook_status(struct webhook *webhook, struct webhook_status *ret);
/* Closes at once; waiting deliveries are lost. */
void webhook_close(struct webhook *webhook, void (*closed)(void *data), void *data);

#endif
