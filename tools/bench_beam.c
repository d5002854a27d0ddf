/* How long validating BEAM files takes, and where the time goes: bench_beam PASSES DIRECTORY…
   Prints "total MEDIAN" by the clock on one thread and "all MEDIAN" on all processors, "cpu MEDIAN" by the processor's
   time, and a line for each stage, the best of the passes, in microseconds for a file. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "beam/beam_internal.h"

enum { MAX_FILES = 20000, MAX_PASSES = 99, FILE_MAX_BYTES = 64 << 20, SHARES = 8, ZLIB_WINDOW_BITS = 15 };

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

static int inflate_literals(struct beam *beam, struct error *reterr) {
    const struct chunk *chunk = &beam->chunks[CHUNK_LITERALS];
    uint32_t size = inflated_size(beam);
    CLEANUP_FREE uint8_t *bytes = NULL;
    return size == 0 ? 0 : inflate_whole(chunk->data + 4, chunk->size - 4, ZLIB_WINDOW_BITS, size, &bytes, reterr);
}

static int hash_chunks(struct beam *beam, struct error *reterr) {
    char digest[BEAM_DIGEST_BYTES];
    return beam_checksum(beam, digest, reterr);
}

static int hash_interface(struct beam *beam, struct error *reterr) {
    char digest[BEAM_DIGEST_BYTES];
    return beam_interface_hash(beam, digest, reterr);
}

/* What is looked at of a chunk: of debug info and documentation nothing, of literals what they are inflated to. */
static struct chunk looked_at(const struct beam *beam, enum chunk_kind kind) {
    bool is_skipped = kind == CHUNK_DEBUG_INFO || kind == CHUNK_ABSTRACT_CODE || kind == CHUNK_DOCUMENTATION;
    if (is_skipped || !beam->chunks[kind].data) return (struct chunk){0};
    bool is_inflated = kind == CHUNK_LITERALS && beam->literal_bytes;
    return is_inflated ? (struct chunk){beam->literal_bytes, inflated_size(beam)} : beam->chunks[kind];
}

static int copy_bytes(struct beam *beam, struct error *reterr) {
    static uint8_t copy[FILE_MAX_BYTES];
    (void)reterr;
    for (enum chunk_kind kind = 0; kind < CHUNK_COUNT; kind++) {
        struct chunk bytes = looked_at(beam, kind);
        if (bytes.size > 0) memcpy(copy, bytes.data, bytes.size);
    }
    return 0;
}

/* One byte after the other, each needed for the next, as in all formats whose parts tell where the next one begins. */
static int chain_bytes(struct beam *beam, struct error *reterr) {
    uint32_t sum = 0;
    (void)reterr;
    for (enum chunk_kind kind = 0; kind < CHUNK_COUNT; kind++) {
        struct chunk bytes = looked_at(beam, kind);
        for (size_t i = 0; i < bytes.size; i++) sum = (sum << 5 | sum >> 27) ^ bytes.data[i];
    }
    return sum == 1 ? -1 : 0; /* so that the compiler can't leave it out */
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
    {"atoms", read_atoms},
    {"imports", read_imports},
    {"exports", read_exports},
    {"locals", read_locals},
    {"lambdas", read_lambdas},
    {"literals", read_literals},
    {"lines", read_lines},
    {"types", read_types},
    {"terms", read_terms},
    {"code", read_code},
    {"tables", check_tables},
    {"checksum", hash_chunks},
    {"(interface hash, on demand)", hash_interface},
    {"(copying what was looked at)", copy_bytes},
    {"(a loop over each byte of it)", chain_bytes},
};

enum { STAGE_COUNT = ARRAY_SIZE(stages) };

struct stage_times {
    double read, container, inflating, stages[STAGE_COUNT];
    double bytes; /* looked at */
};

static void time_stages(const char *path, uint8_t *buffer, struct stage_times *ret) {
    CLEANUP_BEAM struct beam *beam = calloc(1, sizeof *beam);
    struct error error = {0};
    size_t size = 0;
    double start = now_us(), end;
    load(path, buffer, &size);
    end = now_us();
    ret->read += end - start;
    beam->options = beam_default_options;
    start = now_us();
    int result = read_container(beam, buffer, size, &error);
    end = now_us();
    ret->container += end - start;
    for (size_t i = 0; result == 0 && i < STAGE_COUNT; i++) {
        start = now_us();
        result = stages[i].run(beam, &error);
        end = now_us();
        ret->stages[i] += end - start;
    }
    ret->bytes += count_bytes(beam);
}

/* Part of a stage, so it is timed on its own, when nobody has inflated the same bytes just before. */
static void time_inflating(const char *path, uint8_t *buffer, struct stage_times *ret) {
    CLEANUP_BEAM struct beam *beam = calloc(1, sizeof *beam);
    struct error error = {0};
    size_t size = 0;
    load(path, buffer, &size);
    beam->options = beam_default_options;
    if (read_container(beam, buffer, size, &error) < 0) return;
    double start = now_us();
    inflate_literals(beam, &error);
    ret->inflating += now_us() - start;
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void keep_lower(double *kept, double value) {
    if (*kept == 0 || value < *kept) *kept = value;
}

static void print_stages(uint8_t *buffer, int passes) {
    struct stage_times best = {0};
    for (int pass = 0; pass < passes; pass++) {
        struct stage_times times = {0};
        for (size_t i = 0; i < path_count; i++) time_stages(paths[i], buffer, &times);
        for (size_t i = 0; i < path_count; i++) time_inflating(paths[i], buffer, &times);
        keep_lower(&best.read, times.read);
        keep_lower(&best.container, times.container);
        keep_lower(&best.inflating, times.inflating);
        for (size_t i = 0; i < STAGE_COUNT; i++) keep_lower(&best.stages[i], times.stages[i]);
        best.bytes = times.bytes;
    }
    double files = (double)path_count;
    printf("bytes %.0f\nstage %.1f reading the file\nstage %.1f container\nstage %.1f (inflating, of literals)\n",
           best.bytes / files, best.read / files, best.container / files, best.inflating / files);
    for (size_t i = 0; i < STAGE_COUNT; i++) printf("stage %.1f %s\n", best.stages[i] / files, stages[i].name);
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
    print_totals(buffers, passes);
    print_stages(buffers[0], passes);
    for (size_t i = 0; i < SHARES; i++) free(buffers[i]);
    for (size_t i = 0; i < path_count; i++) free(paths[i]);
    return 0;
}
