/* One change of a sandbox's code under way, between the files that have its steps: reload.c leads it and has the
   transaction, reload_sources.c has what it brings, reload_compare.c what that changes. */
#ifndef CORE_RELOAD_RELOAD_JOB_H
#define CORE_RELOAD_RELOAD_JOB_H

#include "core/core_internal.h"
#include "core/jobs/steps.h"
#include "core/jobs/withs.h"
#include "core/queue.h"
#include "core/reload/reload.h"
#include "core/sandbox/tree.h"

/* In the order in which they happen; docs/reloading.md has a picture. */
enum reload_step {
    RELOAD_CHECK,
    RELOAD_TOOLCHAIN,
    RELOAD_OPEN,    /* one path after the other; then RELOAD_COMPARE follows */
    RELOAD_COMPILE, /* what was opened; RELOAD_OPEN follows */
    RELOAD_READ,    /* BEAM files that were opened; RELOAD_OPEN follows, or RELOAD_KEEP if they are compared already */
    RELOAD_REST,    /* before another try */
    RELOAD_COMPARE,
    RELOAD_KEEP, /* the build that is to run */
    RELOAD_CALL, /* the agent; after a failure that may pass RELOAD_REST follows */
    RELOAD_PROBATION,
    RELOAD_CONFIGURE,
    RELOAD_STEPS
};

/* What one path brings: a build, some of a build, or BEAM files. */
struct reload_part {
    const char *path;   /* the caller's own */
    struct build build; /* without a digest: none */
    char build_path[PATH_MAX];
    json_t *facts;           /* all of the build's; NULL: they are not read yet */
    json_t *chosen;          /* paths in the project: only what is written there; NULL: all */
    struct module_set beams; /* of lone files */
};

/* What runs and what comes, compared. All of it may be large: it is made and freed on the pool. */
struct comparison {
    json_t *from_facts; /* of what runs, as it was when it was compared; as is the next */
    struct shared_history *history;
    struct change_set changes;
    struct composed composed;
    struct adoption adoption;
    struct buf call; /* the first part of what the agent is asked */
    struct term_map call_map;
    json_t *told;       /* the changes, as callers see them */
    json_t *told_first; /* the first of them, as events have them */
};

enum { RELOAD_BEAMS_MAX_BYTES = CHANGE_SET_MAX_BYTES }; /* of lone BEAM files: no more of them can be a change */

struct reload_job {
    struct job job;
    struct steps steps;
    uv_loop_t *loop;
    bool is_rollback;
    bool is_at_rest;            /* the sandbox has no VM: what it brings runs from the next start on */
    struct request **followers; /* identical requests that came while it waited */
    size_t follower_count;
    uv_work_t work;
    struct error work_error;

    /* What it brings. */
    struct reload_part *parts;
    size_t part_count, part_at;         /* the one at hand */
    bool is_whole;                      /* the project is among them: modules that it does not have go */
    const struct link_project *project; /* set while the launcher's answer is at hand: from open to compile or read */
    char token[64];
    struct withs withs;
    bool has_withs;   /* they were opened */
    bool has_project; /* it counts among those that project_uid has open */
    uid_t project_uid;
    struct compile_job *compile;
    int beams_fd;
    bool beams_are_stream, beams_are_file;
    json_t *report;                    /* of the compilations */
    struct reload_job *next_with_room; /* of the engine's, while it has some */
    uint64_t room_bytes;               /* that its BEAM files may take while they are read, then those they take */
    uint64_t beam_bytes;               /* of BEAM files that it has read */
    size_t module_count;               /* of the builds that its parts gave */
    struct module_set wanted;          /* of all parts */
    bool has_wanted;

    /* Or where it goes back to: a whole build, or a version of one module. */
    struct build target; /* without a digest: none */
    char target_path[PATH_MAX];
    struct buf module; /* as the VM has it */
    uint32_t wanted_version;

    /* The comparison. */
    char from_path[PATH_MAX];
    char from_build[STORE_DIGEST_BYTES];
    struct adopter adopter;
    struct comparison compared;
    struct store_put *put; /* while it is compared; NULL: it is put afterwards, if it is composed */
    char composed_digest[STORE_DIGEST_BYTES];
    struct beam_store beams; /* where the bytes of versions are kept */
    uint64_t admitted_bytes; /* taken of the owner's quota while it is compared */
    json_t *scan;            /* findings in the changes; NULL: there was no scan */
    struct build build;      /* to run */

    /* The transaction. */
    char id[RELOAD_ID_BYTES];
    uint64_t call_id;
    bool is_other_config; /* the build has another configuration than the one that ran */
    char config_path[START_CONFIG_PATH_BYTES];
    struct buf config_args;
    json_t *migrations;
    json_t *result;
    json_t *failure;       /* of the agent, or a result that was rolled back */
    uint64_t rest_ms;      /* before the next try; 0: none */
    uint32_t failures;     /* that it tried again after */
    uint64_t unsettled_ms; /* waited for other changes, so far */
};

/* ---- reload.c ---- */

/* A new job for the request, which waits. */
struct reload_job *reload_new(struct sandbox *sandbox, struct request *request);
json_t *reload_param(const struct reload_job *reload, const char *name);
bool reload_is_dry(const struct reload_job *reload);
/* Another change is not settled yet, or has just changed what runs. The caller did not cause that, and it passes: the
   step under way ends, and the reload rests and compares anew. */
void reload_try_once_settled(struct reload_job *reload, const struct error *error);

/* Whether the sandbox is as the reload needs it: it runs, or it has no VM where that is wanted. */
int reload_check(const struct reload_job *reload, struct error *reterr);

/* ---- reload_sources.c ---- */

int reload_check_sources(const struct request *request, struct error *reterr);
void reload_find_toolchain(void *job);
void reload_open_part(void *job);
void reload_compile_part(void *job);
void reload_abort_compiling(void *job);
void reload_read_part(void *job);
/* Fill `wanted`, unless that is done already. On the thread pool. */
int reload_join_parts(struct reload_job *reload, struct error *reterr);
/* Whether the project is all it brings: then its build is what runs afterwards. */
bool reload_is_project(const struct reload_job *reload);
void reload_free_parts(struct reload_job *reload);      /* on the pool */
void reload_release_project(struct reload_job *reload); /* if it is still open */

/* ---- reload_room.c ---- */

/* Before BEAM files are read: how many bytes of them may be. E_LIMIT: others are being reloaded. */
int reload_room_take(struct reload_job *reload, struct error *reterr);
int reload_room_count(struct reload_job *reload, size_t bytes, struct error *reterr); /* on the pool */
void reload_room_settle(struct reload_job *reload);                                   /* they have been read */
void reload_room_give(struct reload_job *reload);

/* ---- reload_configure.c ---- */

bool reload_config_differs(const char *from_path, const char *to_path); /* of two builds; on the pool */
void reload_configure(void *job);
void reload_abort_configuring(void *job);

/* ---- reload_compare.c ---- */

void reload_compare(void *job);
void reload_keep(void *job);
/* The same in three parts, for a step that has more for the pool: prepare on the loop's thread, where an error ends the
   step, work on the pool, and take the outcome, after which RELOAD_KEEP follows. */
int reload_prepare_comparing(struct reload_job *reload, struct error *reterr);
void reload_work_comparing(struct reload_job *reload);
void reload_take_comparison(struct reload_job *reload);
void reload_forget_comparison(struct reload_job *reload);
void comparison_free(struct comparison *comparison);

#endif
