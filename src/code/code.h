/* code: the versions of a sandbox's modules, the differences between two builds, and the transaction that changes the
   code of a running VM. The module knows nothing of HTTP, nor of compilation. */
#ifndef CODE_CODE_H
#define CODE_CODE_H

#include <jansson.h>
#include <stdatomic.h>

#include "base/base.h"
#include "compile/compile.h"
#include "store/store.h"
#include "term/term.h"

/* ---- versions.c: the loaded versions of each module ---- */

enum { CHANGE_SET_MAX_BYTES = 60 << 20 }; /* of old and new code: all of it goes to the node in one frame */

enum { VERSIONS_KEPT = 16, CODE_DIGEST_BYTES = 65 };

struct version {
    uint32_t number; /* from 1, never reused */
    char checksum[CODE_DIGEST_BYTES];
    char beam[CODE_DIGEST_BYTES];   /* names its bytes, see beams.c; "": the module was deleted */
    char source[CODE_DIGEST_BYTES]; /* digest of its source; "": unknown */
    json_t *dependencies;
    uint64_t size_bytes; /* 0: unknown */
    int64_t loaded_at_ms;
    uint32_t loaded_by;
    uint32_t loads; /* how often it became the running one */
    bool is_current;
};

struct history {
    struct map modules; /* struct module_history by name */
};

void history_free(struct history *history);
bool history_copy(const struct history *history, struct history *ret); /* a copy for another thread; false without
                                                                          memory */
bool history_restore(struct history *history, const char *module, const char *text); /* false if it is damaged */
char *history_text(const struct history *history, const char *module);               /* to be freed */

const struct version *history_find(const struct history *history, const char *module,
                                   uint32_t number); /* NULL: unknown */
const struct version *history_find_checksum(const struct history *history, const char *module, const char *checksum);
/* The version before the current one, or NULL. */
const struct version *history_previous(const struct history *history, const char *module);
uint32_t history_next(const struct history *history, const char *module);
/* Adds a version, which becomes the current one and gets the next number. The oldest one beyond the bound is dropped.
   Takes ownership of the dependencies. */
bool history_add(struct history *history, const char *module, const struct version *version);
void history_set_current(struct history *history, const char *module, uint32_t number); /* 0: none, the module is
                                                                                           gone */
/* Adds the digests of all needed bytes to a set; false without memory. */
bool history_name_beams(const struct history *history, struct map *ret);
/* Versions as callers see them, newest first. */
json_t *history_to_json(const struct history *history, const char *module);
json_t *version_describe(const struct version *version, const char *module); /* one version */
/* Summarizes such a list, in which versions of a module are adjacent: an object for each module. */
json_t *versions_summarize(const json_t *list);

/* A history that threads share. It is never changed, only replaced by another one. NULL is an empty history. */
struct shared_history {
    atomic_uint users;
    struct history history;
};

struct shared_history *history_share(struct history *history); /* takes ownership */
struct shared_history *history_hold(struct shared_history *shared);
void history_let_go(struct shared_history *shared); /* accepts NULL; the last user frees it */
const struct history *history_of(const struct shared_history *shared);

/* ---- beams.c: the bytes of versions, by the sandboxes' owner and digest. Blocking. ---- */

struct beam_store {
    const char *home; /* borrowed */
    uint32_t owner;
    bool is_dry;            /* nothing is written: bytes only get their names */
    uint64_t written_bytes; /* by code_beam_keep, so far */
};

/* The bytes survive the daemon's death at once, and a power failure after a sync. */
int code_beam_keep(struct beam_store *beams, const uint8_t *data, size_t size, char ret[CODE_DIGEST_BYTES],
                   struct error *reterr);
int code_beam_load(const struct beam_store *beams, const char *digest, uint8_t **ret, size_t *ret_size,
                   struct error *reterr);
void code_beam_sync(const struct beam_store *beams, const char *digest); /* "" syncs the folder */
/* Removes an owner's bytes that no version in use names and that are older than min_age_s. */
void code_beams_sweep(const struct beam_store *beams, const struct map *used, int64_t min_age_s,
                      uint64_t *ret_removed_bytes, uint64_t *ret_left_bytes);
/* The owners that have bytes: a list to be freed, NULL without memory. */
uint32_t *code_beams_owners(const char *home, size_t *ret_count);
/* The same for bytes that an older service kept, which are in no owner's folder. */
void code_beams_sweep_old(const char *home, const struct map *used);

/* ---- modules.c: the modules of a build, as the VM loads them ---- */

struct code_module {
    char *name; /* as in the VM */
    char *app;
    char *file;    /* in the build; NULL: it is in none, and `beam` has its bytes */
    uint8_t *beam; /* NULL: see file */
    size_t beam_size;
    const char *root;                 /* the build's folder, borrowed */
    const char *named_by;             /* the user's path of the BEAM file, borrowed; NULL: none */
    const char *written_in;           /* the source's path in the project, borrowed from the facts; NULL: unknown */
    char checksum[CODE_DIGEST_BYTES]; /* of the loaded bytes */
    char source[CODE_DIGEST_BYTES];
    json_t *dependencies; /* names of modules of the same build; for a single BEAM file, of all modules it calls */
};

struct module_set {
    struct code_module *items; /* by name */
    size_t count;
};

/* Reads the build's own description; path is its folder. path and facts must outlive the set. Blocking. */
int module_set_read(const char *path, const json_t *facts, struct module_set *ret, struct error *reterr);
void module_set_free(struct module_set *set);
const struct code_module *module_set_find(const struct module_set *set, const char *name);

/* ---- parts.c: a set of modules that is made of parts ---- */

/* Adds a BEAM file that is in no build, validated as the loader of that OTP release would. Takes ownership of data,
   also on failure. path is the user's own, borrowed. */
int module_set_add_beam(struct module_set *set, const char *path, unsigned otp, uint8_t *data, size_t size,
                        struct error *reterr);
/* Moves all modules of another set, which is empty then. E_INVALID if both have a module. */
int module_set_join(struct module_set *set, struct module_set *more, struct error *reterr);
/* Marks the modules whose source is this file of the project, or in this folder; returns their number. */
size_t module_set_mark(const struct module_set *set, const char *path, bool *marks);
void module_set_keep(struct module_set *set, const bool *marks);

/* ---- changes.c: code to load, and code that would undo it ---- */

struct change {
    char *module;
    bool is_deletion;
    uint8_t *beam, *old_beam; /* NULL: none */
    size_t beam_size, old_beam_size;
    struct version version, old_version; /* number 0: none */
};

struct change_set {
    struct change *items;
    size_t count, capacity;
    uint64_t bytes; /* of old and new code */
    json_t *order;  /* of loading: a list of lists of names */
};

void change_set_free(struct change_set *set);

/* The running code, and where its version numbers and bytes are. Borrowed. */
struct change_base {
    struct beam_store *beams;
    const struct history *history;
    const char *path; /* of the build */
    const json_t *facts;
};

/* A change to another build. Blocking. */
int changes_to_build(const struct change_base *base, const char *path, const json_t *facts, struct change_set *ret,
                     struct error *reterr);

/* A change to modules from anywhere; is_all: running modules that are not among them are removed. Blocking. */
int changes_to_modules(const struct change_base *base, const struct module_set *wanted, bool is_all,
                       struct change_set *ret, struct error *reterr);

/* A change of one module to an older version from the history. E_NOT_FOUND if there is none. Blocking. */
int changes_to_version(const struct change_base *base, const char *module, uint32_t number, struct change_set *ret,
                       struct error *reterr);

/* ---- adoption.c: a sandbox's history after a change, or after it was taken back. Runs on the pool. ---- */

/* The data that restores the history from before a change. */
struct way_back {
    char *undo; /* JSON: the earlier version of each module; 0: none */
    struct shared_history *history;
    struct store_histories *rows; /* of the history, for the registry */
    json_t *facts;                /* of the build that ran before, in brief; NULL: unknown */
};

struct adoption {
    struct shared_history *history;
    struct store_histories *rows;
    struct way_back *back;
};

struct adopter {
    const char *sandbox;
    int64_t started_at_ms; /* when the sandbox began to run its first code */
    uint32_t owner, by;
};

/* Fails with E_NO_MEMORY only. The way back has no facts yet. */
int adoption_make(const struct history *now, const struct change_set *changes, const struct adopter *adopter,
                  struct adoption *ret, struct error *reterr);
void adoption_free(struct adoption *adoption);
/* Made from the registry's entry (undo). */
struct way_back *way_back_make(const struct history *now, const char *sandbox, const json_t *undo);
void way_back_free(struct way_back *back); /* accepts NULL */

/* ---- compose.c: the code after a change, as a build of its own ---- */

struct composed {
    struct store_file *files; /* owned, with their contents */
    size_t count, capacity;
    json_t *facts, *brief;
};

/* The build at path with the changes of the set. Blocking. */
int compose(const struct beam_store *beams, const char *path, const json_t *facts, const struct change_set *set,
            struct composed *ret, struct error *reterr);
void composed_free(struct composed *composed);

/* ---- migrations.c: the caller's functions that migrate states ---- */

#define MIGRATION_OF_ALL "*"

/* Reads what callers write: an object with a migration for each module (by its name in the VM) or for all: `language`
   and `code`, or `module` and `function`. */
int migrations_read(const json_t *texts, const char *language, json_t **ret, struct error *reterr);
int migrations_check(const json_t *texts,
                     struct error *reterr);             /* the same in whichever language; NULL: there are none */
bool migrations_name_modules(const json_t *migrations); /* not only all that change */

/* ---- transaction.c: the agent's reload call and its answer ---- */

struct reload_options {
    const char *id;      /* names the transaction; the agent remembers the last id */
    const char *follows; /* the reload before, if it is on probation, which this one commits; NULL: none */
    bool is_rollback, restart_changed, run_start, dry_run;
    const char *on_busy; /* wait, refuse or kill */
    uint64_t busy_timeout_ms, suspend_timeout_ms, migrate_timeout_ms, probation_ms;
};

/* Write the arguments of the agent's reload call. The first part holds everything that may be long, and is made on the
   pool; the second ends the map. Migrations are from migrations_read; NULL: none. */
struct term_map transaction_begin(struct buf *args, const struct change_set *set, const json_t *migrations);
void transaction_end(struct term_map *map, const struct reload_options *options);
/* The reload object for callers. Of the answer only texts and numbers are used, bounded. */
json_t *transaction_report(const struct term *result);
/* The reload's modules, which come from the daemon and not from the agent. */
json_t *transaction_changes(const struct change_set *set);
/* The same for a failed reload: the agent's report, and "rolled_back". */
json_t *transaction_failure(const struct term *reason);
json_t *transaction_no_change(void);

/* ---- states.c: the states that a restart moves from one VM to the next ---- */

struct kept_states {
    struct buf list;      /* in the agent's own encoding, which only the next node reads; as the first member of start's
                             arguments */
    struct term_map args; /* those, not ended */
    size_t count;         /* of states in the list */
    json_t *lost;         /* the first states that could not be kept: path, reason */
    size_t lost_count;
    struct error why_fresh; /* why no states are kept; E_NONE: there may be some */
};

/* Takes the answer to snapshot_states. */
enum { STATES_MAX_BYTES = 16 << 20 }; /* the size of a node's frame */
void states_take(struct kept_states *states, const struct term *snapshot);
/* Keeps no states, for this reason. */
void states_none(struct kept_states *states, const struct error *why);
/* Begins the arguments of the agent's start call, a map that the caller goes on with and ends. The list is moved, not
   copied, since it may have megabytes. states may be NULL: then there is no member for them. */
struct term_map states_begin_args(struct kept_states *states, struct buf *args);
/* Reads the states that a tree did not take, from the answer to start. *ret must be empty. */
void states_read_refused(const struct term *started, struct kept_states *ret);
/* The tree was started with the states, except the refused ones. */
void states_arrived(struct kept_states *states, const struct kept_states *refused);
/* For callers: kept, lost, lost_count and, if no states are kept, the reason. */
json_t *states_to_json(const struct kept_states *states);
void states_free(struct kept_states *states);

#endif
