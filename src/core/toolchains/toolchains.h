/* toolchains: the pairs of OTP and Elixir that sandboxes can run on, by name. Each is found and probed when it is first
   needed. The first one is the default. */
#ifndef CORE_TOOLCHAINS_TOOLCHAINS_H
#define CORE_TOOLCHAINS_TOOLCHAINS_H

#include <jansson.h>

#include "node/node.h"

struct engine;

enum {
    TOOLCHAINS_MAX = 32,
    TOOLCHAIN_NAME_BYTES = 65,
    TOOLCHAIN_RETRY_MS = 5000,
};

#define TOOLCHAIN_SYSTEM "system" /* the name of what --otp, --elixir and PATH tell */

struct toolchain_waiter;

struct toolchain_entry {
    struct engine *engine;
    char name[TOOLCHAIN_NAME_BYTES];
    char *otp, *elixir, *root;  /* as the settings have them; NULL: not given */
    struct toolchain toolchain; /* otp_root is "" until it is found, boot_dir until it is probed */
    struct error error;         /* why it can't be used; E_NONE: it can, or that is not known yet */
    bool is_probing;
    uint64_t retry_at_ms; /* a probe that failed is not repeated before, whatever callers ask */
    bool is_gone;         /* the settings do not have it any more */
    struct toolchain_waiter *waiters;
};

struct toolchains {
    struct toolchain_entry *items[TOOLCHAINS_MAX]; /* each at a lasting address: nodes and compilers refer to it */
    size_t count;
};

/* The system's own, and those of the text: sections [toolchain NAME] with `otp`, `elixir` or `root`. */
int toolchains_open(struct engine *engine, const char *text, struct error *reterr);
/* A new one, of which nothing is known yet. */
int toolchains_add(struct engine *engine, const char *name, struct toolchain_entry **ret, struct error *reterr);
void toolchains_free(struct toolchains *toolchains);
void toolchains_abort_probes(struct toolchains *toolchains);     /* their waiters are told soon */
bool toolchains_are_probed(const struct toolchains *toolchains); /* no probe is under way */

struct toolchain_entry *toolchains_default(struct engine *engine);
/* "" or NULL names the default. E_INVALID: there is none of that name. */
int toolchains_find(struct engine *engine, const char *name, struct toolchain_entry **ret, struct error *reterr);

/* The same for a sandbox of an earlier daemon: a toolchain that is not listed any more is one that can't be used. */
int toolchains_restore(struct engine *engine, const char *name, struct toolchain_entry **ret, struct error *reterr);

/* Find and probe the toolchain unless that is done already; then done is called from inside. */
void toolchain_need(struct toolchain_entry *entry, void (*done)(void *data, const struct error *error), void *data);

#endif
