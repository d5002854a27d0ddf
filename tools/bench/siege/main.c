/* bench_siege: what a neighbour's `info` and `eval` take while the service is attacked, beside what they take by turns
   without. Prints a JSON object for each attack; tools/bench/siege/siege.sh makes a table of them. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "siege.h"

enum { ROW_MAX_MS = 120000 };

struct course {
    uint64_t window_ms;
    unsigned rounds;
};

/* What the client waits for its own turn is neither the neighbour's time nor the service's. What it starts waits. */
static void go_before_everybody(void) {
    if (sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1}) < 0)
        bench_end("a priority of its own", "this takes root");
}

static void go_with_everybody(void) {
    sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
}

/* The largest that the daemon has been, in MiB; 0: it is gone. */
static json_int_t peak_mib(const struct arena *arena) {
    char path[64], line[128];
    json_int_t peak_kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)arena->daemon);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmHWM:", 6) == 0) peak_kib = strtoll(line + 6, NULL, 10);
    if (file) fclose(file);
    return peak_kib / 1024;
}

/* The turns of the daemon's loop as it tells them itself, where it does. */
static json_t *loop_turns(const struct arena *arena) {
    CLEANUP_FREE char *text = NULL;
    struct sbx *client = arena_client(arena->home);
    int result = client ? sbx_op(client, "health", NULL, &text, NULL) : -1;
    json_t *health = result == 0 ? json_loads(text, 0, NULL) : NULL;
    json_t *loop = json_incref(json_object_get(health, "loop"));
    json_decref(health);
    sbx_close(client);
    return loop ? loop : json_null();
}

/* By turns, so that whatever else the machine does is in both. A row that takes long enough says enough. */
static void take_turns(struct arena *arena, struct assault *assault, const struct course *course, json_t *quiet,
                       json_t *attacked) {
    uint64_t until_ms = clock_monotonic_ms() + ROW_MAX_MS;
    for (unsigned i = 0; i < course->rounds && clock_monotonic_ms() < until_ms && neighbour_lives(arena); i++) {
        json_array_append_new(quiet, neighbour_watch(arena, course->window_ms, NULL));
        assault_begin(assault, course->window_ms);
        json_array_append_new(attacked, neighbour_watch(arena, course->window_ms, assault));
        assault_end(assault);
        neighbour_settle(arena); /* what the attack has left to be done is no quiet */
    }
}

static void bench_attack(struct arena *arena, const struct siege_attack *attack, const struct course *course) {
    json_t *quiet = json_array(), *attacked = json_array();
    fprintf(stderr, "%s: %s\n", attack->family, attack->tries);
    go_with_everybody();
    arena_open(arena);
    struct assault *assault = assault_open(arena, attack);
    go_before_everybody();
    neighbour_settle(arena); /* with whatever is loaded for them */
    take_turns(arena, assault, course, quiet, attacked);
    go_with_everybody();
    json_t *did = assault_close(assault);
    json_t *row =
        json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:I, s:o}", "family", attack->family, "tries", attack->tries,
                  "from", attack->uid ? "another user" : "inside", "quiet", quiet, "attacked", attacked, "attacker",
                  did, "victims", arena_verdict(arena), "peak_mib", peak_mib(arena), "loop", loop_turns(arena));
    json_dumpf(row, stdout, JSON_REAL_PRECISION(6));
    fputc('\n', stdout);
    json_decref(row);
    arena_close(arena);
}

/* No names: all of them. */
static bool is_wanted(const struct siege_attack *attack, char *const *names) {
    if (!*names) return true;
    while (*names && strcmp(*names, attack->family) != 0) names++;
    return *names;
}

int main(int argc, char **argv) {
    if (argc < 4) bench_end("usage", "bench_siege WORK_FOLDER WINDOW_MS ROUNDS [ATTACK…]");
    struct arena arena = {0};
    const struct course course = {strtoul(argv[2], NULL, 10), (unsigned)strtoul(argv[3], NULL, 10)};
    size_t count;
    const struct siege_attack *attacks = siege_attacks(&count);
    arena_find(&arena, argv[1]);
    for (size_t i = 0; i < count; i++)
        if (is_wanted(&attacks[i], argv + 4)) bench_attack(&arena, &attacks[i], &course);
    return 0;
}
