/* create_timing: how long each step of a create took. */
#ifndef CORE_SANDBOX_CREATE_TIMING_H
#define CORE_SANDBOX_CREATE_TIMING_H

#include <jansson.h>
#include <stdint.h>

/* What a create consists of, in turn, and what the answer calls it. */
#define CREATE_STEP_LIST(X)                                                                                            \
    X(OPENED, "opened_us")     /* the project, with its owner's rights */                                              \
    X(COMPILED, "compiled_us") /* or found compiled */                                                                 \
    X(SCANNED, "scanned_us")   /* for what its profile does not allow */                                               \
    X(NODE, "node_us")         /* booted, or taken and given limits and code */                                        \
    X(STARTED, "started_us")   /* the application's tree */                                                            \
    X(SAVED, "saved_us")       /* in the registry */

enum create_step {
#define X(name, key) CREATE_##name,
    CREATE_STEP_LIST(X)
#undef X
        CREATE_STEPS
};

struct create_timing {
    uint64_t begun_ns, last_ns, step_ns[CREATE_STEPS];
};

void create_timing_begin(struct create_timing *timing);
void create_timing_mark(struct create_timing *timing, enum create_step step); /* it is done */
json_t *create_timing_to_json(const struct create_timing *timing);

#endif
