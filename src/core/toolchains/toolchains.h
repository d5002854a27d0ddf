/* toolchains: the pairs of OTP and Elixir that sandboxes can run on, by name. Each is found and probed when it is first
   needed. The system's and the operator's are for all callers; own.h has those of single users. */
#ifndef CORE_TOOLCHAINS_TOOLCHAINS_H
#define CORE_TOOLCHAINS_TOOLCHAINS_H

#include <jansson.h>

#include "node/node.h"

struct engine;

enum {
    TOOLCHAINS_MAX = 32,
    TOOLCHAIN_NAME_BYTES = 81,
    TOOLCHAIN_NAMED_MAX = 64, /* bytes of a name in the settings */
    TOOLCHAIN_RETRY_MS = 5000,
};

#define TOOLCHAIN_SYSTEM "system" /* the name of what --otp, --elixir and PATH tell */

struct toolchain_waiter;

/* Where a user's own is. */
struct own_place {
    uid_t uid;
    char *home;         /* that the folders lie in */
    char *otp, *elixir; /* the folders; elixir NULL: there is none */
};

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

    /* Of a user's own. */
    struct own_place *own; /* NULL: it is for all callers */
    struct toolchain_entry *next;
    struct toolchain_entry *successor; /* its files have changed since: this one has them as they are now */
    uint64_t checked_at_ms;            /* when its files were looked at last */
    uint64_t used_at_ms;
    unsigned uses; /* sandboxes and jobs that have it */
};

struct toolchains {
    struct toolchain_entry *items[TOOLCHAINS_MAX]; /* each at a lasting address: nodes and compilers refer to it */
    size_t count;
    struct toolchain_entry *chosen;  /* the default */
    struct toolchain_entry *retired; /* of earlier settings, or their files have gone: sandboxes run on them */
    size_t checks;                   /* of files, under way */
    struct toolchain_entry *own;     /* of users, by the latest first */
    size_t own_count, swept_count;
    uint64_t swept_at_ms;   /* the turn of the loop that swept so many; own.c keeps both */
    struct own_look *looks; /* under way; own_look.c keeps them */
};

/* The system's own, and those of the text: sections [toolchain NAME] with `otp`, `elixir` or `root`. */
int toolchains_open(struct engine *engine, const char *text, struct error *reterr);
/* The list as the text has it now. One that it has as before stays; what runs on another of the same name goes on with
   the new one from its next start. On failure all is as it was. */
int toolchains_reopen(struct engine *engine, const char *text, const char *chosen, struct error *reterr);
/* A new one, of which nothing is known yet. */
int toolchains_add(struct engine *engine, const char *name, struct toolchain_entry **ret, struct error *reterr);
void toolchains_free(struct toolchains *toolchains);
void toolchains_abort_probes(struct toolchains *toolchains);     /* their waiters are told soon */
bool toolchains_are_probed(const struct toolchains *toolchains); /* no probe is under way */

struct toolchain_entry *toolchains_default(struct engine *engine);
/* The one that the settings name as the default. E_INVALID: there is none of that name. */
int toolchains_set_default(struct engine *engine, const char *name, struct error *reterr);
/* "" or NULL names the default. E_INVALID: there is none of that name. */
int toolchains_find(struct engine *engine, const char *name, struct toolchain_entry **ret, struct error *reterr);

/* The same for a sandbox of an earlier daemon: a toolchain that is not listed any more is one that can't be used. */
int toolchains_restore(struct engine *engine, const char *name, struct toolchain_entry **ret, struct error *reterr);

/* Find and probe the toolchain, or see that its files are still there: one whose files have gone is found anew, and has
   a successor then. done may be called from inside. */
void toolchain_need(struct toolchain_entry *entry, void (*done)(void *data, const struct error *error), void *data);
/* Have *place be the entry, or its successor; NULL: none. */
void toolchain_hold(struct toolchain_entry **place, struct toolchain_entry *entry);

/* ---- between the room's own files ---- */

bool toolchain_wait(struct toolchain_entry *entry, void (*done)(void *data, const struct error *error),
                    void *data); /* false: its end is known, and done was called */
void toolchain_tell_waiters(struct toolchain_entry *entry);
/* Its files have gone: a successor, of which nothing is known, takes its place in the list. */
void toolchains_renew(struct toolchain_entry *entry);
struct toolchain_entry *toolchain_entry_new(struct engine *engine, const char *name);
struct toolchain_entry *toolchain_entry_free(struct toolchain_entry *entry);
json_t *toolchain_to_json(const struct toolchain_entry *entry);

#endif
