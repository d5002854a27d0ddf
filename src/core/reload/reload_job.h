/* One change of a sandbox's code under way, between the files that lead it: reload.c the transaction, reload_sources.c
   what it is to bring, reload_compare.c what that changes. */
#ifndef CORE_RELOAD_RELOAD_JOB_H
#define CORE_RELOAD_RELOAD_JOB_H

#include <stdatomic.h>

#include "core/core_internal.h"
#include "core/queue.h"
#include "core/reload/reload.h"

enum reload_stage {
    RELOAD_WAITING,
    RELOAD_TOOLCHAIN,
    RELOAD_OPENING,
    RELOAD_COMPILING,
    RELOAD_WORKING, /* on the thread pool */
    RELOAD_CALLING, /* the agent */
    RELOAD_RESTING, /* before it tries again */
    RELOAD_PROBATION
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
    struct buf call;    /* the first part of what the agent is asked */
    json_t *told;       /* the changes, as callers see them */
    json_t *told_first; /* the first of them, as events have them */
    json_t *warnings;
};

struct reload_job {
    struct job job;
    enum reload_stage stage;
    atomic_bool is_called_off;
    struct error why;
    bool is_rollback;
    struct request **followers; /* who asked for the very same while it waited */
    size_t follower_count;
    uv_work_t work;
    struct error work_error;

    /* What it brings. */
    struct reload_part *parts;
    size_t part_count, part_at; /* the one at hand */
    bool is_whole;              /* the project is among them: what is not in it goes */
    char token[64];
    bool has_project; /* it counts among those that project_uid has open */
    uid_t project_uid;
    struct compile_job *compile;
    int beams_fd;
    bool beams_are_stream, beams_are_file;
    json_t *report;           /* of the compilations */
    struct module_set wanted; /* of all parts */
    bool has_wanted;

    /* Or where it goes back to: a whole build, or a version of one module. */
    struct build target; /* without a digest: none */
    char target_path[PATH_MAX];
    struct buf module; /* as the VM has it */
    uint32_t wanted_version;

    /* The transaction. */
    char from_path[PATH_MAX];
    char from_build[STORE_DIGEST_BYTES];
    struct adopter adopter;
    struct comparison compared;
    struct store_put *put; /* while it is compared; NULL: it is put afterwards, if it is composed */
    char composed_digest[STORE_DIGEST_BYTES];
    json_t *scan;       /* what a scan of them found; NULL: there was none */
    struct build build; /* to run */
    char id[RELOAD_ID_BYTES];
    uint64_t call_id;
    json_t *migrations;
    json_t *result;
    uint32_t failures;     /* that it tried again after */
    uint64_t unsettled_ms; /* waited for other changes, so far */
    uv_timer_t timer;      /* of a rest, and of a probation that is waited for */
    bool has_timer;
    uint64_t overdue_ms; /* of a probation, by loop_attended_ms */
};

json_t *reload_param(const struct reload_job *reload, const char *name);
void reload_answer(struct reload_job *reload); /* its result */
void reload_fail(struct reload_job *reload, const struct error *error, json_t *result);
/* Between two steps: whether it was called off, or failed. */
bool reload_ended_early(struct reload_job *reload, const struct error *error);

bool reload_is_dry(const struct reload_job *reload);

/* ---- reload.c ---- */

/* Of what was compared, unless something else runs by now. */
void reload_begin_transaction(struct reload_job *reload);
/* Another change is not settled yet, or has just changed what runs: not of the caller's doing, and it passes. */
void reload_try_once_settled(struct reload_job *reload, const struct error *error);

/* ---- reload_compare.c ---- */

void reload_begin_comparing(struct reload_job *reload); /* reload_begin_transaction follows, where anything changes */
/* What is to be changed, by comparing what runs with what comes. Prepared on the loop's thread, where it may fail,
   which ends it: false; compared on the pool. */
bool reload_prepare(struct reload_job *reload);
void reload_compare(uv_work_t *work);
void reload_forget_comparison(struct reload_job *reload);
void comparison_free(struct comparison *comparison);
void reload_compared(uv_work_t *work, int status);

/* ---- reload_sources.c ---- */

int reload_check_sources(const struct request *request, struct error *reterr);
/* Open, read and compile what is to be brought; reload_begin_comparing follows. */
void reload_gather(struct reload_job *reload);
/* Fill `wanted`, unless that is done already. On the thread pool. */
int reload_join_parts(struct reload_job *reload, struct error *reterr);
/* Whether the project is all it brings: then its build is what runs afterwards. */
bool reload_is_project(const struct reload_job *reload);
void reload_free_parts(struct reload_job *reload);      /* on the pool */
void reload_release_project(struct reload_job *reload); /* if it is still open */

#endif
