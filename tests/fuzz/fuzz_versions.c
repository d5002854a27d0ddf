/* Any bytes as .tool-versions, mise.toml and kerl's list: what is read of them is within bounds, and harmless text. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/toolchains/own_pairs.h"
#include "fuzz/harness/fuzz.h"

static void check(bool holds) {
    if (!holds) abort();
}

static void check_version(const char *version) {
    check(strlen(version) < VERSION_BYTES);
    for (; *version; version++) check(*version > ' ' && *version <= '~');
}

static void check_wanted(const struct wanted_versions *wanted) {
    static const struct version_candidate candidates[] = {{.otp = "25.2.3", .elixir = "1.14.0", .is_system = true},
                                                          {.otp = "27", .elixir = ""}};
    check_version(wanted->erlang);
    check_version(wanted->elixir);
    check(versions_choose(wanted, candidates, ARRAY_SIZE(candidates)) <= ARRAY_SIZE(candidates));
}

void fuzz_one(const uint8_t *data, size_t size) {
    struct wanted_versions wanted = {0}, both = {0};
    struct own_found found[OWN_FOUND_MAX];
    struct own_pair pairs[OWN_PAIRS_MAX];
    const char *text = (const char *)data;
    wanted_read_tool_versions(text, size, &wanted);
    check_wanted(&wanted);
    wanted_read_mise(text, size, &both);
    check_wanted(&both);
    size_t count = own_read_kerl(text, size, found, OWN_FOUND_MAX);
    check(count <= OWN_FOUND_MAX);
    for (size_t i = 0; i < count; i++) check(own_version_is_valid(found[i].version) && found[i].path[0] == '/');
    size_t made = own_make_pairs(found, count, pairs);
    for (size_t i = 0; i < made; i++) check(own_manager_of(pairs[i].name) == OWN_KERL);
    for (size_t i = 0; i < count; i++) free(found[i].path);
}
