/* How long validating BEAM files takes, and where the time goes: bench_beam PASSES DIRECTORY…
   Prints "total MEDIAN LOW HIGH" and a line for each stage, in microseconds for a file. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "beam/beam_internal.h"

enum { MAX_FILES = 20000, MAX_PASSES = 99, FILE_MAX_BYTES = 64 << 20, ZLIB_WINDOW_BITS = 15 };

/* nftw has no context to keep them in. */
static char *paths[MAX_FILES];
static size_t path_count;

static int add_path(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)status, (void)where;
    if (kind == FTW_F && string_ends(path, ".beam") && path_count < MAX_FILES) paths[path_count++] = strdup(path);
    return 0;
}

static double now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
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

/* Everything that a caller does, for all files: read the file, validate it, hash it. */
static double run_pass(uint8_t *buffer) {
    struct error error = {0};
    double start = now_us();
    for (size_t i = 0; i < path_count; i++) {
        size_t size = 0;
        if (load(paths[i], buffer, &size) < 0 || validate(buffer, size, &error) < 0) {
            fprintf(stderr, "%s: %s\n", paths[i], error.code ? error.detail : strerror(errno));
            exit(1);
        }
    }
    return (now_us() - start) / (double)path_count;
}

static int inflate_literals(struct beam *beam, struct error *reterr) {
    const struct chunk *chunk = &beam->chunks[CHUNK_LITERALS];
    uint32_t size = chunk->size > 4 ? load_u32(chunk->data) : 0;
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
    {"(inflating, of literals)", inflate_literals},
    {"(interface hash, on demand)", hash_interface},
};

enum { STAGE_COUNT = ARRAY_SIZE(stages) };

static void time_stages(const char *path, uint8_t *buffer, double *ret_read, double *ret_container, double *ret_us) {
    CLEANUP_BEAM struct beam *beam = calloc(1, sizeof *beam);
    struct error error = {0};
    size_t size = 0;
    double start = now_us(), end;
    load(path, buffer, &size);
    end = now_us();
    *ret_read += end - start;
    beam->options = beam_default_options;
    start = now_us();
    int result = read_container(beam, buffer, size, &error);
    end = now_us();
    *ret_container += end - start;
    for (size_t i = 0; result == 0 && i < STAGE_COUNT; i++) {
        start = now_us();
        result = stages[i].run(beam, &error);
        end = now_us();
        ret_us[i] += end - start;
    }
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void print_stages(uint8_t *buffer) {
    double read_us = 0, container_us = 0, stage_us[STAGE_COUNT] = {0};
    for (size_t i = 0; i < path_count; i++) time_stages(paths[i], buffer, &read_us, &container_us, stage_us);
    printf("stage %.1f reading the file\n", read_us / (double)path_count);
    printf("stage %.1f container\n", container_us / (double)path_count);
    for (size_t i = 0; i < STAGE_COUNT; i++)
        printf("stage %.1f %s\n", stage_us[i] / (double)path_count, stages[i].name);
}

int main(int argc, char **argv) {
    int passes = argc > 2 ? atoi(argv[1]) : 0;
    if (passes < 1 || passes > MAX_PASSES) return fprintf(stderr, "usage: bench_beam PASSES DIRECTORY…\n"), 2;
    for (int i = 2; i < argc; i++) nftw(argv[i], add_path, 16, FTW_PHYS);
    CLEANUP_FREE uint8_t *buffer = malloc(FILE_MAX_BYTES);
    double times[MAX_PASSES];
    if (path_count == 0 || !buffer) return fprintf(stderr, "bench_beam: no files\n"), 1;
    run_pass(buffer);
    for (int i = 0; i < passes; i++) times[i] = run_pass(buffer);
    qsort(times, (size_t)passes, sizeof *times, compare);
    printf("files %zu\ntotal %.1f %.1f %.1f\n", path_count, times[passes / 2], times[0], times[passes - 1]);
    print_stages(buffer);
    for (size_t i = 0; i < path_count; i++) free(paths[i]);
    return 0;
}
