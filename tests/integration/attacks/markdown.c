/* Prints docs/attacks.md from the tables of attacks. */
#include "attacks.h"

static void print_profiles(FILE *file, unsigned where) {
    static const char *const names[] = {"high", "medium", "low", "macro", "transform", "both at length"};
    const char *separator = "";
    for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
        if (!(where & 1u << i)) continue;
        fprintf(file, "%s%s", separator, names[i]);
        separator = ", ";
    }
}

static void print_row(FILE *file, const struct attack *attack) {
    fprintf(file, "| %s | ", attack->tries);
    print_profiles(file, attack->where);
    if (attack->is_long) fputs(" (long)", file);
    fprintf(file, " | %s | %s | ", attack->wall, attack->fate == DIES ? "it ends, alone" : "refused");
    if (attack->seen_kind)
        fprintf(file, "`%s`: `%s`", attack->seen_kind, attack->seen_value);
    else
        fputs("–", file);
    fprintf(file, " | `%s` |\n", attack->name);
}

void print_attacks(FILE *file, const struct attack_table *const *tables, size_t count) {
    fputs(
        "# Attacks\n\n"
        "What hostile code tries, what contains it, and what is seen of it. Every row is a test in "
        "`tests/integration`, run at\neach place named: in a sandbox of a profile, and in the jail of the compiler, "
        "as a *macro* of an Elixir project or in an\nErlang parse *transform* (by `make stress`, as all that is *at "
        "length*). "
        "An attack that ends its VM runs at one of its profiles in\nevery run of the tests, and at all of them by "
        "`make stress`. `make test` leaves two\nkinds to `make test-long`: what is *long*, since another row tries the "
        "same wall, and what ends a compiler. After each\nattack a neighbour sandbox must be the same process with the "
        "same state, and so must the service.\n\n"
        "Hostile code is taken to have native code at every profile: the attacks on the kernel run at `high` and "
        "`medium` in\nprofiles that add the `nif` operation to them and keep their filter.\n\n"
        "This file is made by `test_attacks --markdown`, and a test compares it.\n",
        file);
    for (size_t i = 0; i < count; i++) {
        fprintf(file, "\n## %s\n\n| attack | at | contained by | outcome | event | test |\n|---|---|---|---|---|---|\n",
                tables[i]->title);
        for (size_t row = 0; row < tables[i]->count; row++) print_row(file, &tables[i]->rows[row]);
    }
}
