/* The addresses that a name had lately, and how sandboxes share the places for them. Pure. */
#include <string.h>

#include "core/network/names.h"

static bool is_same(const struct jail_host *a, const struct jail_host *b) {
    return a->is_v6 == b->is_v6 && memcmp(a->address, b->address, sizeof a->address) == 0;
}

static size_t find(const struct known_addresses *known, const struct jail_host *host) {
    size_t at = 0;
    while (at < known->count && !is_same(&known->hosts[at], host)) at++;
    return at;
}

static size_t find_oldest(const struct known_addresses *known) {
    size_t oldest = 0;
    for (size_t i = 1; i < known->count; i++)
        if (known->told_ms[i] < known->told_ms[oldest]) oldest = i;
    return oldest;
}

static bool forget_old(struct known_addresses *known, uint64_t now_ms) {
    size_t kept = 0, before = known->count;
    for (size_t i = 0; i < before; i++) {
        if (now_ms - known->told_ms[i] > NAME_KEPT_MS) continue;
        known->hosts[kept] = known->hosts[i];
        known->told_ms[kept++] = known->told_ms[i];
    }
    known->count = kept;
    return kept != before;
}

bool known_addresses_update(struct known_addresses *known, const struct jail_host *told, size_t count,
                            uint64_t now_ms) {
    bool is_changed = forget_old(known, now_ms);
    for (size_t i = 0; i < count && i < NAME_ADDRESSES_MAX; i++) {
        size_t at = find(known, &told[i]);
        if (at == known->count) {
            is_changed = true;
            at = known->count < NAME_ADDRESSES_MAX ? known->count++ : find_oldest(known);
            known->hosts[at] = told[i];
        }
        known->told_ms[at] = now_ms;
    }
    return is_changed;
}

size_t known_addresses_newest(const struct known_addresses *known, size_t max, struct jail_host *ret) {
    struct known_addresses left = *known;
    while (left.count > max) {
        size_t oldest = find_oldest(&left);
        left.count--;
        left.hosts[oldest] = left.hosts[left.count];
        left.told_ms[oldest] = left.told_ms[left.count];
    }
    memcpy(ret, left.hosts, left.count * sizeof *ret);
    return left.count;
}

static size_t at_most(size_t wanted, size_t max) {
    return wanted < max ? wanted : max;
}

void names_share(const size_t *wanted, size_t count, size_t room, size_t *ret_parts) {
    size_t left = room;
    for (size_t i = 0; i < count; i++) left -= ret_parts[i] = at_most(wanted[i], room / count);
    for (size_t i = 0; i < count; i++) {
        size_t more = at_most(wanted[i] - ret_parts[i], left);
        ret_parts[i] += more;
        left -= more;
    }
}
