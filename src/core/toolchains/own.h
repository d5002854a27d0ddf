/* own: toolchains of single users, in the folders of mise, asdf and kerl in their homes. Each is a stranger's code: the
   launcher opens its folders with its user's rights, its VMs run in jails alone, and it is its user's only. */
#ifndef CORE_TOOLCHAINS_OWN_H
#define CORE_TOOLCHAINS_OWN_H

#include "core/core.h"
#include "core/toolchains/own_pairs.h"
#include "core/toolchains/toolchains.h"

enum {
    OWN_ENTRIES_MAX = 512,        /* of all users */
    OWN_CHECKED_MS = 10000,       /* files are not looked at again within so long */
    OWN_IDLE_MS = 10 * 60 * 1000, /* one that nothing uses is forgotten after so long */
};

struct own_list {
    struct toolchain_entry *entries[OWN_PAIRS_MAX];
    size_t count;
    json_t *problems; /* an array: folders that could not be looked at, as toolchains that can't be used */
};

/* The list lives during the call, and so do entries that are not held. error set: there is none. */
typedef void (*own_looked_fn)(void *data, const struct own_list *list, const struct error *error);

/* List the caller's own. home NULL: the caller's, as the system's users have it. A caller that is no process of this
   host has none. done may be called from inside. */
void own_look(struct engine *engine, const struct caller *caller, const char *home, own_looked_fn done, void *data);
/* The user's of that name and place, which may be known already; NULL: the user has its share of them. */
struct toolchain_entry *own_entry(struct engine *engine, const char *name, const struct own_place *place);
struct toolchain_entry *own_succeed(struct toolchain_entry *entry); /* a new one in its place: its files have changed */
struct toolchain_entry *own_find(struct engine *engine, uid_t uid, const char *name); /* NULL: not known */
/* As toolchain_need, for its user, who is at hand: the service may open its folders again when the caller has gone. */
void own_use(struct toolchain_entry *entry, int peer_fd, void (*done)(void *data, const struct error *error),
             void *data);
/* Its user's, or one of the same principal's. */
bool own_is_of(const struct toolchain_entry *entry, uid_t uid);
bool own_is_checked(const struct toolchain_entry *entry); /* its files are as they were, a moment ago */
/* As toolchain_need. Files that have changed make a successor, which is probed. */
void own_need(struct toolchain_entry *entry, void (*done)(void *data, const struct error *error), void *data);
/* Forget those that nothing uses, and that are old. */
void own_sweep(struct engine *engine);
/* What earlier daemons left for toolchains that no sandbox of theirs runs on: boot files, before any is made, and
   standing permissions, once the launcher is there. */
void own_sweep_boot_files(const char *home);
void own_sweep_permissions(struct engine *engine);
/* The name of the standing permission for a folder of a user's. */
void own_grant_name(uid_t uid, const char *path, char ret[TOOLCHAIN_GRANT_BYTES]);

/* As the registry keeps it, so that a restart finds it again. */
json_t *own_to_json(const struct toolchain_entry *entry);
int own_restore(struct engine *engine, uid_t uid, const char *name, json_t *place, struct toolchain_entry **ret,
                struct error *reterr);

#endif
