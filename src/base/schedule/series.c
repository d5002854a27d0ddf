#include "base/schedule/series.h"

bool series_goes_on(struct series *series, const void *whom, uint64_t now_ms) {
    bool is_next = series->whom == whom && now_ms - series->asked_ms <= SERIES_PAUSE_MS;
    unsigned before = is_next ? series->length : 0;
    *series = (struct series){whom, now_ms, before < SERIES_LEAST ? before + 1 : before};
    return before == SERIES_LEAST;
}
