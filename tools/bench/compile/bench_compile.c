/* bench_compile SANDBOX EXS WORK_FOLDER ROUNDS: how long compiling takes, ours and the alternatives in turns. Prints
   JSON: for each subject its times in milliseconds. tools/bench/compile/bench_compile.sh runs it and makes a table of
   that. */
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
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
#include "client/client.h"
#include "generated.h"
#include "sandbox.h"

enum { PROJECT_MODULES = 20, QUICK_ROUNDS = 5 /* times as many for what takes milliseconds */, WARM_UP_ROUNDS = 5 };

struct bench {
    const char *sandbox, *warm_script, *folder;
    struct sbx *service; /* without a spare compiler */
    struct bench_vm vm;  /* the warm one */
    unsigned rounds, edits;
    struct map paths;
    json_t *times; /* subject → array */
};

/* Valid to the end. */
static const char *path_of(struct bench *bench, const char *name) {
    char *path = map_get(&bench->paths, name);
    if (path) return path;
    if (asprintf(&path, "%s/%s", bench->folder, name) < 0 || !map_set(&bench->paths, name, path)) abort();
    return path;
}

static void free_paths(struct bench *bench) {
    size_t at = 0;
    void *path;
    while (map_next(&bench->paths, &at, NULL, &path)) free(path);
    map_free(&bench->paths);
}

static void note(struct bench *bench, const char *subject, double took_ms) {
    bench_note(bench->times, subject, took_ms);
}

/* ---- processes ---- */

/* A whole command, from its start to its end. */
static void time_command(struct bench *bench, const char *subject, const char *folder, const char *const *words) {
    CLEANUP_FD int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    CLEANUP_FD int log = open(path_of(bench, "commands.log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int status;
    uint64_t begun_us = clock_monotonic_us();
    pid_t pid = bench_spawn(words, folder, nothing, log);
    if (waitpid(pid, &status, 0) < 0 || status != 0) bench_end(words[0], "it failed");
    note(bench, subject, bench_since_ms(begun_us));
}

static void open_warm_vm(struct bench *bench) {
    bench->vm = bench_vm_open((const char *const[]){"elixir", bench->warm_script, NULL});
}

/* What the VM itself measured: no channel is in it. */
static void time_warm(struct bench *bench, const char *subject, const char *question) {
    char line[64];
    bench_vm_ask(&bench->vm, question, line, sizeof line);
    if (subject) note(bench, subject, strtod(line, NULL) / 1000);
}

/* ---- the service ---- */

static struct sbx *open_service(struct bench *bench, const char *home, const char *spares) {
    struct sbx *service;
    struct sbx_error error;
    setenv("SANDBOX_SPARE_COMPILERS", spares, 1);
    if (sbx_open(path_of(bench, home), &service, &error) < 0) bench_end("the service", error.detail);
    return service;
}

static void close_service(struct sbx *service) {
    sbx_op(service, "shutdown", NULL, NULL, NULL);
    sbx_close(service);
}

/* The operation over the socket; how many modules it must have compiled, or -1. */
static void time_operation(struct bench *bench, struct sbx *service, const char *subject, const char *path,
                           int compiled) {
    CLEANUP_FREE char *answer = NULL;
    struct sbx_error error;
    uint64_t begun_us = clock_monotonic_us();
    if (sbx_compile(service, path, NULL, &answer, &error) < 0) bench_end(path, error.detail);
    double took_ms = bench_since_ms(begun_us);
    json_t *report = json_loads(answer, 0, NULL);
    size_t count = json_array_size(json_object_get(report, "compiled"));
    json_decref(report);
    if (compiled >= 0 && count != (size_t)compiled) bench_end(subject, answer);
    if (subject) note(bench, subject, took_ms);
}

/* ---- quiet ---- */

struct process {
    pid_t pid, parent;
    uint64_t ticks;
    bool is_vm;
};

static bool read_process(const char *name, struct process *ret) {
    char path[64], text[512] = "";
    unsigned long user, kernel;
    if (snprintf(path, sizeof path, "/proc/%.16s/stat", name) < 0) return false;
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    const char *after = fd >= 0 && read(fd, text, sizeof text - 1) > 0 ? strrchr(text, ')') : NULL;
    if (!after ||
        sscanf(after, ") %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &ret->parent, &user, &kernel) != 3)
        return false;
    ret->pid = (pid_t)strtol(name, NULL, 10);
    ret->ticks = user + kernel;
    ret->is_vm = strstr(text, "beam.smp") != NULL;
    return true;
}

/* What the processes below one used so far, and how many VMs are among them. Parents have lower numbers, mostly. */
static uint64_t used_below(pid_t root, unsigned *ret_vms) {
    static struct process known[4096];
    size_t count = 0;
    uint64_t ticks = 0;
    *ret_vms = 0;
    DIR *directory = opendir("/proc");
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        struct process process;
        if (entry->d_name[0] > '9' || !read_process(entry->d_name, &process)) continue;
        bool is_below = process.parent == root;
        for (size_t i = 0; i < count && !is_below; i++) is_below = known[i].pid == process.parent;
        if (!is_below || count == ARRAY_SIZE(known)) continue;
        known[count++] = process;
        ticks += process.ticks;
        *ret_vms += process.is_vm;
    }
    if (directory) closedir(directory);
    return ticks;
}

/* Until nothing of the service is busy: a spare has booted, a node that is not kept has gone. */
static void await_quiet(struct sbx *service, unsigned vms_min) {
    enum { LOOK_AGAIN_MS = 60, QUIET_LOOKS = 3, LOOKS_MAX = 500 };
    pid_t launcher = client_lock_owner(sbx_home(service), "launcher.lock");
    uint64_t before = UINT64_MAX;
    unsigned vms, quiet = 0;
    for (int i = 0; i < LOOKS_MAX && quiet < QUIET_LOOKS; i++) {
        uint64_t now = used_below(launcher, &vms);
        quiet = now == before && vms >= vms_min ? quiet + 1 : 0;
        before = now;
        poll(NULL, 0, LOOK_AGAIN_MS);
    }
    if (quiet < QUIET_LOOKS) bench_end("the service", "it never rests");
}

/* ---- edits ---- */

/* Another content each time, of another size than before. */
static void edit(struct bench *bench, const char *path, const char *before, const char *after) {
    CLEANUP_FREE char *from = NULL, *to = NULL;
    struct stat status;
    FILE *file = fopen(path, "re");
    if (!file || fstat(fileno(file), &status) < 0) bench_end("reading", path);
    CLEANUP_FREE char *text = calloc(1, (size_t)status.st_size + 1);
    if (!text || fread(text, 1, (size_t)status.st_size, file) != (size_t)status.st_size) bench_end("reading", path);
    fclose(file);
    const char *at = strstr(text, before), *rest = at ? strstr(at + strlen(before), after) : NULL;
    if (!rest) bench_end("nothing to edit in", path);
    unsigned number = ++bench->edits % 2 ? 10000 + bench->edits : 1000000 + bench->edits;
    if (asprintf(&from, "%.*s", (int)(rest - at), at) < 0 || asprintf(&to, "%s%u", before, number) < 0) exit(1);
    generated_replace(path, from, to);
}

static void edit_plain(struct bench *bench, const char *project) {
    char path[PATH_MAX];
    if (string_format(path, sizeof path, NULL, "%s/lib/g0/plain_b.ex", path_of(bench, project)) < 0) exit(1);
    edit(bench, path, "value(0), do: ", "\n");
}

/* ---- what is measured ---- */

static void bench_one_file(struct bench *bench) {
    const char *const ours[] = {
        bench->sandbox, "--home", sbx_home(bench->service), "compile", path_of(bench, "ours/generated"), NULL};
    const char *const theirs[] = {"mix", "compile", NULL};
    CLEANUP_FREE char *ask_project = NULL;
    if (asprintf(&ask_project, "mix_project %s", path_of(bench, "warm/generated")) < 0) exit(1);
    generated_write(path_of(bench, "ours/generated"), PROJECT_MODULES);
    generated_write(path_of(bench, "mix/generated"), PROJECT_MODULES);
    generated_write(path_of(bench, "warm/generated"), PROJECT_MODULES);
    time_operation(bench, bench->service, NULL, path_of(bench, "ours/generated"), -1);
    time_command(bench, "setup", path_of(bench, "mix/generated"), theirs);
    time_warm(bench, NULL, ask_project);
    time_warm(bench, NULL, "mix");
    for (unsigned i = 0; i < bench->rounds; i++) {
        edit_plain(bench, "ours/generated");
        time_operation(bench, bench->service, "one_file.operation", path_of(bench, "ours/generated"), 1);
        generated_age(path_of(bench, "mix/generated"));
        edit_plain(bench, "mix/generated");
        time_command(bench, "one_file.mix", path_of(bench, "mix/generated"), theirs);
        edit_plain(bench, "ours/generated");
        time_command(bench, "one_file.command", NULL, ours);
        generated_age(path_of(bench, "warm/generated"));
        edit_plain(bench, "warm/generated");
        time_warm(bench, "one_file.warm_mix", "mix");
    }
}

/* A folder with one file of the project's in it. */
static void write_single(struct bench *bench, const char *folder, const char *source, char ret[PATH_MAX]) {
    char from[PATH_MAX];
    generated_write(path_of(bench, "whole"), PROJECT_MODULES);
    snprintf(from, sizeof from, "%s/%s", path_of(bench, "whole"), source);
    if (string_format(ret, PATH_MAX, NULL, "%s%s", folder, strrchr(source, '/')) < 0) bench_end("too long", folder);
    mkdir(folder, 0755);
    if (rename(from, ret) < 0) bench_end("no such source", from);
}

/* Beside the same file in a VM that has nothing else to do. */
static void bench_single(struct bench *bench, const char *source, const char *before, const char *after,
                         const char *question, const char *const subjects[2]) {
    const char *folder = path_of(bench, subjects[0]);
    char ours[PATH_MAX], theirs[PATH_MAX], ask[3 * PATH_MAX];
    write_single(bench, folder, source, ours);
    write_single(bench, path_of(bench, subjects[1]), source, theirs);
    snprintf(ask, sizeof ask, question, theirs, bench->folder);
    for (unsigned i = 0; i < bench->rounds * QUICK_ROUNDS + WARM_UP_ROUNDS; i++) {
        bool counts = i >= WARM_UP_ROUNDS;
        edit(bench, ours, before, after);
        bench_settle();
        time_operation(bench, bench->service, counts ? subjects[0] : NULL, folder, 1);
        edit(bench, theirs, before, after);
        bench_settle();
        time_warm(bench, counts ? subjects[1] : NULL, ask);
    }
}

static void bench_cached(struct bench *bench) {
    const char *project = path_of(bench, "cached/generated");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/lib/g0/plain_b.ex", project);
    generated_write(project, PROJECT_MODULES);
    time_operation(bench, bench->service, NULL, project, -1);
    generated_replace(path, "do: 1", "do: 2");
    time_operation(bench, bench->service, NULL, project, 1);
    for (unsigned i = 0; i < bench->rounds * QUICK_ROUNDS; i++) {
        time_operation(bench, bench->service, "cached.same", project, 0);
        generated_replace(path, i % 2 ? "do: 1" : "do: 2", i % 2 ? "do: 2" : "do: 1");
        time_operation(bench, bench->service, "cached.back", project, 0);
    }
}

/* Elixir files without a project around them, as elixirc takes them. */
static size_t list_sources(struct bench *bench, const char *folder, const char **ret, size_t max) {
    char whole[PATH_MAX];
    struct dirent **names;
    size_t count = 0;
    if (string_format(whole, sizeof whole, NULL, "%s/lib/g0", path_of(bench, folder)) < 0) exit(1);
    int found = scandir(whole, &names, NULL, alphasort);
    for (int i = 0; i < found; i++) {
        char *path = NULL;
        if (string_ends(names[i]->d_name, ".ex") && count < max &&
            asprintf(&path, "%s/%s", whole, names[i]->d_name) > 0)
            ret[count++] = path;
        free(names[i]);
    }
    if (found >= 0) free(names);
    return count;
}

static void write_loose(struct bench *bench, const char *folder) {
    static const char *const project_files[] = {"mix.exs", "lib/g0/settings.ex", "lib/g0/resource.ex",
                                                "src/g0_plain.erl", "src/g0_record.erl"};
    char path[PATH_MAX];
    generated_write(path_of(bench, folder), PROJECT_MODULES);
    for (size_t i = 0; i < ARRAY_SIZE(project_files); i++) {
        snprintf(path, sizeof path, "%s/%s", path_of(bench, folder), project_files[i]);
        unlink(path);
    }
}

static void bench_cold(struct bench *bench) {
    const char *words[64] = {"elixirc", "-o", path_of(bench, "elixirc")};
    struct sbx *spared = open_service(bench, "home_spare", "1");
    write_loose(bench, "loose");
    mkdir(words[2], 0755);
    size_t count = list_sources(bench, "loose", words + 3, ARRAY_SIZE(words) - 4);
    for (unsigned i = 0; i < bench->rounds + 1; i++) { /* the first makes the toolchain known, and a spare */
        char name[64];
        snprintf(name, sizeof name, "cold%u/loose", i);
        const char *folder = path_of(bench, name);
        const char *const cold[] = {bench->sandbox, "--home", sbx_home(bench->service), "compile", folder, NULL};
        const char *const warm[] = {bench->sandbox, "--home", sbx_home(spared), "compile", folder, NULL};
        write_loose(bench, name);
        await_quiet(spared, i ? 1 : 0);
        time_command(bench, i ? "cold.spare" : "setup", NULL, warm);
        await_quiet(spared, 1);
        time_command(bench, i ? "cold.elixirc" : "setup", NULL, words);
        await_quiet(bench->service, 0);
        time_command(bench, i ? "cold.none" : "setup", NULL, cold);
        await_quiet(bench->service, 0);
    }
    for (size_t i = 0; i < count; i++) free((char *)(uintptr_t)words[3 + i]);
    close_service(spared);
}

int main(int argc, char **argv) {
    if (argc != 5) bench_end("usage", "bench_compile SANDBOX EXS WORK_FOLDER ROUNDS");
    struct bench bench = {.sandbox = argv[1],
                          .warm_script = argv[2],
                          .folder = argv[3],
                          .rounds = (unsigned)strtoul(argv[4], NULL, 10),
                          .times = json_object()};
    bench.service = open_service(&bench, "home", "0");
    open_warm_vm(&bench);
    bench_one_file(&bench);
    bench_single(&bench, "lib/g0/counter.ex", "@step ", "\n", "elixir %s",
                 (const char *const[]){"genserver.operation", "genserver.compile_file"});
    bench_single(&bench, "src/g0_plain.erl", "value() -> ", ".", "erlang %s %s",
                 (const char *const[]){"erlang.operation", "erlang.compile_file"});
    bench_cached(&bench);
    bench_cold(&bench);
    json_object_del(bench.times, "setup");
    json_dumpf(bench.times, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    json_decref(bench.times);
    bench_vm_close(&bench.vm);
    close_service(bench.service);
    free_paths(&bench);
    return 0;
}
