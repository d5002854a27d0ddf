/* Access lists of profiles: parsing names of users and groups, and deciding whether a caller is allowed. */
#include "guard/access.h"

#include <stdio.h>
#include <string.h>

#include "quota/quota.h"

static int keep_name(char names[GUARD_ACCESS_NAMES_BYTES], const char *name, struct error *reterr) {
    size_t length = strlen(names);
    return string_format(names + length, GUARD_ACCESS_NAMES_BYTES - length, reterr, "%s%s", length > 0 ? "," : "",
                         name);
}

static int add_user(struct guard_access *access, const char *name, struct error *reterr) {
    if (access->user_count == GUARD_ACCESS_MAX)
        return error_set(reterr, E_INVALID, "there are more than %d users", GUARD_ACCESS_MAX);
    int result = quota_find_user(name, &access->users[access->user_count], reterr);
    if (result < 0) return result;
    access->user_count++;
    return keep_name(access->user_names, name, reterr);
}

static int add_group(struct guard_access *access, const char *name, struct error *reterr) {
    if (access->group_count == GUARD_ACCESS_MAX)
        return error_set(reterr, E_INVALID, "there are more than %d groups", GUARD_ACCESS_MAX);
    int result = quota_find_group(name, &access->groups[access->group_count], reterr);
    if (result < 0) return result;
    access->group_count++;
    return keep_name(access->group_names, name, reterr);
}

/* An empty list allows only root and the service's own user. */
static int each_name(struct guard_access *access, const char *names,
                     int (*add)(struct guard_access *access, const char *name, struct error *reterr),
                     struct error *reterr) {
    CLEANUP_FREE char *copy = strdup(names);
    char *rest = copy;
    int result = copy ? 0 : error_set(reterr, E_NO_MEMORY, "no memory for a profile");
    access->is_restricted = true;
    for (char *word; result == 0 && (word = strsep(&rest, ", \t"));)
        if (word[0]) result = add(access, word, reterr);
    return result;
}

int guard_access_users(struct guard_access *access, const char *names, struct error *reterr) {
    return each_name(access, names, add_user, reterr);
}

int guard_access_groups(struct guard_access *access, const char *names, struct error *reterr) {
    return each_name(access, names, add_group, reterr);
}

bool guard_access_allows(const struct guard_access *access, uid_t uid, bool (*in_group)(void *data, gid_t gid),
                         void *data) {
    if (!access->is_restricted) return true;
    for (size_t i = 0; i < access->user_count; i++)
        if (access->users[i] == uid) return true;
    for (size_t i = 0; i < access->group_count; i++)
        if (in_group(data, access->groups[i])) return true;
    return false;
}
