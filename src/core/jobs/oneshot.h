/* oneshot: a one-shot job, which a caller asks for without a sandbox (compile, validate, scan, deps). It serves one
   request: it opens the caller's path with the caller's rights, works, answers, and is gone. It is called off when the
   caller leaves or the service ends. Jobs on a sandbox are `struct job` of the queue. */
#ifndef CORE_JOBS_ONESHOT_H
#define CORE_JOBS_ONESHOT_H

#include <stdatomic.h>

#include "core/core_internal.h"
#include "core/jobs/withs.h"
#include "core/toolchains/choice.h"

enum { ONESHOTS_MAX = 128 }; /* under way at once; one caller has its share of them, and of its quota of projects */

struct oneshot;

/* The steps' ends. None is called once the job has been called off: it fails by itself then. */
typedef void oneshot_opened_fn(struct oneshot *oneshot,
                               const struct link_project *project); /* its fd is closed after */
typedef void oneshot_compiled_fn(struct oneshot *oneshot, const char *digest);
typedef void oneshot_worked_fn(struct oneshot *oneshot, const struct error *error);

struct oneshot {
    struct oneshot *next; /* of the engine's */
    struct engine *engine;
    struct toolchain_entry *toolchain;
    struct request *request;
    uid_t uid;        /* whose it is, also when the request is answered */
    uid_t reads_of;   /* whose builds it reads besides: a sandbox's owner's */
    struct error why; /* it was called off; E_NONE: it was not */
    atomic_bool call_off;
    void (*waiting)(struct oneshot *oneshot); /* set while nothing is under way: it ends a job that is called off */

    char token[64];              /* of the opened project; "" */
    struct link_project project; /* it, until the toolchain is chosen */
    char file_name[256];
    struct toolchain_choice choice;
    bool compiles; /* what it opens */
    struct withs withs;
    struct compile_turn turn;
    struct compile_job *compile;
    const char *source; /* the caller's own path or name */
    oneshot_opened_fn *opened;
    oneshot_compiled_fn *compiled;
    json_t *report; /* of the compilation */

    uv_work_t work;
    int (*run)(struct oneshot *oneshot, struct error *reterr);
    oneshot_worked_fn *worked;
    struct error work_error;
};

/* A new one-shot job for the request, in an allocation of size bytes that begins with it. NULL: the request is
   answered. */
struct oneshot *oneshot_begin(struct engine *engine, struct request *request, size_t size);
/* The end: answered and freed. */
void oneshot_answer(struct oneshot *oneshot, json_t *result); /* takes the reference */
void oneshot_fail(struct oneshot *oneshot, const struct error *error, json_t *result);
/* The same, but the caller of this function answers the request. */
void oneshot_release(struct oneshot *oneshot);

/* Find the toolchain and open the path. A failure ends the job. */
void oneshot_open(struct oneshot *oneshot, const char *path, oneshot_opened_fn *opened);
/* The same for what is to be compiled: it is opened once it can be. */
void oneshot_open_to_compile(struct oneshot *oneshot, const char *path, oneshot_opened_fn *opened);
/* The same without a path; opened gets NULL. */
void oneshot_prepare_to_compile(struct oneshot *oneshot, oneshot_opened_fn *opened);
/* Compile what was opened, for that. A failure ends the job, with the compilation's object. */
void oneshot_compile(struct oneshot *oneshot, const struct link_project *project, oneshot_compiled_fn *compiled);
/* Run something that blocks on the thread pool. */
void oneshot_work(struct oneshot *oneshot, int (*run)(struct oneshot *oneshot, struct error *reterr),
                  oneshot_worked_fn *worked);

void oneshots_call_off(struct engine *engine, const struct error *why);

#endif
