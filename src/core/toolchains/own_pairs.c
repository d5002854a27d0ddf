/* Names and pairs of a user's own installations. */
#include "core/toolchains/own_pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "node/node.h"

const char *const own_manager_names[OWN_MANAGERS] = {"mise", "asdf", "kerl"};

enum own_manager own_manager_of(const char *name) {
    for (enum own_manager i = 0; i < OWN_MANAGERS; i++) {
        size_t length = strlen(own_manager_names[i]);
        if (strncmp(name, own_manager_names[i], length) == 0 && name[length] == ':') return i;
    }
    return OWN_MANAGERS;
}

bool own_version_is_valid(const char *name) {
    return strlen(name) < VERSION_BYTES && name[0] != '.' && name[0] != '-' && !strchr(name, '+') &&
           toolchain_version_is_plain(name);
}

static int compare_newest_first(const void *one, const void *other) {
    const struct own_found *const *a = one, *const *b = other;
    return strverscmp((*b)->version, (*a)->version);
}

static unsigned release_of(const struct own_found *otp) {
    return (unsigned)strtoul(otp->version, NULL, 10); /* 0 for a name that is no version */
}

static bool can_run(const struct own_found *elixir, const struct own_found *otp) {
    struct error ignored;
    unsigned release = release_of(otp), build = version_built_for(elixir->version);
    if (elixir->manager != otp->manager) return false;
    if (build > 0) return release == build;
    return toolchain_check_fit(release, elixir->version, &ignored) == 0;
}

struct making {
    const struct own_found *otps[OWN_FOUND_MAX], *elixirs[OWN_FOUND_MAX];
    size_t otp_count, elixir_count;
    bool is_placed[OWN_FOUND_MAX]; /* the Elixir goes with no other OTP */
    struct own_pair *pairs;
    size_t count;
};

static void add(struct making *making, const struct own_found *otp, const struct own_found *elixir) {
    if (making->count == OWN_PAIRS_MAX) return;
    struct own_pair *pair = &making->pairs[making->count++];
    *pair = (struct own_pair){.otp = otp, .elixir = elixir};
    snprintf(pair->name, sizeof pair->name, "%s:%s%s%s", own_manager_names[otp->manager], otp->version,
             elixir ? "+" : "", elixir ? elixir->version : "");
    for (size_t i = 0; i + 1 < making->count; i++)
        if (strcmp(making->pairs[i].name, pair->name) == 0) making->pairs[i].is_double = pair->is_double = true;
}

/* One that does not say what it was built for goes with the newest alone. */
static bool goes_with(struct making *making, size_t elixir, size_t otp) {
    const struct own_found *found = making->elixirs[elixir];
    if (making->is_placed[elixir] || !can_run(found, making->otps[otp])) return false;
    making->is_placed[elixir] = version_built_for(found->version) == 0;
    return true;
}

size_t own_make_pairs(const struct own_found *found, size_t count, struct own_pair ret[OWN_PAIRS_MAX]) {
    struct making making = {.pairs = ret};
    for (size_t i = 0; i < count && i < OWN_FOUND_MAX; i++)
        if (found[i].is_elixir)
            making.elixirs[making.elixir_count++] = &found[i];
        else
            making.otps[making.otp_count++] = &found[i];
    qsort(making.otps, making.otp_count, sizeof *making.otps, compare_newest_first);
    qsort(making.elixirs, making.elixir_count, sizeof *making.elixirs, compare_newest_first);
    for (size_t i = 0; i < making.otp_count; i++) {
        for (size_t n = 0; n < making.elixir_count; n++)
            if (goes_with(&making, n, i)) add(&making, making.otps[i], making.elixirs[n]);
        add(&making, making.otps[i], NULL);
    }
    return making.count;
}

static bool read_kerl_line(const char *line, size_t length, struct own_found *ret) {
    const char *space = memchr(line, ' ', length);
    if (!space || (size_t)(space - line) >= VERSION_BYTES) return false;
    size_t path_length = length - (size_t)(space - line) - 1;
    struct own_found found = {.manager = OWN_KERL};
    memcpy(found.version, line, (size_t)(space - line));
    if (!own_version_is_valid(found.version) || path_length >= PATH_MAX || space[1] != '/' ||
        memchr(line, '\0', length))
        return false;
    found.path = strndup(space + 1, path_length);
    *ret = found;
    return found.path;
}

size_t own_read_kerl(const char *text, size_t size, struct own_found *ret, size_t max) {
    size_t count = 0;
    for (const char *at = text, *end = text + size; at < end && count < max;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = newline ? (size_t)(newline - at) : (size_t)(end - at);
        count += read_kerl_line(at, length, &ret[count]);
        at += length + 1;
    }
    return count;
}
