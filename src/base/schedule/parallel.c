/* A loop over many items on all processors. The caller's thread takes part. */
#include "base/schedule/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"

struct loop {
    parallel_fn *run;
    void *context;
    size_t count;
    atomic_size_t next;
    atomic_bool failed; /* error is set, by the thread that made this true */
    struct error error;
    int result;
};

static void take_rounds(struct loop *loop) {
    size_t index;
    while (!atomic_load(&loop->failed) && (index = atomic_fetch_add(&loop->next, 1)) < loop->count) {
        struct error error;
        int result = loop->run(loop->context, index, &error);
        if (result >= 0 || atomic_exchange(&loop->failed, true)) continue;
        loop->result = result;
        loop->error = error;
    }
}

static void *help(void *data) {
    take_rounds(data);
    return NULL;
}

/* The processors we may run on, not those there are. */
static size_t processor_count(void) {
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? (size_t)CPU_COUNT(&allowed) : 1;
}

static size_t helper_count(size_t rounds) {
    size_t threads = processor_count();
    if (threads > PARALLEL_THREADS_MAX) threads = PARALLEL_THREADS_MAX;
    if (threads > rounds) threads = rounds;
    return threads > 0 ? threads - 1 : 0;
}

int parallel_each(size_t count, parallel_fn *run, void *context, struct error *reterr) {
    struct loop loop = {.run = run, .context = context, .count = count};
    pthread_t helpers[PARALLEL_THREADS_MAX];
    size_t wanted = helper_count(count), started = 0;
    while (started < wanted && pthread_create(&helpers[started], NULL, help, &loop) == 0) started++;
    take_rounds(&loop);
    for (size_t i = 0; i < started; i++) pthread_join(helpers[i], NULL);
    if (loop.result < 0) *reterr = loop.error;
    return loop.result;
}
