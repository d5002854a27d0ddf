/* intake: from what a caller sent to checked parameters. */
#ifndef API_INTAKE_H
#define API_INTAKE_H

#include <jansson.h>

#include "base/base.h"
#include "ops/table.h"

enum {
    INTAKE_SHORT_BYTES = 4096, /* what is read on the loop: half a millisecond at worst */
    FINGERPRINT_BYTES = 32,
};

struct page {
    size_t limit;
    char *cursor; /* key of the last item already seen, or NULL */
};

enum intake_outcome {
    INTAKE_CHECKED,   /* params are complete */
    INTAKE_REFUSED,   /* they are parameters, but not such as the operation takes */
    INTAKE_MALFORMED, /* they are none */
};

struct intake {
    const struct op *op;
    json_t *params;      /* those of path and query; then all of them, or what is left of refused ones */
    const uint8_t *text; /* JSON */
    size_t size;
    const char *is_not; /* how an error begins: "the body is not" */
    const char *path;   /* where a fingerprint is wanted, else NULL */

    enum intake_outcome outcome;
    struct error error; /* unless it is checked */
    struct page page;
    uint8_t fingerprint[FINGERPRINT_BYTES];
};

void intake_run(struct intake *intake);

#endif
