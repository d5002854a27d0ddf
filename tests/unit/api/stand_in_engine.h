/* A small engine for tests of the transport: it answers in a later turn of the loop, or when the test says so. */
#ifndef STAND_IN_ENGINE_H
#define STAND_IN_ENGINE_H

#include <sys/queue.h>

#include "core/core.h"

struct held {
    STAILQ_ENTRY(held) link;
    struct request *request;
    json_t *result;
    struct error error;
};

STAILQ_HEAD(held_list, held);

struct engine {
    uv_idle_t idle;
    struct held_list answers;    /* go out in the next turn */
    struct request *last;        /* the last request that is held until the test answers it */
    struct request *open_stream; /* events: open until cancelled or answered */
    unsigned created, started, cancelled;
    size_t list_size;
    unsigned burn_us; /* of CPU time, in each info */
    struct caller last_caller;
    char last_params[512];
};

void stand_in_init(struct engine *engine, uv_loop_t *loop);
void stand_in_close(struct engine *engine);
/* Answer a request in the next turn; code E_NONE: with the result. */
void stand_in_answer(struct engine *engine, struct request *request, json_t *result, enum error_code code);

#endif
