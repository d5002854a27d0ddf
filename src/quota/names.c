/* Names of users and groups, as settings have them. */
#include <grp.h>
#include <pwd.h>

#include "quota/quota.h"

static bool parse_id(const char *text, uint32_t *ret) {
    uint64_t number;
    if (!parse_u64(text, &number) || number >= UINT32_MAX) return false;
    *ret = (uint32_t)number;
    return true;
}

int quota_find_user(const char *name, uid_t *ret, struct error *reterr) {
    if (parse_id(name, ret)) return 0;
    const struct passwd *user = getpwnam(name);
    if (!user) return error_set(reterr, E_INVALID, "there is no user '%.60s' on this machine", name);
    *ret = user->pw_uid;
    return 0;
}

int quota_find_group(const char *name, gid_t *ret, struct error *reterr) {
    if (parse_id(name, ret)) return 0;
    const struct group *group = getgrnam(name);
    if (!group) return error_set(reterr, E_INVALID, "there is no group '%.60s' on this machine", name);
    *ret = group->gr_gid;
    return 0;
}
