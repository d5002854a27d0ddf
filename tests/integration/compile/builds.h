/* What a compilation of a world's left in its store. */
#ifndef INTEGRATION_BUILDS_H
#define INTEGRATION_BUILDS_H

#include <limits.h>

#include "support.h"

/* Compile the project at this path, which must succeed; the report, a new reference. */
json_t *build_compile(struct world *world, const char *path);
/* The folder of the build that was made or found last. */
void build_last(struct world *world, char ret[PATH_MAX]);
json_t *build_facts(const char *build); /* a new reference */

/* The sources whose modules a report says to be compiled, one per line in the build's order. To be freed. */
char *build_compiled_files(const char *build, const json_t *report);
/* Fail when files of the two differ, besides what tells how each was made. */
void build_assert_same(const char *build, const char *other);

/* Fail unless the report names these modules, in any order; NULL ends them. */
void build_assert_compiled(const json_t *report, const char *const *modules);
/* Wait until nothing is in the service's folder for what it is working on. */
void build_assert_no_leftovers(struct world *world);
/* The same, and no compiler has a folder there for what it compiles next. */
void build_assert_no_folders(struct world *world);

#endif
