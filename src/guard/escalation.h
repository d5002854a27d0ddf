/* What becomes of a sandbox that does what is refused, and what when it does not stop: the steps of its profile, one
   after the other. Pure: the clock is the caller's. */
#ifndef GUARD_ESCALATION_H
#define GUARD_ESCALATION_H

#include <stddef.h>
#include <stdint.h>

/* In the order of their severity. */
#define GUARD_CONTAINMENT_LIST(X)                                                                                      \
    X(LOG, "log")           /* it is told, and no more */                                                              \
    X(ROLLBACK, "rollback") /* the code from before its last change runs again */                                      \
    X(FREEZE, "freeze")     /* it stands still until somebody has looked */                                            \
    X(DESTROY, "destroy")

enum guard_containment {
#define X(name, text) GUARD_##name,
    GUARD_CONTAINMENT_LIST(X)
#undef X
        GUARD_CONTAINMENTS
};

struct escalation_policy {
    uint8_t steps[GUARD_CONTAINMENTS]; /* enum guard_containment, each severer than the one before; the first is LOG
                                          when nothing was said */
    size_t step_count;
    uint32_t after;     /* violations of one step that it takes to get to the next */
    uint64_t within_ms; /* counted from the first of them; as long without any begins anew */
};

/* Of one sandbox; all zero at first. */
struct escalation {
    size_t step;
    uint32_t count; /* since began_ms */
    uint64_t began_ms, last_ms;
};

/* One more violation: what is to follow. */
enum guard_containment escalation_note(struct escalation *escalation, const struct escalation_policy *policy,
                                       uint64_t now_ms);
/* The step did not work: the next, or the severest there is; freezing where the profile has none. */
enum guard_containment escalation_next(struct escalation *escalation, const struct escalation_policy *policy,
                                       enum guard_containment failed);

#endif
