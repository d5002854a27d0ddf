/* containment: what a profile says of the code that a sandbox is about to run, and of a sandbox that tried what is
   refused. */
#ifndef CORE_POLICY_CONTAINMENT_H
#define CORE_POLICY_CONTAINMENT_H

#include <stdatomic.h>
#include <stdio.h>
#include <uv.h>

#include "code/code.h"
#include "compile/check/scan_run.h"
#include "core/alarms.h"
#include "core/patterns.h"
#include "guard/escalation.h"
#include "guard/profiles.h"

struct engine;
struct sandbox;

/* What violations led to. */
struct containment {
    struct escalation escalation;
    enum guard_containment due; /* LOG: nothing */
    bool is_rolling_back;
    char what[128];     /* the violation that led to it */
    uv_timer_t destroy; /* in the loop's next turn, or once more when the registry could not take it */
};

/* What a sandbox tried that is refused, and what is done about it. */
struct security_state {
    struct alarms alarms; /* of violations */
    struct containment containment;
    struct patterns patterns;
    bool is_freezing; /* the launcher has been asked to, for the engine's own reasons */
};

/* What the code of a sandbox is scanned for: its profile, with the network operations that its ports are for. */
struct guard_profile containment_profile(const struct sandbox *sandbox);
/* Blocking; for the thread pool. *ret_summary, where it is set, is for the caller's answer, also when the code is
   refused, which is E_POLICY: profile, policy, finding_count, dynamic_count and the first findings. */
int containment_scan_build(const struct guard_profile *profile, const char *build, atomic_bool *call_off,
                           json_t **ret_summary, struct error *reterr);
int containment_scan_changes(const struct guard_profile *profile, const struct change_set *changes,
                             json_t **ret_summary, struct error *reterr);
/* What an earlier scan of a build found, for one more answer; NULL when that is not known. Builds never change;
   profiles that do are new ones, and nothing is known then. */
json_t *containment_known_scan(const struct engine *engine, const struct guard_profile *profile, const char *digest);
void containment_remember_scan(struct engine *engine, const struct guard_profile *profile, const char *digest,
                               json_t *summary);

/* ---- containment_act.c ---- */

/* Code was refused: the world hears of it, and the profile says what follows. */
void containment_refused(struct sandbox *sandbox, const struct error *error);
/* After a violation was told: what its profile says, and more when it is one of many. */
void containment_note(struct sandbox *sandbox, const char *what);
/* Its status has changed: what was due may be possible now. */
void containment_wake(struct sandbox *sandbox);

#endif
