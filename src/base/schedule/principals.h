/* The user that a uid counts as, where quotas and turns are concerned. A user may have thousands of subordinate uids
   (/etc/subuid), and be each of them in a user namespace: all of them count as that user. What a uid may see and change
   is never decided by this. */
#ifndef BASE_SCHEDULE_PRINCIPALS_H
#define BASE_SCHEDULE_PRINCIPALS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct principals_range {
    uid_t first, last, owner;
};

struct principals {
    struct principals_range *ranges; /* by their first uid; none overlaps another */
    size_t count;
};

/* Whether a user has that name. */
typedef bool (*principals_find_fn)(const char *name, uid_t *ret);

/* Lines of "name:first:count", where the name may be a number. What is no such line says nothing, and neither does a
   range of a single uid, which is some user's own. Root's ranges, and those of unknown users, count as their first uid.
   find NULL: so do all, those of one name as one. False without memory. The text is changed. */
bool principals_parse(char *text, principals_find_fn find, struct principals *ret);
/* The machine's. Without that file there are no ranges. */
void principals_load(principals_find_fn find, struct principals *ret);
void principals_free(struct principals *principals);

uid_t principals_of(const struct principals *principals, uid_t uid); /* NULL: each uid is its own */

#endif
