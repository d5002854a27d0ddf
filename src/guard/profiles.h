/* Profiles: what the jail enforces and what the guard decides, together. There are built-in profiles, and those of the
   settings, which inherit from another one and change parts of it. */
#ifndef GUARD_PROFILES_H
#define GUARD_PROFILES_H

#include "guard/access.h"
#include "guard/escalation.h"
#include "guard/guard.h"
#include "jail/jail.h"

enum { GUARD_PROFILES_MAX = 64 };

/* What happens with findings of a scan. */
enum guard_scan { GUARD_SCAN_OFF, GUARD_SCAN_REPORT, GUARD_SCAN_REFUSE };
/* Which operations on a sandbox the audit trail records. */
enum guard_audit { GUARD_AUDIT_CHANGES, GUARD_AUDIT_ALL };

struct guard_profile {
    struct jail_profile jail;
    char inherits[JAIL_NAME_BYTES]; /* "" for none */
    char summary[160];
    char operation_names[400];
    operation_set operations;
    enum guard_scan scan;
    enum guard_audit audit;
    unsigned forbids_publish, forbids_connect; /* which is no operation: the host's side is the caller's */
    struct escalation_policy on_violation;
    struct guard_access access; /* who may choose it: its own list or the inherited one */
    bool has_own_access;
};

struct guard_profiles {
    struct guard_profile *items; /* never moved */
    size_t count;
};

/* Reads the built-in profiles and those of the text: sections [profile NAME] of lines `key = value`, and [access NAME],
   which restricts a profile to users and groups. NULL: built-in ones only. Errors name the line of the text, from 1. */
int guard_profiles_read(const char *text, struct guard_profiles *ret, struct error *reterr);
void guard_profiles_free(struct guard_profiles *profiles);
const struct guard_profile *guard_profile_find(const struct guard_profiles *profiles, const char *name);

/* Each setting that a profile may have, limits among them. */
void guard_profile_settings(void (*tell)(const char *name, const char *summary));

const char *guard_scan_name(enum guard_scan scan);
const char *guard_audit_name(enum guard_audit audit);
const char *guard_containment_name(enum guard_containment containment);

#endif
