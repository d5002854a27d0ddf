/* The neighbour: root's sandbox, asked for `info` and `eval` without a pause by a client that is connected already. A
   new client and a `create` are tried at the end of each window, while the attack still goes on. */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "siege.h"

enum { NEWCOMERS = 3, SETTLED_MS = 200, STRIKE_MAX_MS = 20000, RETRY_PAUSE_MS = 20, FAILED_EARLY_MS = 5 };

struct times {
    double *values_ms;
    size_t count, capacity;
    unsigned failed;
};

static void note(struct times *times, double value_ms) {
    if (times->count == times->capacity) {
        times->capacity = times->capacity ? times->capacity * 2 : 1024;
        times->values_ms = realloc(times->values_ms, times->capacity * sizeof *times->values_ms);
        if (!times->values_ms) bench_end("times", "no memory");
    }
    times->values_ms[times->count++] = value_ms;
}

static int ascending(const void *a, const void *b) {
    const double *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static double percentile(const struct times *times, unsigned percent) {
    return times->count ? times->values_ms[((times->count - 1) * percent + 50) / 100] : -1;
}

static void sort(struct times *times) {
    if (times->count) qsort(times->values_ms, times->count, sizeof *times->values_ms, ascending);
}

/* A client that waits asks nothing meanwhile, so one stall would count as one slow call among thousands. The calls that
   it kept from being made count too, each from its own time on, as often as calls are made otherwise. */
static void add_unasked(struct times *times) {
    static const double shortest_ms = 0.02, longest_ms = 0.1;
    sort(times);
    size_t asked = times->count;
    double interval_ms = percentile(times, 50);
    if (interval_ms < shortest_ms) interval_ms = shortest_ms;
    if (interval_ms > longest_ms) interval_ms = longest_ms;
    for (size_t i = 0; i < asked; i++)
        for (double rest_ms = times->values_ms[i] - interval_ms; rest_ms > 0; rest_ms -= interval_ms)
            note(times, rest_ms);
}

static json_t *summary(struct times *times) {
    sort(times);
    json_t *told =
        json_pack("{s:i, s:i, s:f, s:f, s:f}", "count", (int)times->count, "failed", (int)times->failed, "p50",
                  percentile(times, 50), "p99", percentile(times, 99), "worst", percentile(times, 100));
    free(times->values_ms);
    return told;
}

/* What fails at once is asked again after a pause: a refusal is no latency. What fails after a wait has taken it. */
static void finish(struct times *times, uint64_t begun_us, int result) {
    double took_ms = bench_since_ms(begun_us);
    bool failed_early = result < 0 && took_ms < FAILED_EARLY_MS;
    times->failed += result < 0;
    if (failed_early)
        poll(NULL, 0, RETRY_PAUSE_MS);
    else
        note(times, took_ms);
}

static void ask_info(struct sbx *client, struct times *times) {
    uint64_t begun_us = clock_monotonic_us();
    finish(times, begun_us, sbx_info(client, NEIGHBOUR, NULL, NULL));
}

static void ask_eval(struct sbx *client, struct times *times) {
    uint64_t begun_us = clock_monotonic_us();
    finish(times, begun_us, sbx_eval(client, NEIGHBOUR, "counter:value()", NULL, NULL, NULL));
}

static void come_anew(const struct arena *arena, struct times *times) {
    uint64_t begun_us = clock_monotonic_us();
    struct sbx *client = arena_client(arena->home);
    finish(times, begun_us, client ? sbx_info(client, NEIGHBOUR, NULL, NULL) : -1);
    sbx_close(client);
}

static void create_another(struct arena *arena, struct times *times) {
    uint64_t begun_us = clock_monotonic_us();
    finish(times, begun_us, sbx_create(arena->service, "another", arena->counter, NULL, NULL, NULL));
    sbx_destroy(arena->service, "another", NULL);
}

/* Each kind of question has a thread of its own: one that waits for a stalled service must not hide the stall from the
   other. */
struct asking {
    struct sbx *service;
    void (*ask)(struct sbx *service, struct times *times);
    uint64_t until_ms, latest_ms;
    const struct assault *assault;
    struct times times;
    pthread_t thread;
};

static bool goes_on(const struct asking *asking) {
    uint64_t now_ms = clock_monotonic_ms();
    return now_ms < asking->until_ms || (now_ms < asking->latest_ms && !assault_has_struck(asking->assault));
}

static void *ask_on(void *data) {
    struct asking *asking = data;
    while (goes_on(asking)) asking->ask(asking->service, &asking->times);
    return NULL;
}

static void ask_both(struct arena *arena, uint64_t length_ms, const struct assault *assault, struct times *ret_info,
                     struct times *ret_eval) {
    struct asking askings[] = {{.ask = ask_info}, {.ask = ask_eval}};
    for (size_t i = 0; i < ARRAY_SIZE(askings); i++) {
        askings[i].service = arena->service;
        askings[i].assault = assault;
        askings[i].until_ms = clock_monotonic_ms() + length_ms;
        askings[i].latest_ms = askings[i].until_ms + STRIKE_MAX_MS;
        if (pthread_create(&askings[i].thread, NULL, ask_on, &askings[i]) != 0) bench_end("a thread", "none");
    }
    for (size_t i = 0; i < ARRAY_SIZE(askings); i++) pthread_join(askings[i].thread, NULL);
    *ret_info = askings[0].times;
    *ret_eval = askings[1].times;
}

json_t *neighbour_watch(struct arena *arena, uint64_t length_ms, const struct assault *assault) {
    struct times info = {0}, eval = {0}, newcomers = {0}, creates = {0};
    ask_both(arena, length_ms, assault, &info, &eval);
    add_unasked(&info);
    add_unasked(&eval);
    for (int i = 0; i < NEWCOMERS; i++) come_anew(arena, &newcomers);
    create_another(arena, &creates);
    return json_pack("{s:o, s:o, s:o, s:o}", "info", summary(&info), "eval", summary(&eval), "newcomers",
                     summary(&newcomers), "create", summary(&creates));
}

void neighbour_settle(struct arena *arena) {
    struct times info, eval;
    ask_both(arena, SETTLED_MS, NULL, &info, &eval);
    free(info.values_ms);
    free(eval.values_ms);
}

bool neighbour_lives(struct arena *arena) {
    return sbx_eval(arena->service, NEIGHBOUR, "counter:value()", NULL, NULL, NULL) == 0;
}
