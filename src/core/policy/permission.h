/* permission: opening a path for a caller. */
#ifndef CORE_POLICY_PERMISSION_H
#define CORE_POLICY_PERMISSION_H

#include "core/core.h"
#include "link/link.h"

struct engine;

int caller_check_paths(const struct caller *caller, struct error *reterr);
/* Open a path with the caller's rights, and no more. */
void caller_open_project(struct engine *engine, const struct caller *caller, const char *path, link_project_fn done,
                         void *data);

#endif
