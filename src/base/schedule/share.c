/* How much of a shared pool one user may take while others want some. Pure. */
#include "base/schedule/share.h"

static uint64_t little_of(uint64_t all) {
    return all < SHARE_LITTLE_PART ? 1 : all / SHARE_LITTLE_PART;
}

bool share_is_fair(const struct share *share, bool is_bound) {
    uint64_t all = share->all;
    if (!is_bound) return share->used <= all;
    uint64_t open = all - all / SHARE_KEPT_PART, common = open - all / SHARE_SPARE_PART;
    if (share->own <= little_of(all)) return share->used <= open;
    return share->used <= common && share->own <= (common - share->used) / 2;
}
