/* Many at once: a hundred beside a hundred VMs, and a thousand. */
#include "rows.h"

#include <math.h>
#include <poll.h>
#include <stdlib.h>

enum {
    THOUSAND = 1000,
    STARTERS = 4, /* of the thousand: as many as the machine can boot at once, more only wait */
    SETTLED_LOOK_MS = 1000,
    SETTLED_LOOKS = 3,
    SETTLED_LOOKS_MAX = 20,
    IDLE_MS = 10000,
};

/* Until the garbage of starting has gone: for three looks what they use was, within a hundredth, what it was before. */
static double settled(double (*bytes)(const void *data), const void *data) {
    double now = bytes(data);
    int steady = 0;
    for (int i = 0; i < SETTLED_LOOKS_MAX && steady < SETTLED_LOOKS; i++) {
        poll(NULL, 0, SETTLED_LOOK_MS);
        double before = now;
        now = bytes(data);
        steady = fabs(now - before) <= now / 100 ? steady + 1 : 0;
    }
    return now;
}

static double batch_median(const void *data) {
    const struct batch *batch = data;
    double *bytes = bench_batch_memory(batch), median = bytes[batch->count / 2];
    free(bytes);
    return median;
}

static double own_bytes(const void *data) {
    (void)data;
    return bench_cgroup_bytes();
}

/* ---- a hundred ---- */

static double ask_vm(const struct bench_vm *vm, const char *question) {
    char line[64];
    bench_vm_ask(vm, question, line, sizeof line);
    return strtod(line, NULL);
}

static void measure_peers(struct bench *bench, const char *kind, const char *burst, const char *memory) {
    char question[64];
    bench_cgroup_enter();
    struct bench_vm vm = bench_vm_open((const char *const[]){"escript", bench->script, NULL});
    ask_vm(&vm, "stop"); /* it is up */
    double before = settled(own_bytes, NULL);
    snprintf(question, sizeof question, "peers %d %s", CROWD, kind);
    double took_ms = ask_vm(&vm, question);
    if (burst) bench_note(bench->times, burst, took_ms);
    bench_note(bench->times, memory, (settled(own_bytes, NULL) - before) / CROWD / 1e6);
    ask_vm(&vm, "stop");
    bench_cgroup_leave();
    bench_vm_close(&vm);
    bench_cgroup_remove();
}

static void measure_sandboxes(struct bench *bench, const char *example, const char *burst, const char *memory,
                              bool with_info) {
    const struct batch batch = {.bench = bench,
                                .wish = {.service = bench_cold(bench), .source = bench_example(bench, example)},
                                .prefix = example,
                                .count = CROWD,
                                .at_once = CROWD};
    char id[ID_BYTES];
    bench_create(bench, &batch.wish, id); /* compiled */
    bench_destroy(batch.wish.service, id);
    double took_ms = bench_batch_create(&batch);
    if (burst) bench_note(bench->times, burst, took_ms);
    bench_note(bench->times, memory, settled(batch_median, &batch) / 1e6);
    if (with_info) bench_info(bench, &batch);
    bench_batch_destroy(&batch);
}

void row_hundred(struct bench *bench) {
    measure_peers(bench, "erlang", "burst.peers", "memory_mb.peer");
    measure_sandboxes(bench, "counter_erl", "burst.ours", "memory_mb.ours", true);
    measure_peers(bench, "elixir", NULL, "memory_mb.peer_elixir");
    measure_sandboxes(bench, "counter", NULL, "memory_mb.ours_elixir", false);
}

/* ---- a thousand ---- */

static double batch_sum(const void *data) {
    const struct batch *batch = data;
    double *bytes = bench_batch_memory(batch), sum = 0;
    for (unsigned i = 0; i < batch->count; i++) sum += bytes[i];
    free(bytes);
    return sum;
}

static pid_t some_node(const struct batch *batch) {
    char id[ID_BYTES];
    snprintf(id, sizeof id, "%s-0", batch->prefix);
    json_t *info = bench_ask(batch->wish.service, "info", json_pack("{s:s}", "id", id));
    pid_t pid = (pid_t)json_integer_value(json_object_get(info, "os_pid"));
    json_decref(info);
    return pid;
}

void row_thousand(struct bench *bench) {
    const struct batch batch = {.bench = bench,
                                .wish = {.service = bench_cold(bench), .source = bench_example(bench, "counter_erl")},
                                .prefix = "thousand",
                                .count = THOUSAND,
                                .at_once = STARTERS};
    bench_note(bench->times, "thousand.create", bench_batch_create(&batch));
    bench_note(bench->times, "thousand.memory_mb", settled(batch_sum, &batch) / 1e6);
    pid_t node = some_node(&batch);
    double before_ms = bench_cpu_ms(batch.wish.service, node);
    poll(NULL, 0, IDLE_MS);
    bench_note(bench->times, "thousand.idle_percent",
               (bench_cpu_ms(batch.wish.service, node) - before_ms) * 100 / IDLE_MS);
    bench_note(bench->times, "thousand.eval", bench_batch_eval(&batch));
    bench_note(bench->times, "thousand.destroy", bench_batch_destroy(&batch));
}
