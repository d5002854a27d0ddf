/* patterns: failures of one kind that repeat, of one sandbox or of the service. They are told as events, shown where
   one looks, and what the engine would try again by itself rests for a while. */
#ifndef CORE_PATTERNS_H
#define CORE_PATTERNS_H

#include <jansson.h>

#include "base/base.h"

enum { PATTERN_REST_MS = 300000 };

struct pattern {
    struct breaker breaker;
    const char *op; /* what failed last; of the operation table, or PATTERN_OWN_END */
};

struct patterns {
    struct pattern of[E_COUNT];
};

/* In place of an operation: a VM that ended by itself. */
#define PATTERN_OWN_END "run"

/* ---- patterns.c: pure ---- */

/* Whether that is news. */
bool patterns_failed(struct patterns *patterns, const char *op, enum error_code code, uint64_t now_ms);
/* The operation works again: the first of its patterns that is over by that; E_NONE: there is none. To be asked until
   then. */
enum error_code patterns_worked(struct patterns *patterns, const char *op);
/* How long the engine is not to try it again by itself. */
uint64_t patterns_rest_ms(const struct patterns *patterns, const char *op, uint64_t now_ms);
/* Those there are: code, op, count, rest_ms, and what the table says of the error. */
json_t *patterns_to_json(const struct patterns *patterns, uint64_t now_ms);
json_t *pattern_to_json(const struct patterns *patterns, enum error_code code, uint64_t now_ms);

/* ---- patterns_note.c: the engine's ---- */

struct caller;
struct engine;
struct sandbox;

/* An operation is over; sandbox NULL: it was of none, or of one that is gone. error NULL: it worked. */
void patterns_note(struct engine *engine, struct sandbox *sandbox, const char *op, const struct error *error);
/* Of the service, and of the sandboxes that the caller may see. */
json_t *patterns_visible(struct engine *engine, const struct caller *caller);

#endif
