/* bench PROGRAMS EXAMPLES ESCRIPT WORK_FOLDER ROUNDS ROW…: ours and what one would use instead, in turns. Prints JSON:
   for each subject its values. tools/bench/comparison/bench.sh runs it and makes a table of that. */
#include "rows.h"

#include <stdlib.h>

static const struct row {
    const char *name;
    void (*run)(struct bench *bench);
} rows[] = {
    {"create", row_create}, {"destroy", row_destroy}, {"list", row_list},         {"eval", row_eval},
    {"work", row_work},     {"hundred", row_hundred}, {"thousand", row_thousand},
};

static const struct row *find(const char *name) {
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (string_equal(rows[i].name, name)) return &rows[i];
    bench_end(name, "there is no such row: create, destroy, list, eval, work, hundred, thousand");
}

int main(int argc, char **argv) {
    if (argc < 7) bench_end("usage", "bench PROGRAMS EXAMPLES ESCRIPT WORK_FOLDER ROUNDS ROW…");
    struct bench bench = {.programs = argv[1],
                          .examples = argv[2],
                          .script = argv[3],
                          .folder = argv[4],
                          .rounds = (unsigned)atoi(argv[5]),
                          .times = json_object()};
    for (int i = 6; i < argc; i++) {
        const struct row *row = find(argv[i]);
        uint64_t begun_us = clock_monotonic_us();
        row->run(&bench);
        fprintf(stderr, "%-10s %5.1f s\n", row->name, bench_since_ms(begun_us) / 1000);
    }
    bench_close_services(&bench);
    if (bench.rival.ask) bench_vm_close(&bench.rival);
    json_dumpf(bench.times, stdout, JSON_INDENT(1));
    json_decref(bench.times);
    return 0;
}
