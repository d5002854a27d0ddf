/* What was found in a user's folders of mise, asdf and kerl, as pairs of OTP and Elixir with names. Pure. */
#ifndef CORE_TOOLCHAINS_OWN_PAIRS_H
#define CORE_TOOLCHAINS_OWN_PAIRS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/toolchains/versions.h"

enum {
    OWN_FOUND_MAX = 128, /* installations of one user that are looked at */
    OWN_PAIRS_MAX = 24,  /* toolchains of one user */
    OWN_NAME_BYTES = 80,
};

enum own_manager { OWN_MISE, OWN_ASDF, OWN_KERL, OWN_MANAGERS };

extern const char *const own_manager_names[OWN_MANAGERS];

struct own_found {
    enum own_manager manager;
    bool is_elixir;
    char version[VERSION_BYTES]; /* the folder's name; of kerl, the installation's */
    char *path;
};

struct own_pair {
    char name[OWN_NAME_BYTES];            /* "mise:27.2", "mise:27.2+1.18.1-otp-27" */
    const struct own_found *otp, *elixir; /* elixir NULL: OTP alone */
    bool is_double;                       /* there is another of that name */
};

/* Each OTP alone, and with every Elixir of its manager that was built for it. An Elixir that does not say for which OTP
   it was built goes with the newest one that it can run on. Newest first. */
size_t own_make_pairs(const struct own_found *found, size_t count, struct own_pair ret[OWN_PAIRS_MAX]);
/* Lines "NAME PATH" of kerl's list; at most max. */
size_t own_read_kerl(const char *text, size_t size, struct own_found *ret, size_t max);
bool own_version_is_valid(const char *name);
/* The manager of a name: "mise:…"; OWN_MANAGERS: it is no user's own. */
enum own_manager own_manager_of(const char *name);

#endif
