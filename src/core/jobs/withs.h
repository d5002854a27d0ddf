/* withs: the folders that a caller hands over with a project, opened with the caller's rights for one compilation. */
#ifndef CORE_JOBS_WITHS_H
#define CORE_JOBS_WITHS_H

#include <jansson.h>

#include "base/base.h"
#include "compile/compile.h"
#include "compile/project/places.h"
#include "core/core.h"

struct withs {
    struct engine *engine;
    const struct caller *caller;
    json_t *paths; /* NULL: none */
    size_t count;  /* that are open */
    struct compile_with opened[WITHS_MAX];
    void (*done)(void *data, const struct error *error);
    void *data;
};

/* One after the other. paths stay the caller's until they are released. done is called once, from inside where there is
   none to open. */
void withs_open(struct withs *withs, struct engine *engine, const struct caller *caller, json_t *paths,
                void (*done)(void *data, const struct error *error), void *data);
/* Accepts those that were never opened. */
void withs_release(struct withs *withs);

#endif
