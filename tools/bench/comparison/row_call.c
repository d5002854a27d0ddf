/* Asking: the command line, an evaluation, a function of the application's own. */
#include "rows.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

void row_list(struct bench *bench) {
    char command[2 * PATH_MAX];
    if (string_format(command, sizeof command, NULL, "'%s/sandbox' --home '%s' list", bench->programs,
                      sbx_home(bench_warm(bench))) < 0)
        bench_end("list", "its path is too long");
    for (unsigned i = 0; i < bench->rounds * QUICK_TIMES; i++) {
        bench_time_command(bench, "list", (const char *const[]){"sh", "-c", command, NULL});
        bench_time_command(bench, "true", (const char *const[]){"sh", "-c", "/bin/true", NULL});
    }
}

static double eval_ms(struct sbx *service, const char *id, const char *code, json_t **ret_answer) {
    CLEANUP_FREE char *answer = NULL;
    struct sbx_error error;
    uint64_t begun_us = clock_monotonic_us();
    if (sbx_eval(service, id, code, "{\"language\": \"erlang\"}", &answer, &error) < 0) bench_end("eval", error.detail);
    double took_ms = bench_since_ms(begun_us);
    *ret_answer = json_loads(answer, JSON_DECODE_ANY, NULL);
    return took_ms;
}

/* Where the kernel has each of them run decides half of the time, and it keeps to that for a while: many are needed. */
enum { EVALS_PER_ROUND = 100 };

/* A text that the node has not seen before. */
static double eval_new_ms(struct sbx *service, const char *id, unsigned number) {
    char code[32];
    json_t *answer;
    snprintf(code, sizeof code, "%u + 2", number + 1);
    double took_ms = eval_ms(service, id, code, &answer);
    json_decref(answer);
    return took_ms;
}

/* Each is asked twice in a row and measured the second time: the first may wait for what the other has left to do after
   its answer, on the same CPU. */
void row_eval(struct bench *bench) {
    const struct wish wish = {bench_warm(bench), bench_example(bench, "counter_erl"), NULL, NULL, 0};
    char id[ID_BYTES];
    bench_create(bench, &wish, id);
    for (unsigned i = 0; i < bench->rounds * EVALS_PER_ROUND + 1; i++) {
        json_t *answer;
        eval_ms(wish.service, id, "1 + 2", &answer);
        json_decref(answer);
        double took_ms = eval_ms(wish.service, id, "1 + 2", &answer);
        json_decref(answer);
        double new_ms = eval_new_ms(wish.service, id, i);
        double rival_ms = bench_rival(bench, "erpc");
        if (i == 0) continue; /* the first loads the parser */
        bench_note(bench->times, "eval", took_ms);
        bench_note(bench->times, "eval.new", new_ms);
        bench_note(bench->times, "erpc", rival_ms);
    }
    bench_destroy(wish.service, id);
}

/* ---- work inside ---- */

/* A machine that others use too is quicker and slower from one tenth of a second to the next: ours and theirs take
   turns more often than that. */
enum { PAIRS = 30, CPU_PARTS = 15 };

/* Each tells the milliseconds that it took, by the clock and of CPU time: a CPU's work, messages around a ring. serve/0
   does it for the rival. */
static const char worker[] =
    "-module(bench_worker).\n-behaviour(supervisor).\n-export([start_link/0, init/1, cpu/0, messages/0, serve/0]).\n"
    "start_link() -> supervisor:start_link(?MODULE, []).\ninit([]) -> {ok, {#{}, []}}.\n"
    "cpu() -> timed(fun() -> fib(30) end).\n"
    "messages() -> timed(fun() -> ring(40, 6000) end).\n"
    "timed(Work) -> Begun = erlang:monotonic_time(), {Before, _} = erlang:statistics(runtime), Work(),\n"
    "    {After, _} = erlang:statistics(runtime),\n"
    "    [erlang:convert_time_unit(erlang:monotonic_time() - Begun, native, microsecond) / 1000, After - Before].\n"
    "fib(N) when N < 2 -> N;\nfib(N) -> fib(N - 1) + fib(N - 2).\n"
    "ring(Count, Rounds) -> Self = self(),\n"
    "    First = lists:foldl(fun(_, Next) -> spawn_link(fun() -> pass(Next) end) end, Self, lists:seq(1, Count)),\n"
    "    around(First, Rounds), First ! stop, receive stop -> ok end.\n"
    "pass(Next) -> receive stop -> Next ! stop; Word -> Next ! Word, pass(Next) end.\n"
    "around(_First, 0) -> ok;\naround(First, N) -> First ! {word, N}, receive {word, N} -> around(First, N - 1) end.\n"
    "serve() -> case io:get_line(\"\") of eof -> halt();\n"
    "    \"cpu\\n\" -> io:format(\"~.3f ~b~n\", cpu()), serve();\n"
    "    _ -> io:format(\"~.3f ~b~n\", messages()), serve() end.\n";

static const char *write_worker(const struct bench *bench) {
    char *path;
    if (asprintf(&path, "%s/bench_worker.erl", bench->folder) < 0) exit(1);
    FILE *file = fopen(path, "we");
    if (!file) bench_end("writing", path);
    fputs(worker, file);
    fclose(file);
    return path;
}

static struct bench_vm open_worker(struct bench *bench, const char *source) {
    bench_time_command(bench, "erlc", (const char *const[]){"erlc", "-o", bench->folder, source, NULL});
    json_object_del(bench->times, "erlc");
    return bench_vm_open((const char *const[]){"erl", "+S", "1:1", "+SDcpu", "1:1", "-noshell", "-pa", bench->folder,
                                               "-eval", "bench_worker:serve().", NULL});
}

struct work {
    double clock_ms, cpu_ms;
};

static void note_work(struct bench *bench, const char *who, const char *kind, const struct work *work) {
    char subject[64];
    snprintf(subject, sizeof subject, "%s.%s", who, kind);
    bench_note(bench->times, subject, work->clock_ms);
    snprintf(subject, sizeof subject, "%s.%s.cpu_time", who, kind);
    bench_note(bench->times, subject, work->cpu_ms);
}

static void add_ours(struct bench *bench, const char *id, const char *kind, struct work *to) {
    char code[64];
    json_t *answer;
    snprintf(code, sizeof code, "bench_worker:%s()", kind);
    eval_ms(bench_warm(bench), id, code, &answer);
    const json_t *result = json_object_get(answer, "result");
    to->clock_ms += json_number_value(json_array_get(result, 0));
    to->cpu_ms += json_number_value(json_array_get(result, 1));
    json_decref(answer);
}

static void add_theirs(const struct bench_vm *rival, const char *kind, struct work *to) {
    char line[64], *rest;
    bench_vm_ask(rival, kind, line, sizeof line);
    to->clock_ms += strtod(line, &rest);
    to->cpu_ms += strtod(rest, NULL);
}

/* One between two of the other: a machine that becomes slower or quicker meanwhile does so for both. */
static void measure_pair(struct bench *bench, const struct bench_vm *rival, const char *id, const char *kind,
                         unsigned parts) {
    struct work ours = {0}, theirs = {0};
    for (unsigned i = 0; i < parts; i++) {
        add_ours(bench, id, kind, &ours);
        add_theirs(rival, kind, &theirs);
        add_theirs(rival, kind, &theirs);
        add_ours(bench, id, kind, &ours);
    }
    note_work(bench, "work", kind, &ours);
    note_work(bench, "erl", kind, &theirs);
}

void row_work(struct bench *bench) {
    const struct wish wish = {bench_warm(bench), write_worker(bench), NULL, "low", 0};
    struct bench_vm rival = open_worker(bench, wish.source);
    char id[ID_BYTES];
    bench_create(bench, &wish, id);
    bench_await_warm(bench);
    for (unsigned i = 0; i < PAIRS; i++) {
        measure_pair(bench, &rival, id, "cpu", CPU_PARTS);
        measure_pair(bench, &rival, id, "messages", 1);
    }
    bench_destroy(wish.service, id);
    bench_vm_close(&rival);
}
