/* Decides when changes to files have settled, from the times and kinds of events. Pure functions. */
#include "watch/watch.h"

enum {
    SAVE_QUIET_MS = 5,    /* after the last event of one save */
    GONE_QUIET_MS = 30,   /* an editor that moved the old file away writes the new one now */
    OPEN_QUIET_MS = 60,   /* a writer that is silent for this long may never close the file */
    STEPS_OF_A_SAVE = 4,  /* events of one save, with backups and renames */
    MORE_PER_STEP_MS = 5, /* more events are a branch switch or the like; the wait grows with them */
    QUIET_MAX_MS = 200,
    PATIENCE_MS = 2000, /* files that are written without end are read after this time */
};

void watch_debounce_note(struct watch_debounce *debounce, uint64_t now_ms, enum watch_sign sign) {
    if (debounce->count == 0) debounce->first_ms = now_ms;
    debounce->last_ms = now_ms;
    debounce->last = sign;
    debounce->count++;
    if (sign != WATCH_SIGN_OPEN) debounce->complete++;
}

bool watch_debounce_rejoin(struct watch_debounce *debounce, const struct watch_debounce *covered, uint64_t now_ms) {
    if (debounce->count == 0 || covered->count == 0 || now_ms >= covered->first_ms + PATIENCE_MS) return false;
    debounce->first_ms = covered->first_ms;
    debounce->count += covered->count;
    debounce->complete += covered->complete;
    return true;
}

static uint64_t quiet_ms(const struct watch_debounce *debounce) {
    static const uint64_t after[] = {
        [WATCH_SIGN_DONE] = SAVE_QUIET_MS, [WATCH_SIGN_OPEN] = OPEN_QUIET_MS, [WATCH_SIGN_GONE] = GONE_QUIET_MS};
    uint64_t quiet = after[debounce->last];
    uint64_t many = debounce->complete > STEPS_OF_A_SAVE
                        ? SAVE_QUIET_MS + (uint64_t)(debounce->complete - STEPS_OF_A_SAVE) * MORE_PER_STEP_MS
                        : 0;
    if (many > QUIET_MAX_MS) many = QUIET_MAX_MS;
    return many > quiet ? many : quiet;
}

uint64_t watch_debounce_due_ms(const struct watch_debounce *debounce) {
    if (debounce->count == 0) return UINT64_MAX;
    uint64_t settled_ms = debounce->last_ms + quiet_ms(debounce), latest_ms = debounce->first_ms + PATIENCE_MS;
    return settled_ms < latest_ms ? settled_ms : latest_ms;
}
