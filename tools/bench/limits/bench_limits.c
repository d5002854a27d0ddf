/* bench_limits: each limit under attack. How long until it held, and what a small evaluation in a neighbouring sandbox
   takes meanwhile, beside what it takes with the attacker frozen. Prints JSON; tools/bench/limits/bench_limits.sh makes
   a table of it. */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "bench.h"
#include "limits/attacks.h"
#include "sandbox.h"

enum { RETRY_PAUSE_MS = 20, FAILED_EARLY_MS = 5, HELD_MAX_MS = 20000, TURNS = 5 };

#define NEIGHBOUR "neighbour"
#define ATTACKER "attacker"

struct bench {
    struct sbx *service;
    const char *source;
    uint64_t window_ms;
};

/* ---- the attacker ---- */

struct attack_run {
    const struct bench *bench;
    const struct limit_attack *attack;
    atomic_bool is_over;
    double held_ms; /* by its answer; below 0: not yet */
};

static void pause_ms(long length_ms) {
    nanosleep(&(struct timespec){.tv_nsec = length_ms * 1000000}, NULL);
}

/* What the code was told, or how it failed. */
static void attempt(const struct attack_run *run, const char *code, struct buf *ret_told) {
    CLEANUP_FREE char *answer = NULL;
    struct sbx_error error = {0};
    bool failed = sbx_eval(run->bench->service, ATTACKER, code, NULL, &answer, &error) < 0;
    buf_append_string(ret_told, failed ? error.detail : answer);
    sbx_error_clear(&error);
}

static void await_answer(struct attack_run *run) {
    CLEANUP(buf_free) struct buf told = BUF_INIT;
    uint64_t begun_us = clock_monotonic_us();
    attempt(run, run->attack->code, &told);
    if (!strstr(buf_string(&told), run->attack->told)) bench_end(run->attack->limit, buf_string(&told));
    run->held_ms = bench_since_ms(begun_us);
}

/* Attacks from inside without end; a process that is killed for it is started again. */
static void *run_attack(void *data) {
    struct attack_run *run = data;
    char code[LIMIT_ATTACK_CODE_BYTES];
    if (run->attack->sign == SIGN_ANSWER) await_answer(run);
    limit_attack_repeated(run->attack, code);
    while (!run->is_over) {
        CLEANUP(buf_free) struct buf told = BUF_INIT;
        uint64_t begun_us = clock_monotonic_us();
        attempt(run, code, &told);
        /* Asking a sandbox that is just being restarted is no attack of its own. */
        if (bench_since_ms(begun_us) < FAILED_EARLY_MS) pause_ms(RETRY_PAUSE_MS);
    }
    return NULL;
}

/* ---- signs ---- */

struct search {
    const struct limit_attack *attack;
    int64_t since_ms;    /* on the wall's clock */
    int64_t found_at_ms; /* 0: not found */
};

/* "2026-01-02T03:04:05.678Z" */
static int64_t wall_ms(const char *text) {
    struct tm parts = {0};
    const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) : NULL;
    if (!rest || rest[0] != '.') bench_end("an event's time", text ? text : "missing");
    return (int64_t)timegm(&parts) * 1000 + strtol(rest + 1, NULL, 10);
}

static bool is_sign(const struct search *search, json_t *event, const char *text) {
    return string_equal(json_string_value(json_object_get(event, "kind")), search->attack->kind) &&
           strstr(text, search->attack->told);
}

static int on_event(const char *text, void *data) {
    struct search *search = data;
    json_t *event = json_loads(text, 0, NULL);
    int64_t at_ms = wall_ms(json_string_value(json_object_get(event, "time")));
    if (!search->found_at_ms && at_ms >= search->since_ms && is_sign(search, event, text)) search->found_at_ms = at_ms;
    json_decref(event);
    return 0;
}

static double held_by_event(const struct bench *bench, const struct limit_attack *attack, int64_t begun_ms) {
    struct search search = {.attack = attack, .since_ms = begun_ms};
    for (uint64_t until_ms = clock_monotonic_ms() + HELD_MAX_MS; !search.found_at_ms; pause_ms(RETRY_PAUSE_MS)) {
        struct sbx_error error;
        if (clock_monotonic_ms() > until_ms) bench_end(attack->limit, "it did not hold");
        if (sbx_events(bench->service, "{\"sandbox_id\": \"" ATTACKER "\"}", on_event, &search, &error) < 0)
            bench_end("events", error.detail);
    }
    return (double)(search.found_at_ms - begun_ms);
}

/* CPU time of its processes, or what it wrote; in milliseconds and in bytes. */
static double used_so_far(const struct bench *bench, const struct limit_attack *attack) {
    CLEANUP_FREE char *text = NULL;
    double sum = 0;
    size_t index;
    json_t *task;
    if (sbx_op(bench->service, "stats", "{\"id\": \"" ATTACKER "\"}", &text, NULL) < 0) bench_end("stats", ATTACKER);
    json_t *stats = json_loads(text, 0, NULL);
    if (string_equal(attack->limit, "output"))
        sum = json_number_value(json_object_get(json_object_get(stats, "vm"), "io_out_bytes"));
    else
        json_array_foreach(json_object_get(stats, "tasks"), index, task) sum +=
            json_number_value(json_object_get(task, "cpu_ms"));
    json_decref(stats);
    return sum;
}

/* ---- the neighbour ---- */

static void ask_neighbour(const struct bench *bench, uint64_t length_ms, json_t *times) {
    uint64_t until_ms = clock_monotonic_ms() + length_ms;
    while (clock_monotonic_ms() < until_ms) {
        struct sbx_error error;
        uint64_t begun_us = clock_monotonic_us();
        if (sbx_eval(bench->service, NEIGHBOUR, "counter:value()", NULL, NULL, &error) < 0)
            bench_end("the neighbour", error.detail);
        json_array_append_new(times, json_real(bench_since_ms(begun_us)));
    }
}

/* By turns with the attacker frozen, so that whatever else the machine does is in both. One that is not running just
   now can't be frozen, and needn't be. */
static void compare(const struct bench *bench, json_t *quiet, json_t *attacked) {
    for (int i = 0; i < TURNS; i++) {
        sbx_op(bench->service, "freeze", "{\"id\": \"" ATTACKER "\"}", NULL, NULL);
        ask_neighbour(bench, bench->window_ms / TURNS, quiet);
        sbx_op(bench->service, "thaw", "{\"id\": \"" ATTACKER "\"}", NULL, NULL);
        ask_neighbour(bench, bench->window_ms / TURNS / 2, attacked);
    }
}

static void create(const struct bench *bench, const char *id, const char *options) {
    struct sbx_error error;
    if (sbx_create(bench->service, id, bench->source, options, NULL, &error) < 0) bench_end(id, error.detail);
}

static json_t *bench_attack(const struct bench *bench, const struct limit_attack *attack) {
    struct attack_run run = {.bench = bench, .attack = attack, .held_ms = -1};
    pthread_t thread;
    bool is_rate = attack->sign == SIGN_RATE;
    json_t *quiet = json_array(), *attacked = json_array();
    create(bench, ATTACKER, attack->options);
    double before = is_rate ? used_so_far(bench, attack) : 0;
    uint64_t begun_us = clock_monotonic_us();
    int64_t begun_ms = clock_wall_ms();
    if (pthread_create(&thread, NULL, run_attack, &run) != 0) bench_end("a thread", attack->limit);
    ask_neighbour(bench, bench->window_ms / 2, attacked);
    double used = is_rate ? (used_so_far(bench, attack) - before) / bench_since_ms(begun_us) : 0;
    double held_ms = attack->sign == SIGN_EVENT ? held_by_event(bench, attack, begun_ms) : 0;
    compare(bench, quiet, attacked);
    run.is_over = true;
    sbx_destroy(bench->service, ATTACKER, NULL);
    pthread_join(thread, NULL);
    if (attack->sign == SIGN_ANSWER) held_ms = run.held_ms;
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "limit", attack->limit, "tries", attack->tries, "bound",
                     is_rate ? attack->told : "", "held_ms", is_rate ? json_null() : json_real(held_ms), "used_per_ms",
                     is_rate ? json_real(used) : json_null(), "quiet_ms", quiet, "attacked_ms", attacked);
}

/* No names: all of them. */
static bool is_wanted(const struct limit_attack *attack, char *const *names) {
    if (!*names) return true;
    while (*names && strcmp(*names, attack->limit) != 0) names++;
    return *names;
}

/* What the client waits for its own turn is neither the neighbour's time nor the service's: it never waits for one. */
static void go_before_everybody(void) {
    if (sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1}) < 0)
        bench_end("a priority of its own", "this takes root");
}

int main(int argc, char **argv) {
    if (argc < 4) bench_end("usage", "bench_limits PROJECT WORK_FOLDER WINDOW_MS [LIMIT…]");
    go_before_everybody();
    struct bench bench = {.source = argv[1], .window_ms = strtoul(argv[3], NULL, 10)};
    struct sbx_error error;
    char home[PATH_MAX];
    size_t count;
    const struct limit_attack *attacks = limit_attacks(&count);
    json_t *rows = json_array();
    if (string_format(home, sizeof home, NULL, "%s/home", argv[2]) < 0 || sbx_open(home, &bench.service, &error) < 0)
        bench_end("the service", home);
    create(&bench, NEIGHBOUR, NULL);
    json_t *first = json_array(); /* with whatever is loaded for them */
    ask_neighbour(&bench, bench.window_ms, first);
    json_decref(first);
    for (size_t i = 0; i < count; i++)
        if (is_wanted(&attacks[i], argv + 4)) json_array_append_new(rows, bench_attack(&bench, &attacks[i]));
    json_dumpf(rows, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    json_decref(rows);
    sbx_op(bench.service, "shutdown", NULL, NULL, NULL);
    sbx_close(bench.service);
    return 0;
}
