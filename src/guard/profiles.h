/* Profiles: what the jail enforces and what is said about it, together. The three of old, and the user's own, which
   take after another one and change some of it. */
#ifndef GUARD_PROFILES_H
#define GUARD_PROFILES_H

#include "guard/access.h"
#include "guard/escalation.h"
#include "guard/guard.h"
#include "jail/jail.h"

enum { GUARD_PROFILES_MAX = 64 };

/* What is done with what a scan finds. */
enum guard_scan { GUARD_SCAN_OFF, GUARD_SCAN_REPORT, GUARD_SCAN_REFUSE };
/* What of a sandbox is in the audit trail. */
enum guard_audit { GUARD_AUDIT_CHANGES, GUARD_AUDIT_ALL };

struct guard_profile {
    struct jail_profile jail;       /* first: whoever has it has all */
    char inherits[JAIL_NAME_BYTES]; /* "" for none */
    char summary[160];
    char operation_names[400];
    operation_set operations;
    enum guard_scan scan;
    enum guard_audit audit;
    struct escalation_policy on_violation;
    struct guard_access access; /* who may choose it; its own, or what it inherits */
    bool has_own_access;
};

struct guard_profiles {
    struct guard_profile *items; /* they stay where they are */
    size_t count;
};

/* The built-in ones, and those that text has: sections [profile NAME] of lines `key = value`, and [access NAME], which
   says who may choose a profile, a built-in one too. NULL: none. Errors name the line, counted from the text's first.
 */
int guard_profiles_read(const char *text, struct guard_profiles *ret, struct error *reterr);
void guard_profiles_free(struct guard_profiles *profiles);
const struct guard_profile *guard_profile_find(const struct guard_profiles *profiles, const char *name);

static inline const struct guard_profile *guard_profile_of(const struct jail_profile *jail) {
    return (const struct guard_profile *)jail;
}

const char *guard_scan_name(enum guard_scan scan);
const char *guard_audit_name(enum guard_audit audit);
const char *guard_containment_name(enum guard_containment containment);

#endif
