/* Measures the rivals: a VM that starts peers, and other programs from start to end. */
#include "rows.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void open_rival(struct bench *bench) {
    char flags[128];
    snprintf(flags, sizeof flags, "-start_epmd false -erl_epmd_port %d", 20000 + (int)(getpid() % 10000));
    setenv("ERL_FLAGS", flags, 1);
    bench->rival = bench_vm_open((const char *const[]){"escript", bench->script, NULL});
    unsetenv("ERL_FLAGS");
}

double bench_rival(struct bench *bench, const char *question) {
    char line[64];
    if (!bench->rival.ask) open_rival(bench);
    bench_vm_ask(&bench->rival, question, line, sizeof line);
    return strtod(line, NULL);
}

void bench_time_command(struct bench *bench, const char *subject, const char *const *words) {
    CLEANUP_FD int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    int status;
    uint64_t begun_us = clock_monotonic_us();
    pid_t pid = bench_spawn(words, NULL, nothing, nothing);
    if (waitpid(pid, &status, 0) < 0 || status != 0) bench_end(words[0], "it failed");
    bench_note(bench->times, subject, bench_since_ms(begun_us));
}
