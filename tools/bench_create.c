/* bench_create EXAMPLES ESCRIPT WORK_FOLDER ROUNDS: how long creating, destroying and calling takes, ours and the
   alternatives in turns. Prints JSON: for each subject its times in milliseconds. tools/bench_create.sh runs it and
   makes a table of that. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "bench.h"
#include "sandbox.h"

enum {
    QUICK_ROUNDS = 5, /* times as many of what takes milliseconds */
    WARM_NODES = 4,
    SETTLE_MS = 100,
    LOOK_AGAIN_MS = 10,
    LOOKS_MAX = 3000,
};

struct bench {
    const char *examples, *folder;
    struct sbx *warm, *cold; /* services with and without nodes that wait */
    struct bench_vm vm;
    unsigned rounds, created;
    json_t *times; /* subject → array */
};

/* ---- the services ---- */

static json_t *ask(struct sbx *service, const char *op, json_t *params) {
    CLEANUP_FREE char *answer = NULL;
    CLEANUP_FREE char *text = params ? json_dumps(params, 0) : NULL;
    struct sbx_error error;
    json_decref(params);
    if (sbx_op(service, op, text, &answer, &error) < 0) bench_end(op, error.detail);
    return json_loads(answer, JSON_DECODE_ANY, NULL);
}

static struct sbx *open_service(const struct bench *bench, const char *home, const char *warm_nodes) {
    char path[PATH_MAX];
    struct sbx *service;
    struct sbx_error error;
    setenv("SANDBOX_WARM_NODES", warm_nodes, 1);
    if (string_format(path, sizeof path, NULL, "%s/%s", bench->folder, home) < 0) exit(1);
    if (sbx_open(path, &service, &error) < 0) bench_end("the service", error.detail);
    return service;
}

static void close_service(struct sbx *service) {
    json_decref(ask(service, "shutdown", NULL));
    sbx_close(service);
}

/* As many as there should be, so that none is being booted while something is timed. */
static void await_warm_nodes(struct bench *bench) {
    for (int i = 0; i < LOOKS_MAX; i++) {
        json_t *health = ask(bench->warm, "health", NULL);
        json_int_t waiting = json_integer_value(json_object_get(health, "warm_nodes"));
        json_decref(health);
        poll(NULL, 0, waiting >= WARM_NODES ? SETTLE_MS : LOOK_AGAIN_MS);
        if (waiting >= WARM_NODES) return;
    }
    bench_end("the service", "no nodes wait");
}

struct wish {
    struct sbx *service;
    const char *source;
    const char *node; /* what its node must have been: "warm" or "booted"; NULL: either */
    json_int_t cpu_percent;
};

/* The time from the request to its answer, when the tree runs and the registry has it. */
static double create(struct bench *bench, const struct wish *wish, char ret_id[32]) {
    snprintf(ret_id, 32, "bench-%u", ++bench->created);
    json_t *params = json_pack("{s:s, s:s, s:b}", "id", ret_id, "source", wish->source, "timing", 1);
    if (wish->cpu_percent) json_object_set_new(params, "cpu_percent", json_integer(wish->cpu_percent));
    uint64_t begun_us = clock_monotonic_us();
    json_t *answer = ask(wish->service, "create", params);
    double took_ms = bench_since_ms(begun_us);
    json_t *timing = json_object_get(answer, "timing");
    if (wish->node && !string_equal(json_string_value(json_object_get(timing, "node")), wish->node))
        bench_end(wish->source, "its node is not the kind that was wanted");
    json_decref(answer);
    return took_ms;
}

static double destroy(const struct wish *wish, const char *id) {
    uint64_t begun_us = clock_monotonic_us();
    json_decref(ask(wish->service, "destroy", json_pack("{s:s}", "id", id)));
    return bench_since_ms(begun_us);
}

/* ---- the alternatives ---- */

static void time_command(struct bench *bench, const char *subject, const char *const *words) {
    CLEANUP_FD int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    int status;
    uint64_t begun_us = clock_monotonic_us();
    pid_t pid = bench_spawn(words, NULL, nothing, nothing);
    if (waitpid(pid, &status, 0) < 0 || status != 0) bench_end(words[0], "it failed");
    bench_note(bench->times, subject, bench_since_ms(begun_us));
}

static void time_in_vm(struct bench *bench, const char *subject, const char *question) {
    char line[64];
    bench_vm_ask(&bench->vm, question, line, sizeof line);
    bench_note(bench->times, subject, strtod(line, NULL) / 1000);
}

static void open_vm(struct bench *bench, const char *script) {
    char flags[128];
    snprintf(flags, sizeof flags, "-start_epmd false -erl_epmd_port %d", 20000 + (int)(getpid() % 10000));
    setenv("ERL_FLAGS", flags, 1);
    bench->vm = bench_vm_open((const char *const[]){"escript", script, NULL});
    unsetenv("ERL_FLAGS");
}

/* ---- what is measured ---- */

static const char *example(const struct bench *bench, const char *name) {
    char *path;
    if (asprintf(&path, "%s/%s", bench->examples, name) < 0) exit(1);
    return path;
}

static void bench_create_and_destroy(struct bench *bench, const struct wish *wish, const char *subject,
                                     const char *destroyed) {
    char id[32];
    if (string_equal(wish->node, "warm")) await_warm_nodes(bench);
    bench_note(bench->times, subject, create(bench, wish, id));
    double took_ms = destroy(wish, id);
    if (destroyed) bench_note(bench->times, destroyed, took_ms);
}

/* Everything is compiled, and the service knows how many nodes are wanted. */
static void warm_up(struct bench *bench) {
    static const char *const names[] = {"counter", "counter_erl"};
    struct sbx *services[] = {bench->warm, bench->cold};
    char id[32];
    for (size_t i = 0; i < WARM_NODES * ARRAY_SIZE(names) * ARRAY_SIZE(services); i++) {
        struct wish wish = {services[i % 2], example(bench, names[i / 2 % 2]), NULL, 0};
        create(bench, &wish, id);
        destroy(&wish, id);
    }
}

static void bench_creates(struct bench *bench) {
    const struct wish warm = {bench->warm, example(bench, "counter"), "warm", 0};
    const struct wish warm_erlang = {bench->warm, example(bench, "counter_erl"), "warm", 0};
    const struct wish cold = {bench->cold, warm.source, "booted", 0};
    const struct wish cold_erlang = {bench->cold, warm_erlang.source, "booted", 0};
    for (unsigned i = 0; i < bench->rounds; i++) {
        for (unsigned quick = 0; quick < QUICK_ROUNDS; quick++) {
            bench_create_and_destroy(bench, &warm, "create.warm", "destroy.idle");
            bench_create_and_destroy(bench, &warm_erlang, "create.warm_erlang", NULL);
        }
        time_in_vm(bench, "peer.start", "peer");
        bench_create_and_destroy(bench, &cold, "create.cold", NULL);
        time_command(bench, "elixir.boot", (const char *const[]){"elixir", "-e", "0", NULL});
        bench_create_and_destroy(bench, &cold_erlang, "create.cold_erlang", NULL);
        time_command(bench, "erl.boot", (const char *const[]){"erl", "-noshell", "-eval", "halt().", NULL});
    }
}

static const char *write_spinner(const struct bench *bench) {
    char *path;
    if (asprintf(&path, "%s/spinner.erl", bench->folder) < 0) exit(1);
    FILE *file = fopen(path, "we");
    if (!file) bench_end("writing", path);
    fputs("-module(spinner).\n-behaviour(supervisor).\n-export([start_link/0, init/1, begin_spinning/0, spin/0]).\n"
          "start_link() -> supervisor:start_link(?MODULE, []).\n"
          "init([]) -> {ok, {#{}, [#{id => a, start => {?MODULE, begin_spinning, []}}]}}.\n"
          "begin_spinning() -> {ok, spawn_link(?MODULE, spin, [])}.\nspin() -> spin().\n",
          file);
    fclose(file);
    return path;
}

/* What its owner would not wait for: one that spins with next to no CPU, and one that is frozen. */
static void bench_hard_ends(struct bench *bench) {
    const struct wish spinner = {bench->warm, write_spinner(bench), "warm", 2};
    const struct wish frozen = {bench->warm, example(bench, "counter_erl"), "warm", 0};
    char id[32];
    await_warm_nodes(bench);
    create(bench, &spinner, id); /* compiled once */
    destroy(&spinner, id);
    for (unsigned i = 0; i < bench->rounds; i++) {
        await_warm_nodes(bench);
        create(bench, &spinner, id);
        bench_note(bench->times, "destroy.throttled", destroy(&spinner, id));
        await_warm_nodes(bench);
        create(bench, &frozen, id);
        json_decref(ask(bench->warm, "freeze", json_pack("{s:s}", "id", id)));
        bench_note(bench->times, "destroy.frozen", destroy(&frozen, id));
    }
}

static void bench_calls(struct bench *bench) {
    const struct wish wish = {bench->warm, example(bench, "counter_erl"), "warm", 0};
    char id[32];
    await_warm_nodes(bench);
    create(bench, &wish, id);
    for (unsigned i = 0; i < bench->rounds * QUICK_ROUNDS + 1; i++) {
        uint64_t begun_us = clock_monotonic_us();
        json_decref(
            ask(bench->warm, "eval", json_pack("{s:s, s:s, s:s}", "id", id, "code", "1 + 2", "language", "erlang")));
        if (i > 0) bench_note(bench->times, "eval.sum", bench_since_ms(begun_us)); /* the first loads the parser */
        if (i > 0) time_in_vm(bench, "erpc.sum", "erpc");
    }
    destroy(&wish, id);
}

int main(int argc, char **argv) {
    if (argc != 5) bench_end("usage", "bench_create EXAMPLES ESCRIPT WORK_FOLDER ROUNDS");
    struct bench bench = {
        .examples = argv[1], .folder = argv[3], .rounds = (unsigned)atoi(argv[4]), .times = json_object()};
    open_vm(&bench, argv[2]);
    bench.cold = open_service(&bench, "home-cold", "0");
    bench.warm = open_service(&bench, "home-warm", "4");
    warm_up(&bench);
    bench_creates(&bench);
    bench_hard_ends(&bench);
    bench_calls(&bench);
    close_service(bench.cold);
    close_service(bench.warm);
    bench_vm_close(&bench.vm);
    json_dumpf(bench.times, stdout, JSON_INDENT(1));
    json_decref(bench.times);
    return 0;
}
