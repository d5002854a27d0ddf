/* How long validating BEAM files takes, and where the time goes: bench_beam PASSES DIRECTORY…
   Prints "total MEDIAN" by the clock on one thread and "all MEDIAN" on all processors, "cpu MEDIAN" by the processor's
   time, and a line for each stage, for each file the best of the passes, in microseconds for a file. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "beam/beam_internal.h"

enum {
    MAX_FILES = 20000,
    MAX_PASSES = 99,
    FILE_MAX_BYTES = 64 << 20,
    SHARES = 8,
    ZLIB_WINDOW_BITS = 15,
    CLOCK_LOOKS = 1000,
};

/* nftw has no context to keep them in. */
static char *paths[MAX_FILES];
static size_t path_count;

static int add_path(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)status, (void)where;
    if (kind == FTW_F && string_ends(path, ".beam") && path_count < MAX_FILES) paths[path_count++] = strdup(path);
    return 0;
}

static double clock_us(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static double now_us(void) {
    return clock_us(CLOCK_MONOTONIC);
}

/* What looking at the clock takes, which short stages would be mostly. */
static double clock_cost_us;

static double since(double start_us) {
    return now_us() - start_us - clock_cost_us;
}

static void measure_clock(void) {
    double lowest = 1;
    for (int i = 0; i < CLOCK_LOOKS; i++) {
        double taken = since(now_us());
        if (taken < lowest) lowest = taken;
    }
    clock_cost_us = lowest;
}

static int load(const char *path, uint8_t *buffer, size_t *ret_size) {
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, buffer, FILE_MAX_BYTES);
    if (size < 0) return -1;
    *ret_size = (size_t)size;
    return 0;
}

static int validate(const uint8_t *data, size_t size, struct error *reterr) {
    CLEANUP_BEAM struct beam *beam = NULL;
    char digest[BEAM_DIGEST_BYTES];
    int result = beam_read(data, size, &beam_default_options, &beam, reterr);
    return result < 0 ? result : beam_checksum(beam, digest, reterr);
}

/* Everything that a caller does, for every SHARES-th file: read the file, validate it, hash it. */
static int run_share(void *buffers, size_t share, struct error *reterr) {
    uint8_t *buffer = ((uint8_t **)buffers)[share];
    for (size_t i = share; i < path_count; i += SHARES) {
        size_t size = 0;
        if (load(paths[i], buffer, &size) < 0) return error_errno(reterr, errno, "reading %s", paths[i]);
        if (validate(buffer, size, reterr) < 0) return -1;
    }
    return 0;
}

static int run_alone(size_t count, parallel_fn *run, void *context, struct error *reterr) {
    int result = 0;
    for (size_t i = 0; result == 0 && i < count; i++) result = run(context, i, reterr);
    return result;
}

typedef int each_fn(size_t count, parallel_fn *run, void *context, struct error *reterr);

static void run_pass(uint8_t **buffers, each_fn *each, double *ret_us, double *ret_cpu_us) {
    struct error error;
    double start = now_us(), cpu_start = clock_us(CLOCK_PROCESS_CPUTIME_ID);
    if (each(SHARES, run_share, buffers, &error) < 0) {
        fprintf(stderr, "bench_beam: %s\n", error.detail);
        exit(1);
    }
    *ret_us = (now_us() - start) / (double)path_count;
    *ret_cpu_us = (clock_us(CLOCK_PROCESS_CPUTIME_ID) - cpu_start) / (double)path_count;
}

/* 0: they are not compressed. */
static uint32_t inflated_size(const struct beam *beam) {
    const struct chunk *chunk = &beam->chunks[CHUNK_LITERALS];
    return chunk->size > 4 ? load_u32(chunk->data) : 0;
}

static int hash_chunks(struct beam *beam, struct error *reterr) {
    char digest[BEAM_DIGEST_BYTES];
    return beam_checksum(beam, digest, reterr);
}

/* What is looked at of a chunk: of debug info and documentation nothing, of literals what they are inflated to. */
static struct chunk looked_at(const struct beam *beam, enum chunk_kind kind) {
    bool is_skipped = kind == CHUNK_DEBUG_INFO || kind == CHUNK_ABSTRACT_CODE || kind == CHUNK_DOCUMENTATION;
    if (is_skipped || !beam->chunks[kind].data) return (struct chunk){0};
    bool is_inflated = kind == CHUNK_LITERALS && beam->literal_bytes;
    return is_inflated ? (struct chunk){beam->literal_bytes, inflated_size(beam)} : beam->chunks[kind];
}

static int copy_bytes(const struct beam *beam, struct chunk file) {
    static uint8_t copy[FILE_MAX_BYTES];
    (void)file;
    for (enum chunk_kind kind = 0; kind < CHUNK_COUNT; kind++) {
        struct chunk bytes = looked_at(beam, kind);
        if (bytes.size > 0) memcpy(copy, bytes.data, bytes.size);
    }
    return 0;
}

/* One byte after the other, each needed for the next, as in all formats whose parts tell where the next one begins. */
static uint32_t chain(struct chunk bytes, uint32_t sum) {
    for (size_t i = 0; i < bytes.size; i++) sum = (sum << 5 | sum >> 27) ^ bytes.data[i];
    return sum;
}

/* What they return is for the compiler, which could leave them out otherwise. */
static int chain_bytes(const struct beam *beam, struct chunk file) {
    uint32_t sum = 0;
    (void)file;
    for (enum chunk_kind kind = 0; kind < CHUNK_COUNT; kind++) sum = chain(looked_at(beam, kind), sum);
    return (int)sum;
}

static int chain_file(const struct beam *beam, struct chunk file) {
    (void)beam;
    return (int)chain(file, 0);
}

/* Part of a stage. */
static int inflate_literals(const struct beam *beam, struct chunk file) {
    const struct chunk *chunk = &beam->chunks[CHUNK_LITERALS];
    uint32_t size = inflated_size(beam);
    CLEANUP_FREE uint8_t *bytes = NULL;
    (void)file;
    return size == 0 ? 0 : inflate_whole(chunk->data + 4, chunk->size - 4, ZLIB_WINDOW_BITS, size, &bytes, NULL);
}

static int hash_interface(const struct beam *beam, struct chunk file) {
    char digest[BEAM_DIGEST_BYTES];
    (void)file;
    return beam_interface_hash(beam, digest, NULL);
}

static double count_bytes(const struct beam *beam) {
    size_t count = 0;
    for (enum chunk_kind kind = 0; kind < CHUNK_COUNT; kind++) count += looked_at(beam, kind).size;
    return (double)count;
}

static const struct {
    const char *name;
    int (*run)(struct beam *beam, struct error *reterr);
} stages[] = {
    {"atoms", read_atoms},     {"imports", read_imports},   {"exports", read_exports}, {"locals", read_locals},
    {"lambdas", read_lambdas}, {"literals", read_literals}, {"lines", read_lines},     {"types", read_types},
    {"terms", read_terms},     {"code", read_code},         {"tables", check_tables},  {"checksum", hash_chunks},
};

/* What they are compared with, each in a pass of its own. */
static const struct {
    const char *name;
    int (*run)(const struct beam *beam, struct chunk file);
    bool is_first; /* it must be the first to do this work: before it, only the container is read */
} asides[] = {
    {"(inflating, of literals)", inflate_literals, true},       {"(interface hash, on demand)", hash_interface, false},
    {"(copying what was looked at)", copy_bytes, false},        {"(a loop over each byte of it)", chain_bytes, false},
    {"(a loop over each byte of the file)", chain_file, false},
};

enum { STAGE_COUNT = ARRAY_SIZE(stages), ASIDE_COUNT = ARRAY_SIZE(asides) };

struct stage_times {
    double read, container, stages[STAGE_COUNT], asides[ASIDE_COUNT];
};

struct byte_counts {
    double looked_at, all;
};

/* 0: there is none yet. */
static void keep_lower(double *kept, double value) {
    if (*kept == 0 || value < *kept) *kept = value;
}

static struct byte_counts time_stages(const char *path, uint8_t *buffer, struct stage_times *best) {
    CLEANUP_BEAM struct beam *beam = calloc(1, sizeof *beam);
    struct error error = {0};
    size_t size = 0;
    double start = now_us();
    load(path, buffer, &size);
    keep_lower(&best->read, since(start));
    beam->options = beam_default_options;
    start = now_us();
    int result = read_container(beam, buffer, size, &error);
    keep_lower(&best->container, since(start));
    for (size_t i = 0; result == 0 && i < STAGE_COUNT; i++) {
        start = now_us();
        result = stages[i].run(beam, &error);
        keep_lower(&best->stages[i], since(start));
    }
    return (struct byte_counts){count_bytes(beam), (double)size};
}

static void time_aside(const char *path, uint8_t *buffer, size_t number, struct stage_times *best) {
    CLEANUP_BEAM struct beam *beam = calloc(1, sizeof *beam);
    struct error error = {0};
    volatile int kept;
    size_t size = 0;
    load(path, buffer, &size);
    beam->options = beam_default_options;
    int result = read_container(beam, buffer, size, &error);
    for (size_t i = 0; !asides[number].is_first && result == 0 && i < STAGE_COUNT; i++)
        result = stages[i].run(beam, &error);
    double start = now_us();
    kept = asides[number].run(beam, (struct chunk){buffer, size});
    keep_lower(&best->asides[number], since(start));
    (void)kept;
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The best of each file: what else runs on the machine disturbs some files in every pass. */
static struct stage_times bests[MAX_FILES];

static void print_stage(const char *name, size_t offset) {
    double sum = 0;
    for (size_t i = 0; i < path_count; i++) sum += *(double *)((char *)&bests[i] + offset);
    printf("stage %.1f %s\n", sum / (double)path_count, name);
}

static void print_stages(uint8_t *buffer, int passes) {
    struct byte_counts counts = {0};
    for (size_t i = 0; i < path_count * (size_t)passes; i++) {
        struct byte_counts file = time_stages(paths[i % path_count], buffer, &bests[i % path_count]);
        counts.looked_at += file.looked_at / (double)passes;
        counts.all += file.all / (double)passes;
    }
    for (size_t number = 0; number < ASIDE_COUNT; number++)
        for (size_t i = 0; i < path_count * (size_t)passes; i++)
            time_aside(paths[i % path_count], buffer, number, &bests[i % path_count]);
    printf("bytes %.0f\nfilebytes %.0f\n", counts.looked_at / (double)path_count, counts.all / (double)path_count);
    print_stage("reading the file", offsetof(struct stage_times, read));
    print_stage("container", offsetof(struct stage_times, container));
    for (size_t i = 0; i < STAGE_COUNT; i++) print_stage(stages[i].name, offsetof(struct stage_times, stages[i]));
    for (size_t i = 0; i < ASIDE_COUNT; i++) print_stage(asides[i].name, offsetof(struct stage_times, asides[i]));
}

static double median(double *times, int count) {
    qsort(times, (size_t)count, sizeof *times, compare);
    return times[count / 2];
}

static void print_totals(uint8_t **buffers, int passes) {
    double alone[MAX_PASSES], together[MAX_PASSES], cpu[MAX_PASSES], unused;
    run_pass(buffers, run_alone, &alone[0], &cpu[0]);
    for (int i = 0; i < passes; i++) {
        run_pass(buffers, run_alone, &alone[i], &cpu[i]);
        run_pass(buffers, parallel_each, &together[i], &unused);
    }
    printf("files %zu\ntotal %.1f\nall %.1f\ncpu %.1f\n", path_count, median(alone, passes), median(together, passes),
           median(cpu, passes));
}

int main(int argc, char **argv) {
    int passes = argc > 2 ? atoi(argv[1]) : 0;
    if (passes < 1 || passes > MAX_PASSES) return fprintf(stderr, "usage: bench_beam PASSES DIRECTORY…\n"), 2;
    for (int i = 2; i < argc; i++) nftw(argv[i], add_path, 16, FTW_PHYS);
    uint8_t *buffers[SHARES];
    if (path_count == 0) return fprintf(stderr, "bench_beam: no files\n"), 1;
    for (size_t i = 0; i < SHARES; i++)
        if (!(buffers[i] = malloc(FILE_MAX_BYTES))) return fprintf(stderr, "bench_beam: no memory\n"), 1;
    measure_clock();
    print_totals(buffers, passes);
    print_stages(buffers[0], passes);
    for (size_t i = 0; i < SHARES; i++) free(buffers[i]);
    for (size_t i = 0; i < path_count; i++) free(paths[i]);
    return 0;
}
