/* errand: what is done for a caller without a sandbox (compile, validate, deps). One request, one errand: it opens the
   caller's path with the caller's rights, works, answers, and is gone. Called off when the caller leaves or the service
   ends. */
#ifndef CORE_JOBS_ONESHOT_H
#define CORE_JOBS_ONESHOT_H

#include <stdatomic.h>

#include "core/core_internal.h"

enum { ERRANDS_MAX = 128 }; /* under way at once; one caller has its share of them, and of its quota of projects */

struct errand;

/* The steps' ends. None is called once the errand has been called off: it fails by itself then. */
typedef void errand_opened_fn(struct errand *errand, const struct link_project *project); /* its fd is closed after */
typedef void errand_compiled_fn(struct errand *errand, const char *digest);
typedef void errand_worked_fn(struct errand *errand, const struct error *error);

struct errand {
    struct errand *next; /* of the engine's */
    struct engine *engine;
    struct request *request;
    uid_t uid;        /* whose it is, also when the request is answered */
    struct error why; /* it was called off; E_NONE: it was not */
    atomic_bool call_off;
    void (*waiting)(struct errand *errand); /* set while nothing is under way: it ends the errand that is called off */

    char token[64]; /* of the opened project; "" */
    bool compiles;  /* what it opens */
    struct compile_turn turn;
    struct compile_job *compile;
    const char *source; /* the caller's own path or name */
    errand_opened_fn *opened;
    errand_compiled_fn *compiled;
    json_t *report; /* of the compilation */

    uv_work_t work;
    int (*run)(struct errand *errand, struct error *reterr);
    errand_worked_fn *worked;
    struct error work_error;
};

/* A new errand for the request, in an allocation of size bytes that begins with it. NULL: the request is answered. */
struct errand *errand_begin(struct engine *engine, struct request *request, size_t size);
/* The end: answered and freed. */
void errand_answer(struct errand *errand, json_t *result); /* takes the reference */
void errand_fail(struct errand *errand, const struct error *error, json_t *result);
/* The same, but somebody else answers. */
void errand_release(struct errand *errand);

/* Find the toolchain and open the path. A failure ends the errand. */
void errand_open(struct errand *errand, const char *path, errand_opened_fn *opened);
/* The same for what is to be compiled: it is opened once it can be. */
void errand_open_to_compile(struct errand *errand, const char *path, errand_opened_fn *opened);
/* The same without a path; opened gets NULL. */
void errand_prepare_to_compile(struct errand *errand, errand_opened_fn *opened);
/* Compile what was opened, for that. A failure ends the errand, with the compilation's object. */
void errand_compile(struct errand *errand, const struct link_project *project, errand_compiled_fn *compiled);
/* Run something that blocks on the thread pool. */
void errand_work(struct errand *errand, int (*run)(struct errand *errand, struct error *reterr),
                 errand_worked_fn *worked);

void errands_call_off(struct engine *engine, const struct error *why);

#endif
