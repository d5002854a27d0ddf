/* A sandbox's queue: first come, first served. An exclusive job runs alone; others run side by side until an exclusive
   one is in front. */
#include "core/queue.h"
#include "core/core_internal.h"
#include "core/sandbox/sandbox.h"

static unsigned count_jobs(const struct sandbox *sandbox) {
    unsigned count = 0;
    for (const struct job *job = sandbox->queue.jobs; job; job = job->next) count++;
    return count;
}

/* The first job that may start now, or NULL. */
static struct job *next_job(struct sandbox *sandbox) {
    bool first = true;
    for (struct job *job = sandbox->queue.jobs; job; job = job->next, first = false) {
        if (job->running && job->exclusive) return NULL;
        if (job->running) continue;
        return job->exclusive && !first ? NULL : job;
    }
    return NULL;
}

static void start_next(struct sandbox *sandbox) {
    struct job *job;
    while (!sandbox->queue.is_held && (job = next_job(sandbox))) {
        job->running = true;
        job->start(job);
    }
}

void job_submit(struct job *job) {
    struct sandbox *sandbox = job->sandbox;
    struct job **end = &sandbox->queue.jobs;
    while (*end) end = &(*end)->next;
    job->next = NULL;
    *end = job;
    struct error error;
    if (sandbox->ending.is_destroying)
        error_set(&error, E_CONFLICT, "the sandbox '%s' is being destroyed", sandbox->id);
    else if (count_jobs(sandbox) > JOBS_MAX)
        error_set(&error, E_LIMIT, "%d operations wait for the sandbox '%s' already", JOBS_MAX, sandbox->id);
    else {
        start_next(sandbox);
        return;
    }
    job->abort(job, &error);
}

void job_finish(struct job *job) {
    struct sandbox *sandbox = job->sandbox;
    struct engine *engine = sandbox->engine;
    struct job **at = &sandbox->queue.jobs;
    while (*at != job) at = &(*at)->next;
    *at = job->next;
    if (!sandbox->ending.is_destroying)
        start_next(sandbox);
    else if (!sandbox->queue.jobs)
        sandbox_jobs_over(sandbox);
    sweep_if_due(engine);
    engine_wake(engine);
}

void jobs_abort_all(struct sandbox *sandbox, const struct error *why) {
    struct job *next;
    sandbox->queue.is_held = true; /* nothing starts meanwhile, so that no job goes but the one at hand */
    for (struct job *job = sandbox->queue.jobs; job; job = next) {
        next = job->next;
        job->abort(job, why);
    }
    sandbox->queue.is_held = false;
    if (!sandbox->ending.is_destroying) start_next(sandbox);
}
