/* One compilation, between the files that carry it out: job.c leads it, rounds.c compiles what is stale, assemble.c
   makes a build of the outcome. */
#ifndef COMPILE_JOB_H
#define COMPILE_JOB_H

#include "compile/compile_internal.h"
#include "compile/worker.h"

enum ask { ASK_NOTHING, ASK_PUT, ASK_COMPILE, ASK_FINISH }; /* what the worker is called for next */

/* A folder beside the project. */
struct job_with {
    struct with_place at;
    int fd;
    char token[64];
};

struct compile_job {
    struct compile_job *next; /* of the same workspace */
    struct compile_turn turn;
    bool has_begun;
    struct workspace *workspace;
    struct compiler *compiler;
    struct compile_request request;
    compile_done_fn done;
    void *data;
    uint64_t started_ms;
    struct error error;
    bool aborted;

    /* the project */
    int project_fd; /* its folder */
    char token[64];
    char project_place[PATH_MAX]; /* in the node */
    struct job_with *withs;
    size_t with_count, mounted_count;
    char with_key[STORE_DIGEST_BYTES]; /* of which folders they are; "" without any */
    char file_name[NAME_MAX + 1];      /* of a single file */
    bool is_stream, is_file;
    bool has_copy; /* in its workspace's folder */
    bool is_alone; /* its workspace is never shared */
    enum source_kind kind;
    char name[NAME_MAX + 1]; /* as its path ends */
    char mix_env[64 + 1];    /* "": the project's own */
    char place[128];         /* whose it is and where */
    char scope[STORE_DIGEST_BYTES];
    char content_key[STORE_DIGEST_BYTES]; /* "" when the content can't be told */
    char shared_key[STORE_DIGEST_BYTES];  /* of a copy: what a compiler that knows nothing else makes of it */
    struct tree tree;
    bool is_cached;

    /* what is known from before */
    json_t *base_facts; /* of the last build of this project; NULL: none */
    char base[STORE_DIGEST_BYTES];
    char base_path[PATH_MAX];

    /* under way */
    uv_work_t work;
    bool is_working; /* on the thread pool, or waiting for the launcher */
    bool is_ending;
    struct worker *worker; /* also when it is gone already */
    bool is_worker_used, is_worker_gone;
    struct error worker_error;                 /* why it is */
    bool is_described_anew;                    /* the node looked at the project again */
    bool is_model_compared, is_model_outdated; /* the project is not what its worker described */
    struct manifest manifest;
    struct plan plan;
    enum ask asks;
    struct buf args;       /* of that call, made on a thread */
    struct record **round; /* the files of this round */
    size_t round_count;
    const struct model_app *round_app;
    bool has_waiting;                   /* files of that application that are stale too, but not in the round */
    bool takes_all;                     /* every round has all that is stale */
    struct room_part room;              /* of the daemon's memory, what it holds */
    struct answer_budget budget;        /* left, for what is known of its files */
    size_t compiled_files, found_files; /* by the node, in the cache */
    json_t *compiled;                   /* names of modules that the node compiled */
    bool is_torn;                       /* the project changed while it was compiled */
    bool has_new_modules;
    unsigned changed_parts; /* what modules that changed are part of, or were: of enum module_part */

    /* the outcome */
    struct file_list list;
    json_t *facts, *report;
    json_t *more_warnings;       /* of the project's own compilers; NULL: none */
    json_t *brief;               /* of the facts: what sandboxes keep */
    json_t *kept_facts;          /* what its workspace keeps of them; NULL: nothing */
    struct term_doc *answer_doc; /* of the worker's, while a thread makes use of it */
    const struct term *answer;   /* in it */
    size_t answer_bytes;
    struct error failure; /* that it tells of */
    char digest[STORE_DIGEST_BYTES];
};

/* ---- job.c ---- */

void job_fail(struct compile_job *job, const struct error *error); /* the first failure counts */
/* Go on to the end, which comes when nothing of the job is under way any more. Its worker rests. */
void job_end(struct compile_job *job);
/* On the thread pool, then here: fails and ends the job by itself when it was called off meanwhile. */
void job_work(struct compile_job *job, uv_work_cb work, void (*done)(struct compile_job *job));
/* A call to the worker, within what is left of the job's time. args is taken over. */
void job_call(struct compile_job *job, const char *op, struct buf *args, node_reply_fn reply);
/* Keep the answer at hand for a step on a thread, which drops it. Without room for it the job fails, and the step does
   nothing. */
void job_keep_answer(struct compile_job *job, const struct term *answer);
void job_drop_answer(struct compile_job *job);
/* What every reply begins with: false when it failed, and then the job is ending. */
bool job_took_reply(struct compile_job *job, const struct term *reason, const struct error *error);
void job_begin(struct compile_job *job);

void job_forget_content(struct compile_job *job); /* its build is not kept for others, nor begun from again */

/* The folder in which a path of the project lies, as a descriptor that stays the job's, and the path from there. -1: it
   lies in none that was handed over. */
int job_folder(const struct compile_job *job, const char *path, const char **ret_rest);
/* E_PROTOCOL when a path that the node named lies in none of them. */
int job_check_paths(const struct compile_job *job, const struct name_list *paths, struct error *reterr);

/* ---- rounds.c ---- */

/* False when it can't be told: a file that is gone, a link that leads elsewhere. */
bool digest_source(const struct compile_job *job, const char *path, uint8_t ret[DIGEST_BYTES]);
bool has_known_source(const struct record *record); /* else it is compiled every time, and nothing of it is kept */
/* A module's bytes from the last build. Blocking. */
int load_beam(struct compile_job *job, const struct record *record, struct compiled_module *module,
              struct error *reterr);
/* The project's files as records, with what is known of each from the last build; then round after round. */
void rounds_begin(struct compile_job *job);

/* ---- assemble.c ---- */

/* Whether the worker has to say something: it must have all modules then. */
bool assemble_needs_worker(const struct compile_job *job);
/* Off the loop's thread; when it needs something of the worker, after that. */
void assemble_collect(uv_work_t *work);
void assemble_encode(struct compile_job *job); /* what the worker is asked for; off the loop's thread, too */
void assemble_begin(struct compile_job *job);
json_t *failed_report(const struct term *reason);

/* ---- extras.c ---- */

/* Of the project, or of a folder that it sees at another place, whether a task of Mix gets this path. Pure. */
bool extras_wants(const struct model *model, const char *seen, const char *path, bool is_folder);
/* The folder of the application's own in which this source lies; false: it lies in none. Pure. */
bool extras_source_folder(const struct model_app *app, size_t index, char ret[NAME_MAX + 1]);
int extras_check(const struct compile_job *job, struct error *reterr); /* whether the project can have what is asked */
int extras_collect(struct compile_job *job, struct error *reterr);     /* after its applications; blocking */
const char *compile_extra_name(enum compile_extra extra);              /* as keys have it */

/* ---- kept.c ---- */

/* What the next compilation begins from; NULL: it is too much to be kept in memory. */
json_t *facts_to_keep(const json_t *facts);

/* ---- compiler.c ---- */

void workspace_next(struct workspace *workspace, struct compile_job *ended); /* may free it */

#endif
