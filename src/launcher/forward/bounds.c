/* What bounds a forwarder, and the page that it shares with the launcher and the daemon. */
#include "launcher/forward/forward.h"

enum { MILLI = 1000, CONNECTIONS_USUAL = 256 };

bool forward_rate_take(struct forward_rate *rate, uint64_t rate_max, uint64_t now_ms, uint64_t *ret_due_ms) {
    if (rate_max == 0) {
        *rate = (struct forward_rate){0};
        return true;
    }
    uint64_t most_milli = rate_max * MILLI, passed_ms = now_ms - rate->at_ms;
    uint64_t gained_milli = passed_ms >= MILLI ? most_milli : passed_ms * rate_max; /* a second's worth at most */
    rate->at_ms = now_ms;
    rate->tokens_milli =
        rate->tokens_milli + gained_milli > most_milli ? most_milli : rate->tokens_milli + gained_milli;
    if (rate->tokens_milli >= MILLI) {
        rate->tokens_milli -= MILLI;
        return true;
    }
    *ret_due_ms = now_ms + (MILLI - rate->tokens_milli + rate_max - 1) / rate_max;
    return false;
}

void forward_rate_give_back(struct forward_rate *rate) {
    rate->tokens_milli += MILLI;
}

/* The launcher may write there at any moment. */
struct jail_port_bounds forward_bounds(const struct forward *forward) {
    const struct jail_port_bounds *shared = &forward->page->bounds;
    struct jail_port_bounds bounds = {__atomic_load_n(&shared->connections, __ATOMIC_RELAXED),
                                      __atomic_load_n(&shared->rate, __ATOMIC_RELAXED)};
    if (bounds.connections == 0) bounds.connections = CONNECTIONS_USUAL;
    if (bounds.connections > FORWARD_CONNECTIONS_MAX) bounds.connections = FORWARD_CONNECTIONS_MAX;
    if (bounds.rate > UINT32_MAX) bounds.rate = UINT32_MAX;
    return bounds;
}

void forward_tell(const struct forward *forward, const struct jail_port_counts *counts) {
    struct jail_port_counts *shared = &forward->page->counts;
    __atomic_store_n(&shared->connections, counts->connections, __ATOMIC_RELAXED);
    __atomic_store_n(&shared->open, counts->open, __ATOMIC_RELAXED);
    __atomic_store_n(&shared->in_bytes, counts->in_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&shared->out_bytes, counts->out_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&shared->refused, counts->refused, __ATOMIC_RELAXED);
}
