/* compile_bounds: how long a compilation may take, and how much memory, as a caller asks for it and the settings allow.
 */
#ifndef CORE_POLICY_COMPILE_BOUNDS_H
#define CORE_POLICY_COMPILE_BOUNDS_H

#include <jansson.h>
#include <stdint.h>

#include "base/base.h"

struct compile_request;
struct engine;

struct compile_bounds { /* 0: as usual */
    uint64_t timeout_ms, memory_bytes;
};

/* Those among a request's parameters, or of a sandbox in the registry; the others stay. False: there are none. */
bool compile_bounds_take(json_t *object, struct compile_bounds *bounds);
void compile_bounds_put(const struct compile_bounds *bounds, json_t *object);
/* E_LIMIT: the settings allow less. */
int compile_bounds_check(const struct engine *engine, const struct compile_bounds *bounds, struct error *reterr);
/* Of the settings as they are now, which may have been lowered. */
void compile_bounds_apply(const struct engine *engine, const struct compile_bounds *bounds,
                          struct compile_request *request);

#endif
