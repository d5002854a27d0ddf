/* Chooses the containment step that follows a violation, by the profile's policy. Pure functions. */
#include "guard/escalation.h"

static enum guard_containment step_of(const struct escalation *escalation, const struct escalation_policy *policy) {
    return escalation->step < policy->step_count ? (enum guard_containment)policy->steps[escalation->step] : GUARD_LOG;
}

static void begin_window(struct escalation *escalation, uint64_t now_ms) {
    escalation->began_ms = now_ms;
    escalation->count = 0;
}

enum guard_containment escalation_note(struct escalation *escalation, const struct escalation_policy *policy,
                                       uint64_t now_ms) {
    if (now_ms - escalation->last_ms >= policy->within_ms) escalation->step = 0; /* the violations had stopped */
    if (now_ms - escalation->began_ms >= policy->within_ms || escalation->count == 0) begin_window(escalation, now_ms);
    escalation->last_ms = now_ms;
    if (++escalation->count > policy->after && escalation->step + 1 < policy->step_count) {
        escalation->step++;
        begin_window(escalation, now_ms);
        escalation->count = 1;
    }
    return step_of(escalation, policy);
}

enum guard_containment escalation_next(struct escalation *escalation, const struct escalation_policy *policy,
                                       enum guard_containment failed) {
    while (escalation->step + 1 < policy->step_count && step_of(escalation, policy) <= failed) escalation->step++;
    enum guard_containment next = step_of(escalation, policy);
    return next > failed ? next : failed < GUARD_FREEZE ? GUARD_FREEZE : failed;
}
