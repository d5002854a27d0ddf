/* bench_watch SCRIPT WORK_FOLDER ROUNDS: how long it takes from a save to the new code's answer, beside what one does
   without watching, in turns. Prints JSON: for each subject its times in milliseconds. tools/bench/watch/bench_watch.sh
   runs it and makes a table of that. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/base.h"
#include "bench.h"
#include "sandbox.h"

enum { WARM_UP_ROUNDS = 5, ROUNDS_PER_RESTART = 20 };

struct subject {
    const char *name; /* of the sandbox, the folder and the times */
    const char *description, *description_text;
    const char *supervisor, *supervisor_text;
    const char *server, *server_text; /* with a %u: what it answers */
    const char *question;             /* whose answer that is */
    const char *again;                /* compile and start anew, and ask */
};

static const struct subject subjects[] = {
    {"elixir", "mix.exs",
     "defmodule Bench.MixProject do\n  use Mix.Project\n  def project, do: [app: :bench, version: \"1.0.0\"]\n"
     "  def application, do: [mod: {Bench, []}]\nend\n",
     "lib/bench.ex",
     "defmodule Bench do\n  use Application\n  def start(_type, _args), do:\n"
     "    Supervisor.start_link([Bench.Server], strategy: :one_for_one)\nend\n",
     "lib/server.ex",
     "defmodule Bench.Server do\n  use GenServer\n  def start_link(_), do: GenServer.start_link(__MODULE__, 0, name: "
     "__MODULE__)\n  def init(n), do: {:ok, n}\n  def handle_call(:version, _from, n), do: {:reply, %u, n + 1}\nend\n",
     "GenServer.call(Bench.Server, :version)", "mix run -e 'GenServer.call(Bench.Server, :version)'"},
    {"erlang", "rebar.config", "{erl_opts, [debug_info]}.\n", "src/bench_sup.erl",
     "-module(bench_sup).\n-behaviour(supervisor).\n-export([start_link/0, init/1]).\n"
     "start_link() -> supervisor:start_link({local, ?MODULE}, ?MODULE, []).\n"
     "init([]) -> {ok, {#{}, [#{id => s, start => {bench_server, start_link, []}}]}}.\n",
     "src/bench_server.erl",
     "-module(bench_server).\n-behaviour(gen_server).\n-export([start_link/0, init/1, handle_call/3, handle_cast/2]).\n"
     "start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).\ninit([]) -> {ok, 0}.\n"
     "handle_call(version, _From, N) -> {reply, %u, N + 1}.\nhandle_cast(_, N) -> {noreply, N}.\n",
     "gen_server:call(bench_server, version)",
     "erlc -o . src/*.erl && erl -noshell -pa . -eval 'bench_sup:start_link(), gen_server:call(bench_server, version), "
     "halt().'"},
};

struct bench {
    const char *folder;
    unsigned rounds;
    struct sbx *service;
    struct bench_vm vm;
    json_t *times;
};

/* ---- projects ---- */

static const char *path_of(const struct bench *bench, char ret[PATH_MAX], const char *folder, const char *name) {
    if (string_format(ret, PATH_MAX, NULL, "%s/%s/%s", bench->folder, folder, name) < 0) bench_end(folder, "too long");
    return ret;
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    if (!file || fputs(text, file) == EOF || fclose(file) != 0) bench_end("writing", path);
}

static void save(const struct bench *bench, const struct subject *subject, const char *folder, unsigned version) {
    char path[PATH_MAX], text[2048];
    snprintf(text, sizeof text, subject->server_text, version);
    write_text(path_of(bench, path, folder, subject->server), text);
}

static void write_project(const struct bench *bench, const struct subject *subject, const char *folder) {
    char path[PATH_MAX];
    static const char *const folders[] = {"", "lib", "src"};
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
        if (mkdir(path_of(bench, path, folder, folders[i]), 0755) < 0) bench_end("making a folder", path);
    write_text(path_of(bench, path, folder, subject->description), subject->description_text);
    write_text(path_of(bench, path, folder, subject->supervisor), subject->supervisor_text);
    save(bench, subject, folder, 0);
}

static void create(const struct bench *bench, const struct subject *subject, const char *id, const char *options) {
    char path[PATH_MAX], source[PATH_MAX];
    struct sbx_error error;
    write_project(bench, subject, id);
    snprintf(source, sizeof source, "%s", path_of(bench, path, id, ""));
    source[strlen(source) - 1] = '\0';
    if (sbx_create(bench->service, id, source, options, NULL, &error) < 0) bench_end(id, error.detail);
}

/* ---- ours ---- */

struct news {
    uint64_t seq, at_us;
    double duration_ms, since_save_ms;
};

static int on_event(const char *text, void *data) {
    struct news *news = data;
    json_t *event = json_loads(text, 0, NULL), *told = json_object_get(event, "data");
    const char *kind = json_string_value(json_object_get(event, "kind"));
    news->seq = (uint64_t)json_integer_value(json_object_get(event, "seq"));
    if (string_equal(kind, "watch_failed")) bench_end("a save failed", text);
    bool is_loaded = string_equal(kind, "watch_reloaded") &&
                     string_equal(json_string_value(json_object_get(told, "status")), "hot_reloaded");
    if (is_loaded) {
        news->at_us = clock_monotonic_us();
        news->duration_ms = (double)json_integer_value(json_object_get(told, "duration_us")) / 1000;
        news->since_save_ms = (double)json_integer_value(json_object_get(told, "since_save_us")) / 1000;
    }
    json_decref(event);
    return is_loaded;
}

static void note(const struct bench *bench, const struct subject *subject, const char *what, double value_ms) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", subject->name, what);
    bench_note(bench->times, name, value_ms);
}

static void expect_answer(const struct bench *bench, const struct subject *subject, const char *id, unsigned version) {
    CLEANUP_FREE char *answer = NULL;
    char expected[32];
    struct sbx_error error;
    if (sbx_eval(bench->service, id, subject->question, NULL, &answer, &error) < 0) bench_end(id, error.detail);
    snprintf(expected, sizeof expected, "\"text\":\"%u\"", version);
    if (!strstr(answer, expected)) bench_end("not what was saved", answer);
}

static void time_save(const struct bench *bench, const struct subject *subject, unsigned version, struct news *news,
                      bool counts) {
    char options[128];
    struct sbx_error error;
    snprintf(options, sizeof options, "{\"follow\": true, \"since\": %llu, \"sandbox_id\": \"%s\"}",
             (unsigned long long)news->seq, subject->name);
    uint64_t begun_us = clock_monotonic_us();
    save(bench, subject, subject->name, version);
    if (sbx_events(bench->service, options, on_event, news, &error) < 0) bench_end("events", error.detail);
    double loaded_ms = (double)(news->at_us - begun_us) / 1000;
    expect_answer(bench, subject, subject->name, version);
    if (!counts) return;
    note(bench, subject, "live", bench_since_ms(begun_us));
    note(bench, subject, "detection", loaded_ms - news->duration_ms);
    note(bench, subject, "debounce", news->since_save_ms - news->duration_ms);
    note(bench, subject, "work", news->duration_ms);
}

/* ---- beside it ---- */

static void time_reload(const struct bench *bench, const struct subject *subject, const char *id, unsigned version,
                        bool counts) {
    struct sbx_error error;
    save(bench, subject, id, version);
    uint64_t begun_us = clock_monotonic_us();
    if (sbx_hot_reload(bench->service, id, NULL, NULL, NULL, &error) < 0) bench_end(id, error.detail);
    if (counts) note(bench, subject, "reload", bench_since_ms(begun_us));
}

static void time_inside(const struct bench *bench, const struct subject *subject, const char *id, bool counts) {
    char path[PATH_MAX], question[2 * PATH_MAX], line[64];
    path_of(bench, path, id, subject->server);
    snprintf(question, sizeof question, "%s %s %s", subject->name, path,
             string_equal(subject->name, "erlang") ? bench->folder : "");
    bench_vm_ask(&bench->vm, question, line, sizeof line);
    if (counts) note(bench, subject, "inside", strtod(line, NULL) / 1000);
}

static void time_restart(const struct bench *bench, const struct subject *subject, const char *folder,
                         unsigned version) {
    char path[PATH_MAX];
    int status;
    save(bench, subject, folder, version);
    uint64_t begun_us = clock_monotonic_us();
    pid_t pid =
        bench_spawn((const char *const[]){"sh", "-c", subject->again, NULL}, path_of(bench, path, folder, ""), 0, 2);
    if (waitpid(pid, &status, 0) != pid || status != 0) bench_end("starting anew", subject->again);
    note(bench, subject, "restart", bench_since_ms(begun_us));
}

static void bench_subject(const struct bench *bench, const struct subject *subject) {
    char plain[64], anew[64];
    struct news news = {0};
    snprintf(plain, sizeof plain, "%s-plain", subject->name);
    snprintf(anew, sizeof anew, "%s-anew", subject->name);
    create(bench, subject, subject->name, "{\"watch\": true}");
    create(bench, subject, plain, "{}");
    write_project(bench, subject, anew);
    for (unsigned i = 1; i <= bench->rounds + WARM_UP_ROUNDS; i++) {
        bool counts = i > WARM_UP_ROUNDS;
        time_save(bench, subject, i, &news, counts);
        time_reload(bench, subject, plain, i, counts);
        time_inside(bench, subject, plain, counts);
        if (i % ROUNDS_PER_RESTART == 0) time_restart(bench, subject, anew, i);
    }
    sbx_destroy(bench->service, subject->name, NULL);
    sbx_destroy(bench->service, plain, NULL);
}

int main(int argc, char **argv) {
    if (argc != 4) bench_end("usage", "bench_watch SCRIPT WORK_FOLDER ROUNDS");
    struct bench bench = {.folder = argv[2], .rounds = (unsigned)strtoul(argv[3], NULL, 10), .times = json_object()};
    struct sbx_error error;
    char home[PATH_MAX];
    if (string_format(home, sizeof home, NULL, "%s/home", bench.folder) < 0 ||
        sbx_open(home, &bench.service, &error) < 0)
        bench_end("the service", home);
    bench.vm = bench_vm_open((const char *const[]){"elixir", argv[1], NULL});
    for (size_t i = 0; i < ARRAY_SIZE(subjects); i++) bench_subject(&bench, &subjects[i]);
    json_dumpf(bench.times, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    json_decref(bench.times);
    bench_vm_close(&bench.vm);
    sbx_op(bench.service, "shutdown", NULL, NULL, NULL);
    sbx_close(bench.service);
    return 0;
}
