/* Creating and destroying, one at a time. */
#include "rows.h"

#include <stdlib.h>

static void create_and_destroy(struct bench *bench, const struct wish *wish, const char *subject,
                               const char *destroyed) {
    char id[ID_BYTES];
    if (string_equal(wish->node, "warm")) bench_await_warm(bench);
    bench_note(bench->times, subject, bench_create(bench, wish, id));
    double took_ms = bench_destroy(wish->service, id);
    if (destroyed) bench_note(bench->times, destroyed, took_ms);
}

static void compile_for_cold(struct bench *bench) {
    static const char *const names[] = {"counter", "counter_erl"};
    char id[ID_BYTES];
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct wish wish = {.service = bench_cold(bench), .source = bench_example(bench, names[i])};
        bench_create(bench, &wish, id);
        bench_destroy(wish.service, id);
    }
}

void row_create(struct bench *bench) {
    static const char *const elixir[] = {"elixir", "-e", "0", NULL}, *const erl[] = {"erl", "-noshell", "-eval",
                                                                                     "halt().", NULL};
    static const char *const jailed[] = {
        "bwrap",  "--unshare-all", "--die-with-parent", "--ro-bind", "/",   "/",        "--dev", "/dev",
        "--proc", "/proc",         "--tmpfs",           "/tmp",      "erl", "-noshell", "-eval", "halt().",
        NULL};
    const struct wish warm = {bench_warm(bench), bench_example(bench, "counter"), "warm", NULL, 0};
    const struct wish warm_erlang = {bench_warm(bench), bench_example(bench, "counter_erl"), "warm", NULL, 0};
    const struct wish cold = {bench_cold(bench), warm.source, "booted", NULL, 0};
    const struct wish cold_erlang = {bench_cold(bench), warm_erlang.source, "booted", NULL, 0};
    compile_for_cold(bench);
    for (unsigned i = 0; i < bench->rounds; i++) {
        for (unsigned quick = 0; quick < QUICK_TIMES; quick++) {
            create_and_destroy(bench, &warm, "create.warm", "destroy.idle");
            create_and_destroy(bench, &warm_erlang, "create.warm_erlang", NULL);
        }
        bench_note(bench->times, "peer.start", bench_rival(bench, "peer"));
        create_and_destroy(bench, &cold, "create.cold", NULL);
        bench_time_command(bench, "elixir.boot", elixir);
        create_and_destroy(bench, &cold_erlang, "create.cold_erlang", NULL);
        bench_time_command(bench, "erl.boot", erl);
        bench_time_command(bench, "bwrap.erl", jailed);
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

enum { DESTROYED_PER_ROUND = 6 }; /* more than a hundred of each, or 99 of 100 would be all of them */

/* What its owner would not wait for: one that spins with next to no CPU, and one that is frozen. */
void row_destroy(struct bench *bench) {
    const struct wish spinner = {bench_warm(bench), write_spinner(bench), NULL, NULL, 2};
    const struct wish frozen = {bench_warm(bench), bench_example(bench, "counter_erl"), "warm", NULL, 0};
    char id[ID_BYTES];
    for (unsigned i = 0; i < bench->rounds * DESTROYED_PER_ROUND; i++) {
        bench_await_warm(bench);
        bench_create(bench, &spinner, id);
        bench_note(bench->times, "destroy.throttled", bench_destroy(spinner.service, id));
        bench_await_warm(bench);
        bench_create(bench, &frozen, id);
        json_decref(bench_ask(frozen.service, "freeze", json_pack("{s:s}", "id", id)));
        bench_note(bench->times, "destroy.frozen", bench_destroy(frozen.service, id));
    }
}
