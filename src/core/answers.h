/* answers: every answer leaves through here, in a later turn of the loop. */
#ifndef CORE_ANSWERS_H
#define CORE_ANSWERS_H

#include "core/core.h"

struct engine;

/* What is answered, or NULL and why there is nothing. The sandbox may be gone by now, or its id another's. */
typedef json_t *answer_make_fn(struct engine *engine, struct request *request, struct error *reterr);

struct answer {
    struct fair_item item; /* first, so that it leads back here */
    struct request *request;
    answer_make_fn *make; /* NULL: the result is there */
    json_t *result;
    bool failed;
    struct error error;
};

struct answers {
    struct fair first;  /* of those whom no quota binds */
    struct fair others; /* by turns, as the first: one user's answers wait for one of each other user's */
};

void answers_init(struct answers *answers);
bool answers_are_waiting(const struct answers *answers);
void answer_ok(struct engine *engine, struct request *request, json_t *result); /* takes the reference */
/* The result is made when it is this answer's turn: many may have become due in one turn of the loop. */
void answer_made(struct engine *engine, struct request *request, answer_make_fn *make);
void answer_error(struct engine *engine, struct request *request, const struct error *error, json_t *result);
void answer_fail(struct engine *engine, struct request *request, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
