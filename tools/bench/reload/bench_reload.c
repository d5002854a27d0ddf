/* bench_reload ESCRIPT WORK_FOLDER ROUNDS: how long changing running code takes, ours through the API and by hand in a
   plain VM, in turns and with the same bytes. Prints JSON: for each subject its times in milliseconds.
   tools/bench/reload/bench_reload.sh runs it and makes a table of that. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "bench.h"
#include "sandbox.h"

enum { WARM_UP_ROUNDS = 3 };

/* Servers of one module among other processes. */
struct subject {
    const char *name; /* of the module, the sandbox and the times */
    unsigned servers, others;
    unsigned rounds_percent; /* of those asked for: many take long to look through */
    const char *limits;      /* of its sandbox, JSON */
};

static const struct subject subjects[] = {
    {"one", 1, 0, 100, "{}"},
    {"thousand", 1000, 0, 50, "{\"processes\": 2000}"},
    {"many", 10, 99990, 20, "{\"processes\": 110000, \"memory_bytes\": \"2G\"}"},
};

struct bench {
    const char *folder;
    unsigned rounds;
    struct sbx *service;
    struct bench_vm vm;
    json_t *times;
};

/* ---- a project around the servers ---- */

static const char server_text[] =
    "-module(%s).\n-behaviour(gen_server).\n-export([f/0, init/1, handle_call/3, handle_cast/2, code_change/3]).\n"
    "init(State) -> {ok, State}.\nhandle_call(version, _From, State) -> {reply, f(), State}.\n"
    "handle_cast(_, State) -> {noreply, State}.\ncode_change(_, State, _) -> {ok, State}.\nf() -> 0.\n";

static const char supervisor_text[] =
    "-module(bench_sup).\n-behaviour(supervisor).\n-export([start_link/0, init/1, many/3]).\n"
    "start_link() -> supervisor:start_link({local, ?MODULE}, ?MODULE, []).\ninit([]) -> {ok, {#{}, []}}.\n"
    "many(Module, Servers, Others) ->\n"
    "    [{ok, _} = gen_server:start(Module, 0, []) || _ <- lists:seq(1, Servers)],\n"
    "    [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, Others)],\n    ok.\n";

static const char *path_of(const struct bench *bench, char ret[PATH_MAX], const char *folder, const char *name) {
    if (string_format(ret, PATH_MAX, NULL, "%s/%s%s", bench->folder, folder, name) < 0) bench_end(folder, "too long");
    return ret;
}

static void make_folder(const char *path) {
    if (mkdir(path, 0755) < 0) bench_end("making a folder", path);
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    if (!file || fputs(text, file) == EOF || fclose(file) != 0) bench_end("writing", path);
}

static void write_project(const struct bench *bench, const struct subject *subject) {
    char path[PATH_MAX], name[64], text[1024];
    make_folder(path_of(bench, path, subject->name, ""));
    make_folder(path_of(bench, path, subject->name, "/src"));
    make_folder(path_of(bench, path, subject->name, "/beams"));
    write_text(path_of(bench, path, subject->name, "/src/bench_sup.erl"), supervisor_text);
    snprintf(name, sizeof name, "/src/%s.erl", subject->name);
    snprintf(text, sizeof text, server_text, subject->name);
    write_text(path_of(bench, path, subject->name, name), text);
}

/* ---- both sides ---- */

static void ask(const struct bench *bench, char line[64], const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void ask(const struct bench *bench, char line[64], const char *format, ...) {
    char question[3 * PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(question, sizeof question, format, arguments);
    va_end(arguments);
    bench_vm_ask(&bench->vm, question, line, 64);
}

static void start_by_hand(const struct bench *bench, const struct subject *subject, unsigned versions) {
    char line[64], source[PATH_MAX], folder[PATH_MAX];
    path_of(bench, folder, subject->name, "/beams");
    snprintf(source, sizeof source, "%s/%s/src/%s.erl", bench->folder, subject->name, subject->name);
    ask(bench, line, "compile %s %s %u", source, folder, versions);
    ask(bench, line, "many %s %s/0.beam %u %u", subject->name, folder, subject->servers, subject->others);
}

static void start_ours(const struct bench *bench, const struct subject *subject) {
    char source[PATH_MAX], code[128];
    struct sbx_error error;
    path_of(bench, source, subject->name, "");
    snprintf(code, sizeof code, "bench_sup:many(%s, %u, %u)", subject->name, subject->servers, subject->others);
    if (sbx_create(bench->service, subject->name, source, subject->limits, NULL, &error) < 0 ||
        sbx_eval(bench->service, subject->name, code, NULL, NULL, &error) < 0)
        bench_end(subject->name, error.detail);
}

static void time_by_hand(const struct bench *bench, const struct subject *subject, unsigned version, bool counts) {
    char line[64], name[64];
    double pause_us, whole_us;
    ask(bench, line, "reload %s %s/%s/beams/%u.beam", subject->name, bench->folder, subject->name, version);
    if (sscanf(line, "%lf %lf", &pause_us, &whole_us) != 2) bench_end(subject->name, line);
    if (!counts) return;
    snprintf(name, sizeof name, "%s.hand.pause", subject->name);
    bench_note(bench->times, name, pause_us / 1000);
    snprintf(name, sizeof name, "%s.hand.whole", subject->name);
    bench_note(bench->times, name, whole_us / 1000);
}

/* How long the caller waited, how long the servers did, and how long the transaction in the node took. */
static void note_ours(const struct bench *bench, const struct subject *subject, const char *what, const char *answer,
                      double took_ms, bool counts) {
    char name[64];
    json_t *result = json_loads(answer, 0, NULL);
    json_t *pause = json_object_get(result, "pause_us"), *duration = json_object_get(result, "duration_us");
    bool is_changed = string_equal(json_string_value(json_object_get(result, "status")), "hot_reloaded") &&
                      json_array_size(json_object_get(result, "processes")) == subject->servers;
    if (!is_changed || !pause || !duration) bench_end(subject->name, answer);
    if (counts) {
        snprintf(name, sizeof name, "%s.%s.whole", subject->name, what);
        bench_note(bench->times, name, took_ms);
        snprintf(name, sizeof name, "%s.%s.pause", subject->name, what);
        bench_note(bench->times, name, (double)json_integer_value(pause) / 1000);
        snprintf(name, sizeof name, "%s.%s.node", subject->name, what);
        bench_note(bench->times, name, (double)json_integer_value(duration) / 1000);
    }
    json_decref(result);
}

static void time_reload(const struct bench *bench, const struct subject *subject, unsigned version, bool counts) {
    CLEANUP_FREE char *answer = NULL;
    char path[PATH_MAX], name[64];
    struct sbx_error error;
    snprintf(name, sizeof name, "/beams/%u.beam", version);
    path_of(bench, path, subject->name, name);
    uint64_t begun_us = clock_monotonic_us();
    if (sbx_hot_reload(bench->service, subject->name, path, NULL, &answer, &error) < 0)
        bench_end(subject->name, error.detail);
    note_ours(bench, subject, "reload", answer, bench_since_ms(begun_us), counts);
}

static void time_rollback(const struct bench *bench, const struct subject *subject, bool counts) {
    CLEANUP_FREE char *answer = NULL;
    struct sbx_error error;
    uint64_t begun_us = clock_monotonic_us();
    if (sbx_rollback(bench->service, subject->name, subject->name, NULL, &answer, &error) < 0)
        bench_end(subject->name, error.detail);
    note_ours(bench, subject, "rollback", answer, bench_since_ms(begun_us), counts);
}

/* Every reload brings code that never ran before, and is taken back, to what ran before it. Each of the two follows one
   by hand. */
static void bench_subject(const struct bench *bench, const struct subject *subject) {
    unsigned rounds = bench->rounds * subject->rounds_percent / 100 + WARM_UP_ROUNDS;
    write_project(bench, subject);
    start_by_hand(bench, subject, 2 * rounds + 1);
    start_ours(bench, subject);
    for (unsigned i = 0; i < rounds; i++) {
        bool counts = i >= WARM_UP_ROUNDS;
        time_by_hand(bench, subject, 2 * i + 1, counts);
        bench_settle();
        time_reload(bench, subject, 2 * i + 1, counts);
        bench_settle();
        time_by_hand(bench, subject, 2 * i + 2, counts);
        bench_settle();
        time_rollback(bench, subject, counts);
        bench_settle();
    }
    sbx_destroy(bench->service, subject->name, NULL);
}

int main(int argc, char **argv) {
    if (argc != 4) bench_end("usage", "bench_reload ESCRIPT WORK_FOLDER ROUNDS");
    struct bench bench = {.folder = argv[2], .rounds = (unsigned)strtoul(argv[3], NULL, 10), .times = json_object()};
    struct sbx_error error;
    char home[PATH_MAX];
    if (sbx_open(path_of(&bench, home, "home", ""), &bench.service, &error) < 0) bench_end("the service", error.detail);
    bench.vm = bench_vm_open((const char *const[]){"escript", argv[1], NULL});
    for (size_t i = 0; i < ARRAY_SIZE(subjects); i++) bench_subject(&bench, &subjects[i]);
    json_dumpf(bench.times, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    json_decref(bench.times);
    bench_vm_close(&bench.vm);
    sbx_op(bench.service, "shutdown", NULL, NULL, NULL);
    sbx_close(bench.service);
    return 0;
}
