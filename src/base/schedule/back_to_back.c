/* Back-to-back requests: counted until the row is long enough. */
#include "base/schedule/back_to_back.h"

bool back_to_back_note(struct back_to_back *row, const void *party, uint64_t now_ms) {
    bool is_next = row->party == party && now_ms - row->asked_ms <= BACK_TO_BACK_PAUSE_MS;
    unsigned before = is_next ? row->length : 0;
    *row = (struct back_to_back){party, now_ms, before < BACK_TO_BACK_LEAST ? before + 1 : before};
    return before == BACK_TO_BACK_LEAST;
}
