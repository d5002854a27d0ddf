/* A hundred sandboxes of which ten attack at once, each in its own way. The others go on answering, none of them is
   restarted, and nothing is left in the end. BESIEGED_MS and BESIEGED_SANDBOXES make it shorter or smaller. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "leftovers.h"
#include "limits/attacks.h"
#include "processes.h"
#include "support.h"

enum {
    SANDBOXES_MAX = 100,
    ATTACKERS = 10,
    SIEGE_MS = 30000,
    ROUND_MAX_MS = 60000, /* for asking each once */
    CLIENTS = 8,
    ASKERS = 4,
    ID_BYTES = 16,
    SAMPLES_MAX = 1 << 18,
    EARLY_MS = 5,
    RETRY_PAUSE_MS = 20,
};

static const char *const attacked_limits[ATTACKERS] = {"memory",      "heap",           "processes",     "disk",
                                                       "descriptors", "ets_tables",     "message_queue", "atoms",
                                                       "sockets",     "control channel"};

struct siege {
    struct world *world;
    int sandboxes;
    atomic_int next;                  /* to create, or to ask */
    atomic_int counts[SANDBOXES_MAX]; /* how often each was asked, and so what it has counted */
    pid_t os_pids[SANDBOXES_MAX];     /* before */
    atomic_bool is_over;
    atomic_int attempts[ATTACKERS];
    atomic_int failures;
    char first_failure[256];
    atomic_int sample_count;
    float samples_ms[SAMPLES_MAX];
};

static void name_of(int number, char ret[ID_BYTES]) {
    snprintf(ret, ID_BYTES, "s%03d", number);
}

static void note_failure(struct siege *siege, const char *id, struct sbx_error *error) {
    if (atomic_fetch_add(&siege->failures, 1) == 0)
        snprintf(siege->first_failure, sizeof siege->first_failure, "%s: %.200s", id, error->detail);
    sbx_error_clear(error);
}

static void assert_no_failure(const struct siege *siege, const char *what) {
    if (siege->failures) fail_msg("%d failed while %s: %s", siege->failures, what, siege->first_failure);
}

/* ---- by many threads ---- */

static void run_threads(struct siege *siege, void *(*run)(void *), pthread_t *threads, int count) {
    for (int i = 0; i < count; i++) assert_int_equal(pthread_create(&threads[i], NULL, run, siege), 0);
}

static void join_threads(pthread_t *threads, int count) {
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

static void *create_some(void *data) {
    struct siege *siege = data;
    for (int i; (i = atomic_fetch_add(&siege->next, 1)) < siege->sandboxes;) {
        char id[ID_BYTES];
        struct sbx_error error = {0};
        const char *options = i < ATTACKERS ? limit_attack_find(attacked_limits[i])->options : NULL;
        name_of(i, id);
        if (sbx_create(world_client(siege->world), id, EXAMPLES "/counter_erl", options, NULL, &error) < 0)
            note_failure(siege, id, &error);
    }
    return NULL;
}

static void *destroy_some(void *data) {
    struct siege *siege = data;
    for (int i; (i = atomic_fetch_add(&siege->next, 1)) < siege->sandboxes;) {
        char id[ID_BYTES];
        struct sbx_error error = {0};
        name_of(i, id);
        if (sbx_destroy(world_client(siege->world), id, &error) < 0) note_failure(siege, id, &error);
    }
    return NULL;
}

static void for_all(struct siege *siege, void *(*run)(void *), const char *what) {
    pthread_t threads[CLIENTS];
    uint64_t begun_ms = clock_monotonic_ms();
    siege->next = 0;
    run_threads(siege, run, threads, CLIENTS);
    join_threads(threads, CLIENTS);
    assert_no_failure(siege, what);
    print_message("%d: %s, %llu ms\n", siege->sandboxes, what, (unsigned long long)(clock_monotonic_ms() - begun_ms));
}

/* ---- attackers ---- */

static void *attack(void *data) {
    struct siege *siege = data;
    int number = atomic_fetch_add(&siege->next, 1);
    char id[ID_BYTES], code[LIMIT_ATTACK_CODE_BYTES];
    name_of(number, id);
    limit_attack_repeated(limit_attack_find(attacked_limits[number]), code);
    while (!siege->is_over) {
        uint64_t begun_ms = clock_monotonic_ms();
        sbx_eval(world_client(siege->world), id, code, NULL, NULL, NULL);
        atomic_fetch_add(&siege->attempts[number], 1);
        /* One that is just being restarted says so at once: no reason to ask the service without end. */
        if (clock_monotonic_ms() - begun_ms < EARLY_MS)
            nanosleep(&(struct timespec){.tv_nsec = RETRY_PAUSE_MS * 1000000L}, NULL);
    }
    return NULL;
}

/* ---- the others ---- */

static void ask_one(struct siege *siege, int number) {
    char id[ID_BYTES];
    struct sbx_error error = {0};
    uint64_t begun_us = clock_monotonic_us();
    name_of(number, id);
    if (sbx_eval(world_client(siege->world), id, "counter:increment(1)", NULL, NULL, &error) < 0) {
        note_failure(siege, id, &error);
        return;
    }
    atomic_fetch_add(&siege->counts[number], 1);
    int sample = atomic_fetch_add(&siege->sample_count, 1);
    if (sample < SAMPLES_MAX) siege->samples_ms[sample] = (float)(clock_monotonic_us() - begun_us) / 1000;
}

static void *ask_in_turn(void *data) {
    struct siege *siege = data;
    while (!siege->is_over)
        ask_one(siege, ATTACKERS + atomic_fetch_add(&siege->next, 1) % (siege->sandboxes - ATTACKERS));
    return NULL;
}

static int by_value(const void *a, const void *b) {
    float left = *(const float *)a, right = *(const float *)b;
    return left < right ? -1 : left > right;
}

static void print_latency(struct siege *siege, const char *when) {
    int count = siege->sample_count < SAMPLES_MAX ? siege->sample_count : SAMPLES_MAX;
    assert_true(count > 0);
    qsort(siege->samples_ms, (size_t)count, sizeof *siege->samples_ms, by_value);
    print_message("%s: %d answers, %.1f ms in the middle, 99 of 100 within %.1f ms, all within %.1f ms\n", when, count,
                  (double)siege->samples_ms[count / 2], (double)siege->samples_ms[count - 1 - count / 100],
                  (double)siege->samples_ms[count - 1]);
    siege->sample_count = 0;
}

struct round {
    const struct siege *siege;
    uint64_t over_ms;
};

/* Its time is up, and each was asked. */
static bool is_past(void *data) {
    const struct round *round = data;
    const struct siege *siege = round->siege;
    return clock_monotonic_ms() >= round->over_ms &&
           (siege->failures || siege->sample_count >= siege->sandboxes - ATTACKERS + ASKERS);
}

static void ask_for(struct siege *siege, uint64_t length_ms, const char *when) {
    pthread_t askers[ASKERS];
    struct round round = {siege, clock_monotonic_ms() + length_ms};
    siege->next = 0;
    siege->is_over = false;
    run_threads(siege, ask_in_turn, askers, ASKERS);
    assert_true(wait_until(is_past, &round, length_ms + ROUND_MAX_MS));
    siege->is_over = true;
    join_threads(askers, ASKERS);
    assert_no_failure(siege, when);
    print_latency(siege, when);
}

/* ---- what must hold ---- */

static json_t *info_of(struct siege *siege, int number) {
    char id[ID_BYTES];
    name_of(number, id);
    return world_info(siege->world, id);
}

static void note_pids(struct siege *siege) {
    for (int i = ATTACKERS; i < siege->sandboxes; i++) {
        json_t *info = info_of(siege, i);
        siege->os_pids[i] = (pid_t)json_integer_value(json_object_get(info, "os_pid"));
        json_decref(info);
    }
}

/* The same VM, with all that it was told. */
static void assert_untouched(struct siege *siege, int number) {
    char id[ID_BYTES], expected[16];
    json_t *info = info_of(siege, number);
    assert_string_equal(json_string_value(json_object_get(info, "status")), "running");
    assert_int_equal(json_integer_value(json_object_get(info, "restart_count")), 0);
    assert_int_equal(json_integer_value(json_object_get(info, "os_pid")), siege->os_pids[number]);
    json_decref(info);
    name_of(number, id);
    snprintf(expected, sizeof expected, "%d", siege->counts[number]);
    CLEANUP_FREE char *value = world_eval_text(siege->world, id, NULL, "counter:value()");
    assert_string_equal(value, expected);
    assert_true(siege->counts[number] > 0);
}

static int setting(const char *name, int fallback) {
    const char *text = getenv(name);
    return text ? atoi(text) : fallback;
}

static void ten_attack_and_ninety_answer(void **state) {
    struct siege *siege = *state;
    pthread_t attackers[ATTACKERS];
    int siege_ms = setting("BESIEGED_MS", SIEGE_MS);
    for_all(siege, create_some, "created");
    note_pids(siege);
    ask_for(siege, 0, "first answers"); /* which load what evaluating needs */
    ask_for(siege, (uint64_t)siege_ms / 10, "quiet");
    siege->next = 0;
    siege->is_over = false;
    run_threads(siege, attack, attackers, ATTACKERS);
    while (siege->next < ATTACKERS) sched_yield(); /* until each has its number */
    ask_for(siege, (uint64_t)siege_ms, "besieged");
    for (int i = ATTACKERS; i < siege->sandboxes; i++) assert_untouched(siege, i);
    for_all(siege, destroy_some, "destroyed");
    join_threads(attackers, ATTACKERS);
    struct footprint *footprint = footprint_take(world_home(siege->world));
    assert_int_equal(footprint_node_count(footprint), 0);
    footprint_free(footprint);
}

static int open_world(void **state) {
    struct siege *siege = calloc(1, sizeof *siege);
    if (!siege) return -1;
    siege->sandboxes = setting("BESIEGED_SANDBOXES", SANDBOXES_MAX);
    /* Nodes are counted in the end. */
    siege->world = world_open("warm-nodes = 0\nspare-compilers = 0\ncompilers-kept = 0\n");
    *state = siege;
    return siege->sandboxes > ATTACKERS && siege->sandboxes <= SANDBOXES_MAX ? 0 : -1;
}

static int close_world(void **state) {
    struct siege *siege = *state;
    world_close(siege->world);
    free(siege);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_attack_and_ninety_answer),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
