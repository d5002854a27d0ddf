/* One run of the benchmark: services, rivals, and rows that measure the one beside the other. Whatever goes wrong ends
   the program. */
#ifndef TOOLS_BENCH_ROWS_H
#define TOOLS_BENCH_ROWS_H

#include "base/base.h"
#include "bench.h"
#include "sandbox.h"

enum {
    CROWD = 100,     /* sandboxes of the rows that have many */
    QUICK_TIMES = 5, /* as many rounds of what takes milliseconds */
    ID_BYTES = 32,
};

struct bench {
    const char *programs, *examples, *script, *folder;
    unsigned rounds;
    struct sbx *warm, *cold; /* services with and without nodes that wait; opened when they are needed */
    bool is_warmed_up;
    struct bench_vm rival; /* a VM that starts others and calls them; as above */
    unsigned created;
    json_t *times; /* subject → array, in milliseconds unless the name says otherwise */
};

/* ---- service.c ---- */

struct sbx *bench_warm(struct bench *bench);
struct sbx *bench_cold(struct bench *bench);
void bench_close_services(struct bench *bench);
json_t *bench_ask(struct sbx *service, const char *op, json_t *params); /* takes params, which may be NULL */
const char *bench_example(const struct bench *bench, const char *name);
/* Everything is compiled, and as many nodes wait as are wanted, so that none is booted while something is timed. */
void bench_await_warm(struct bench *bench);

struct wish {
    struct sbx *service;
    const char *source;
    const char *node; /* what its node must have been: "warm" or "booted"; NULL: either */
    const char *profile;
    json_int_t cpu_percent;
};

/* The time from the request to its answer, when the tree runs and the registry has it. */
double bench_create(struct bench *bench, const struct wish *wish, char ret_id[ID_BYTES]);
double bench_destroy(struct sbx *service, const char *id);

/* ---- rivals.c ---- */

double bench_rival(struct bench *bench, const char *question); /* what the VM answers, a number */
void bench_time_command(struct bench *bench, const char *subject, const char *const *words);

/* ---- batch.c: many at once ---- */

struct batch {
    struct bench *bench;
    struct wish wish;
    const char *prefix;
    unsigned count, at_once;
};

double bench_batch_create(const struct batch *batch);
double bench_batch_eval(const struct batch *batch);
double bench_batch_destroy(const struct batch *batch);
/* Bytes of each member's memory cgroup, kernel memory included, ascending; count of them, to be freed. */
double *bench_batch_memory(const struct batch *batch);

/* ---- cgroup.c ---- */

double bench_memory_of(pid_t pid); /* bytes of its memory cgroup */
/* Bytes of a new memory cgroup, which this process and what it starts are in until bench_cgroup_leave. */
void bench_cgroup_enter(void);
double bench_cgroup_bytes(void);
void bench_cgroup_leave(void);
void bench_cgroup_remove(void); /* once what was started in it has ended */
/* That the service and everything it runs have used; node is any of its nodes. */
double bench_cpu_ms(const struct sbx *service, pid_t node);

/* ---- the rows ---- */

void row_create(struct bench *bench);
void row_destroy(struct bench *bench);
void row_list(struct bench *bench);
void row_eval(struct bench *bench);
/* Part of the row with a hundred: info of the members of a batch, over HTTP. */
void bench_info(struct bench *bench, const struct batch *batch);
void row_work(struct bench *bench);
void row_hundred(struct bench *bench);
void row_thousand(struct bench *bench);

#endif
