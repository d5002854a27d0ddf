/* Creates many sandboxes at once, asks each of them, and destroys them. */
#include "rows.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { THREADS_MAX = 128 };

/* What every member is asked, by several threads that take one member after the other. */
struct round {
    const struct batch *batch;
    void (*ask)(const struct batch *batch, const char *id);
    atomic_uint next;
};

static void *ask_members(void *data) {
    struct round *round = data;
    unsigned i;
    while ((i = atomic_fetch_add(&round->next, 1)) < round->batch->count) {
        char id[ID_BYTES];
        snprintf(id, sizeof id, "%s-%u", round->batch->prefix, i);
        round->ask(round->batch, id);
    }
    return NULL;
}

static double ask_all(const struct batch *batch, void (*ask)(const struct batch *batch, const char *id)) {
    struct round round = {.batch = batch, .ask = ask};
    pthread_t threads[THREADS_MAX];
    unsigned count = batch->at_once < THREADS_MAX ? batch->at_once : THREADS_MAX;
    uint64_t begun_us = clock_monotonic_us();
    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, ask_members, &round) != 0) bench_end("a batch", "no thread");
    for (unsigned i = 0; i < count; i++) pthread_join(threads[i], NULL);
    return bench_since_ms(begun_us);
}

static void create_member(const struct batch *batch, const char *id) {
    json_t *params = json_pack("{s:s, s:s}", "id", id, "source", batch->wish.source);
    json_decref(bench_ask(batch->wish.service, "create", params));
}

static void ask_member(const struct batch *batch, const char *id) {
    json_t *params = json_pack("{s:s, s:s, s:s}", "id", id, "code", "1 + 2", "language", "erlang");
    json_t *answer = bench_ask(batch->wish.service, "eval", params);
    if (json_integer_value(json_object_get(answer, "result")) != 3) bench_end(id, "it answers something else");
    json_decref(answer);
}

static void destroy_member(const struct batch *batch, const char *id) {
    bench_destroy(batch->wish.service, id);
}

double bench_batch_create(const struct batch *batch) {
    return ask_all(batch, create_member);
}

double bench_batch_eval(const struct batch *batch) {
    return ask_all(batch, ask_member);
}

double bench_batch_destroy(const struct batch *batch) {
    return ask_all(batch, destroy_member);
}

static int by_size(const void *a, const void *b) {
    const double *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

double *bench_batch_memory(const struct batch *batch) {
    double *bytes = calloc(batch->count, sizeof *bytes);
    if (!bytes) bench_end("a batch", "no memory");
    for (unsigned i = 0; i < batch->count; i++) {
        char id[ID_BYTES];
        snprintf(id, sizeof id, "%s-%u", batch->prefix, i);
        json_t *info = bench_ask(batch->wish.service, "info", json_pack("{s:s}", "id", id));
        bytes[i] = bench_memory_of((pid_t)json_integer_value(json_object_get(info, "os_pid")));
        json_decref(info);
    }
    qsort(bytes, batch->count, sizeof *bytes, by_size);
    return bytes;
}
