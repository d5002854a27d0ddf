/* Creates, reloads, crashes and destroys at random, for as long as SOAK_SECONDS says. Now and then everything is
   destroyed, and what daemon and launcher hold then is written down: it may not grow. `make soak` runs it. */
#include "support.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    WORKERS = 3,
    SANDBOXES_EACH = 4,
    SPELLS = 8,         /* between which all is quiet */
    WARM_UP_SPELLS = 2, /* caches fill, the allocator finds its size */
    EVENTS_KEPT = 4096,
    SETTLE_MS = 1500,
    SETTLE_LOOK_MS = 100,
    SETTLE_DEADLINE_MS = 60000,
    GROWTH_MAX_KB = 3072, /* SQLite caches 2 MB of the registry by and by */
    GROWTH_MAX_PERCENT = 10,
    DESCRIPTORS_MAX_MORE = 4,
    DESCRIPTORS_OF_A_NODE = 4, /* that waits: listener, connection, process, output */
};

/* ---- what is done ---- */

struct worker {
    struct sbx *client;
    unsigned number;
    uint64_t random;
    const char *source;
    uint64_t ends_ms;
    unsigned version;
    atomic_ulong *done, *refused;
    char unexpected[512];
};

static uint64_t draw(struct worker *worker) {
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return worker->random;
}

/* A sandbox that is not there, there already, dead or frozen is what a random order brings. */
static bool is_expected(const struct sbx_error *error) {
    static const char *const codes[] = {"not_found",     "already_exists",    "conflict",      "node_failed",
                                        "runtime_error", "reload_failed",     "limit_reached", "start_failed",
                                        "timeout",       "protocol_violation"};
    for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
        if (strcmp(codes[i], error->code) == 0) return true;
    return false;
}

static void ask(struct worker *worker, const char *op, json_t *params) {
    CLEANUP_FREE char *text = json_dumps(params, 0);
    struct sbx_error error;
    json_decref(params);
    if (sbx_op(worker->client, op, text, NULL, &error) == 0) {
        atomic_fetch_add(worker->done, 1);
        return;
    }
    atomic_fetch_add(worker->refused, 1);
    if (!is_expected(&error) && !worker->unexpected[0])
        snprintf(worker->unexpected, sizeof worker->unexpected, "%s: %s: %.300s", op, error.code, error.detail);
    sbx_error_clear(&error);
}

static void do_create(struct worker *worker, const char *id) {
    static const char *const profiles[] = {"high", "medium", "low"};
    const char *source = draw(worker) % 3 ? worker->source : EXAMPLES "/counter";
    ask(worker, "create",
        json_pack("{s:s, s:s, s:s}", "id", id, "source", source, "profile", profiles[draw(worker) % 3]));
}

static void do_eval(struct worker *worker, const char *id) {
    ask(worker, "eval",
        json_pack("{s:s, s:s, s:s}", "id", id, "code", "lists:sum(lists:seq(1, 1000))", "language", "erlang"));
}

static void write_version(const struct worker *worker) {
    FILE *file = fopen(worker->source, "we");
    if (!file) return;
    fprintf(
        file,
        "-module(soak_%u).\n-behaviour(gen_server).\n-export([start_link/0, init/1, handle_call/3, handle_cast/2]).\n"
        "start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).\ninit([]) -> {ok, 0}.\n"
        "handle_call(_, _, N) -> {reply, {%u, N}, N + 1}.\nhandle_cast(_, N) -> {noreply, N}.\n",
        worker->number, worker->version);
    fclose(file);
}

static void do_reload(struct worker *worker, const char *id) {
    worker->version++;
    write_version(worker);
    ask(worker, "reload", json_pack("{s:s, s:i}", "id", id, "probation_ms", 50));
}

static void do_crash(struct worker *worker, const char *id) {
    static const char *const ways[] = {"erlang:halt(1)", "exit(whereis(sbx_agent), kill)", "exit(whereis(init), kill)"};
    const char *code = ways[draw(worker) % ARRAY_SIZE(ways)];
    ask(worker, "eval", json_pack("{s:s, s:s, s:s}", "id", id, "code", code, "language", "erlang"));
}

static void do_restart(struct worker *worker, const char *id) {
    ask(worker, "restart", json_pack("{s:s}", "id", id));
}

static void do_freeze(struct worker *worker, const char *id) {
    ask(worker, draw(worker) % 2 ? "freeze" : "thaw", json_pack("{s:s}", "id", id));
}

static void do_destroy(struct worker *worker, const char *id) {
    ask(worker, "destroy", json_pack("{s:s}", "id", id));
}

static void (*const acts[])(struct worker *worker, const char *id) = {
    do_create, do_create, do_create, do_eval,    do_eval,    do_eval,    do_reload,
    do_reload, do_crash,  do_freeze, do_restart, do_destroy, do_destroy,
};

static void *work(void *data) {
    struct worker *worker = data;
    while (clock_monotonic_ms() < worker->ends_ms) {
        char id[32];
        snprintf(id, sizeof id, "soak-%u-%u", worker->number, (unsigned)(draw(worker) % SANDBOXES_EACH));
        acts[draw(worker) % ARRAY_SIZE(acts)](worker, id);
    }
    for (unsigned i = 0; i < SANDBOXES_EACH; i++) {
        char id[32];
        snprintf(id, sizeof id, "soak-%u-%u", worker->number, i);
        do_destroy(worker, id);
    }
    return NULL;
}

/* ---- what is held when all is quiet ---- */

static const char *const programs[] = {"daemon", "launcher"};
enum { PROGRAMS = ARRAY_SIZE(programs) };

struct sample {
    long memory_kb[PROGRAMS], descriptors[PROGRAMS], nodes;
};

static long memory_of(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    CLEANUP_FREE char *text = read_whole(path);
    const char *line = text ? strstr(text, "RssAnon:") : NULL;
    return line ? strtol(line + strlen("RssAnon:"), NULL, 10) : -1;
}

static long descriptors_of(pid_t pid) {
    char path[64];
    long count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) count += entry->d_name[0] != '.';
    if (folder) closedir(folder);
    return count;
}

static long waiting_nodes(struct world *world) {
    json_t *health = world_op(world, "health", NULL);
    long nodes = (long)json_integer_value(json_object_get(health, "warm_nodes"));
    assert_int_equal(json_integer_value(json_object_get(health, "sandboxes")), 0);
    json_decref(health);
    return nodes;
}

static struct sample look(struct world *world) {
    struct sample sample = {.nodes = waiting_nodes(world)};
    for (unsigned i = 0; i < PROGRAMS; i++) {
        char lock[32];
        snprintf(lock, sizeof lock, "%s.lock", programs[i]);
        pid_t pid = world_pid(world, lock);
        sample.memory_kb[i] = memory_of(pid);
        sample.descriptors[i] = descriptors_of(pid) - DESCRIPTORS_OF_A_NODE * (i == 0 ? sample.nodes : 0);
    }
    return sample;
}

/* Quiet: nothing has opened or closed anything for a while. */
static struct sample look_when_quiet(struct world *world) {
    uint64_t deadline_ms = clock_monotonic_ms() + SETTLE_DEADLINE_MS, since_ms = clock_monotonic_ms();
    struct sample last = look(world);
    while (clock_monotonic_ms() - since_ms < SETTLE_MS && clock_monotonic_ms() < deadline_ms) {
        poll(NULL, 0, SETTLE_LOOK_MS);
        struct sample now = look(world);
        bool is_same =
            now.nodes == last.nodes && memcmp(now.descriptors, last.descriptors, sizeof now.descriptors) == 0;
        if (!is_same) since_ms = clock_monotonic_ms();
        last = now;
    }
    return last;
}

static void judge(const struct sample *before, const struct sample *after) {
    for (unsigned i = 0; i < PROGRAMS; i++) {
        long allowed_kb = before->memory_kb[i] * GROWTH_MAX_PERCENT / 100;
        if (allowed_kb < GROWTH_MAX_KB) allowed_kb = GROWTH_MAX_KB;
        if (after->memory_kb[i] > before->memory_kb[i] + allowed_kb)
            fail_msg("the %s grew from %ld to %ld kB", programs[i], before->memory_kb[i], after->memory_kb[i]);
        if (after->descriptors[i] > before->descriptors[i] + DESCRIPTORS_MAX_MORE)
            fail_msg("the %s had %ld descriptors, and has %ld", programs[i], before->descriptors[i],
                     after->descriptors[i]);
    }
}

/* ---- all of it ---- */

static void spend_a_spell(struct worker *workers, uint64_t spell_ms) {
    pthread_t threads[WORKERS];
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i].ends_ms = clock_monotonic_ms() + spell_ms;
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < WORKERS; i++)
        if (workers[i].unexpected[0]) fail_msg("%s", workers[i].unexpected);
}

static void prepare(struct world *world, struct worker *workers, atomic_ulong *done, atomic_ulong *refused) {
    for (unsigned i = 0; i < WORKERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "soak_%u.erl", i);
        workers[i] = (struct worker){.client = world_client(world),
                                     .number = i,
                                     .random = 88172645463325252u + i,
                                     .source = strdup(world_path(world, name)),
                                     .done = done,
                                     .refused = refused};
        assert_non_null(workers[i].source);
        world_file(world, name, "");
        write_version(&workers[i]);
    }
}

/* The daemon keeps the last 4,096 events in memory: what comes by and by is there from the beginning. */
static void fill_history(struct world *world) {
    json_decref(world_create(world, "history", EXAMPLES "/counter_erl", "medium"));
    for (int i = 0; i < EVENTS_KEPT / 2; i++) {
        world_do(world, "freeze", "{s:s}", "id", "history");
        world_do(world, "thaw", "{s:s}", "id", "history");
    }
    world_destroy(world, "history");
}

static void soak(void **state) {
    const char *asked = getenv("SOAK_SECONDS");
    uint64_t spell_ms = (asked ? strtoull(asked, NULL, 10) : 600) * 1000 / SPELLS;
    struct world *world = world_open("compiler-idle = 1s\nwarm-nodes = 2\n");
    struct worker workers[WORKERS];
    struct sample first = {0}, last;
    atomic_ulong done = 0, refused = 0;
    (void)state;
    fill_history(world);
    prepare(world, workers, &done, &refused);
    for (unsigned spell = 0; spell < SPELLS; spell++) {
        spend_a_spell(workers, spell_ms);
        last = look_when_quiet(world);
        if (spell < WARM_UP_SPELLS) first = last;
        printf(
            "%lu done, %lu refused; %ld nodes wait; daemon %ld kB, %ld descriptors; launcher %ld kB, %ld descriptors\n",
            (unsigned long)done, (unsigned long)refused, last.nodes, last.memory_kb[0], last.descriptors[0],
            last.memory_kb[1], last.descriptors[1]);
        fflush(stdout);
    }
    for (unsigned i = 0; i < WORKERS; i++) free((void *)(uintptr_t)workers[i].source);
    world_close(world); /* and nothing is left */
    judge(&first, &last);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(soak)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
