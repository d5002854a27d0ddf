/* Escalation: the steps that a profile takes against a sandbox that violates its limits, each severer than the last.
   Pure: the caller gives the time. */
#ifndef GUARD_ESCALATION_H
#define GUARD_ESCALATION_H

#include <stddef.h>
#include <stdint.h>

/* In the order of their severity. */
#define GUARD_CONTAINMENT_LIST(X)                                                                                      \
    X(LOG, "log")           /* only an event */                                                                        \
    X(ROLLBACK, "rollback") /* runs the code from before its last change */                                            \
    X(FREEZE, "freeze")     /* freezes it until an operator decides */                                                 \
    X(DESTROY, "destroy")

enum guard_containment {
#define X(name, text) GUARD_##name,
    GUARD_CONTAINMENT_LIST(X)
#undef X
        GUARD_CONTAINMENTS
};

struct escalation_policy {
    uint8_t steps[GUARD_CONTAINMENTS]; /* enum guard_containment, in rising severity; the first is LOG by default */
    size_t step_count;
    uint32_t after;     /* violations of one step that lead to the next */
    uint64_t within_ms; /* counted from the first violation; the same time without any resets the steps */
};

/* The state of one sandbox; all zero at first. */
struct escalation {
    size_t step;
    uint32_t count; /* since began_ms */
    uint64_t began_ms, last_ms;
};

/* Notes one more violation and returns the step that follows. */
enum guard_containment escalation_note(struct escalation *escalation, const struct escalation_policy *policy,
                                       uint64_t now_ms);
/* The step failed: returns the next one, or the severest there is; freezing where the profile has none. */
enum guard_containment escalation_next(struct escalation *escalation, const struct escalation_policy *policy,
                                       enum guard_containment failed);

#endif
