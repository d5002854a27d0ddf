/* places: where a compiler node sees a project and the folders that were handed over with it. Pure.

   A project names other folders as it sees them, such as ../core. So all of them lie below one folder in the node as
   they lie below their common folder on the host. */
#ifndef COMPILE_PROJECT_PLACES_H
#define COMPILE_PROJECT_PLACES_H

#include <limits.h>

#include "base/base.h"

#define PROJECT_PLACE "/src/project" /* of a project alone */

enum { WITHS_MAX = 8 };

struct with_place {
    char place[PATH_MAX]; /* in the node */
    char seen[PATH_MAX];  /* from the project: begins with ../ */
};

/* All paths are absolute and clean. E_INVALID when one of them lies in another: the outer one has it already. */
int places_choose(const char *project, const char *const *withs, size_t count, char ret_project[PATH_MAX],
                  struct with_place *ret, struct error *reterr);

/* Of a path as the project sees it, such as ../core/lib/core.ex: what follows the folder that it lies in, or NULL. */
const char *place_rest(const char *seen, const char *path);

/* Names joined by slashes, after steps up: the form of such a path. */
bool is_seen_path(const char *path);

#endif
