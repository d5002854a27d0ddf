/* Access: which users and groups may create sandboxes with a profile. */
#ifndef GUARD_ACCESS_H
#define GUARD_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/base.h"

enum { GUARD_ACCESS_MAX = 64, GUARD_ACCESS_NAMES_BYTES = 512 };

struct guard_access {
    bool is_restricted; /* else every user may */
    uid_t users[GUARD_ACCESS_MAX];
    gid_t groups[GUARD_ACCESS_MAX];
    size_t user_count, group_count;
    char user_names[GUARD_ACCESS_NAMES_BYTES], group_names[GUARD_ACCESS_NAMES_BYTES]; /* as written in the settings */
};

/* Adds the users of a list such as "alice, bob". E_INVALID for a name that the system does not know. */
int guard_access_users(struct guard_access *access, const char *names, struct error *reterr);
int guard_access_groups(struct guard_access *access, const char *names, struct error *reterr);

/* in_group tells whether the caller is in a group. */
bool guard_access_allows(const struct guard_access *access, uid_t uid, bool (*in_group)(void *data, gid_t gid),
                         void *data);

#endif
