/* How fast a stranger is read: in the long run no faster than a budget grows, however much it sends. */
#include "node/node_internal.h"

void pace_start(struct pace *pace, int64_t burst_bytes, int64_t bytes_per_ms, uint64_t now_ms) {
    *pace = (struct pace){
        .budget_bytes = burst_bytes, .burst_bytes = burst_bytes, .bytes_per_ms = bytes_per_ms, .at_ms = now_ms};
}

uint64_t pace_spend(struct pace *pace, uint64_t bytes, uint64_t now_ms) {
    int64_t missing = pace->burst_bytes - pace->budget_bytes;
    uint64_t full_after_ms = (uint64_t)(missing / pace->bytes_per_ms);
    if (now_ms - pace->at_ms > full_after_ms)
        pace->budget_bytes = pace->burst_bytes;
    else
        pace->budget_bytes += (int64_t)(now_ms - pace->at_ms) * pace->bytes_per_ms;
    pace->at_ms = now_ms;
    pace->budget_bytes -= (int64_t)bytes;
    return pace->budget_bytes < 0 ? (uint64_t)(-pace->budget_bytes / pace->bytes_per_ms) + PACE_PAUSE_MIN_MS : 0;
}
