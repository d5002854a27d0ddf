/* Guarantees: their names, what each means, and which hold for a node of a profile. */
#include <string.h>

#include "jail/jail.h"

static const struct {
    const char *name;
    const char *meaning;
} guarantees[JAIL_GUARANTEE_COUNT] = {
#define X(name, slug, meaning) [JAIL_GUARANTEE_##name] = {slug, meaning},
    JAIL_GUARANTEE_LIST(X)
#undef X
};

const char *jail_guarantee_name(enum jail_guarantee guarantee) {
    return guarantees[guarantee].name;
}

const char *jail_guarantee_meaning(enum jail_guarantee guarantee) {
    return guarantees[guarantee].meaning;
}

int jail_guarantee_find(const char *name, enum jail_guarantee *ret) {
    for (unsigned i = 0; i < JAIL_GUARANTEE_COUNT; i++)
        if (strcmp(guarantees[i].name, name) == 0) {
            *ret = i;
            return 0;
        }
    return -1;
}

uint32_t jail_guarantees_of(const struct jail_features *features, const struct jail_profile *profile) {
    uint32_t given = features->guarantees;
    bool is_unbounded = profile->network != JAIL_NETWORK_NONE && !(given & 1u << JAIL_GUARANTEE_SOCKETS);
    /* A limit on memory that buffers of sockets pass by is none. */
    return is_unbounded ? given & ~(1u << JAIL_GUARANTEE_MEMORY) : given;
}
