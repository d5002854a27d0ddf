/* Gives the files named, and those in the directories named, to a fuzz target: a corpus as an ordinary test. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "fuzz/harness/fuzz.h"

enum { SAMPLE_MAX_BYTES = 1 << 24 };

static const char *volatile replayed = ""; /* for whom a signal ends it */

static void tell_sample(int number) {
    const char *const words[] = {"replay: ended by ", replayed, "\n"};
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (write(STDERR_FILENO, words[i], strlen(words[i])) < 0) break;
    signal(number, SIG_DFL);
    raise(number);
}

/* An allocation of exactly the file's size, so that a read past its end is one past the allocation's. */
static int read_sample(int fd, uint8_t **ret, size_t *ret_size, struct error *reterr) {
    struct stat status;
    if (fstat(fd, &status) < 0) return error_errno(reterr, errno, "fstat");
    if (status.st_size > SAMPLE_MAX_BYTES) return error_set(reterr, E_TOO_LARGE, "too large for a sample");
    size_t size = (size_t)status.st_size;
    CLEANUP_FREE uint8_t *data = malloc(size ? size : 1);
    if (!data) return error_set(reterr, E_NO_MEMORY, "no memory");
    if (read(fd, data, size) != (ssize_t)size) return error_set(reterr, E_SYSTEM, "could not be read whole");
    *ret = take_ptr(data);
    *ret_size = size;
    return 0;
}

static int replay_file(int directory_fd, const char *name, struct error *reterr) {
    CLEANUP_FD int fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return error_errno(reterr, errno, "open");
    CLEANUP_FREE uint8_t *data = NULL;
    size_t size = 0;
    int result = read_sample(fd, &data, &size, reterr);
    if (result < 0) return result;
    replayed = name;
    LLVMFuzzerTestOneInput(data, size);
    replayed = "";
    return 0;
}

static int replay_directory(const char *path, unsigned *count, struct error *reterr) {
    DIR *directory = opendir(path);
    if (!directory) return error_errno(reterr, errno, "open");
    int result = 0;
    struct dirent *entry;
    while (result == 0 && (entry = readdir(directory))) {
        if (entry->d_name[0] == '.') continue;
        result = replay_file(dirfd(directory), entry->d_name, reterr);
        if (result < 0) error_prefix(reterr, "%s", entry->d_name);
        *count += result == 0;
    }
    closedir(directory);
    return result;
}

static int replay(const char *path, unsigned *count, struct error *reterr) {
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) return replay_directory(path, count, reterr);
    int result = replay_file(AT_FDCWD, path, reterr);
    *count += result == 0;
    return result;
}

int main(int argc, char **argv) {
    unsigned count = 0;
    signal(SIGABRT, tell_sample);
    for (int i = 1; i < argc; i++) {
        struct error error = {0};
        if (replay(argv[i], &count, &error) < 0) {
            fprintf(stderr, "%s: %s\n", argv[i], error.detail);
            return 1;
        }
    }
    printf("%u samples\n", count);
    return count > 0 ? 0 : 1; /* a corpus that is not found must not pass */
}
