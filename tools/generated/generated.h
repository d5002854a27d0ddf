/* A Mix project of many modules that depend on one another in every way that matters to a compiler, and changes to it
   with the files that each makes stale. Programs that use it are tests: whatever goes wrong ends them. */
#ifndef GENERATED_GENERATED_H
#define GENERATED_GENERATED_H

#include <stdbool.h>
#include <stddef.h>

#define GENERATED_APP "generated"

enum { GENERATED_GROUP_MODULES = 25 }; /* the project is made of groups, each with every kind of dependency in it */

/* Write the project into a new folder. The first twenty modules of a group need none of the others. */
void generated_write(const char *folder, unsigned modules);

/* A change of the first group's. Each is made to what those before it left. */
struct generated_change {
    const char *name;
    const char *file;
    const char *from, *to;    /* this text becomes that one; without from, to is the whole file; without to, it goes */
    const char *moved_to;     /* the file gets another place; NULL: it stays */
    const char *const *stale; /* patterns of the sources to compile again, ended by NULL; * may hold slashes */
};

extern const struct generated_change generated_changes[];
extern const size_t generated_change_count;

void generated_apply(const char *folder, const struct generated_change *change);
bool generated_is_stale(const struct generated_change *change, const char *source);

/* Put one text in place of another, once, in a file that has it. */
void generated_replace(const char *path, const char *from, const char *to);
void generated_write_file(const char *path, const char *text); /* and the folders above it */

/* Let the project and what Mix built of it look older, since Mix tells no times within a second apart. */
void generated_age(const char *folder);

#endif
