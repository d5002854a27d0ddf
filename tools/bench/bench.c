/* Records times by subject, starts other programs, and asks a VM line by line. */
#include "bench.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

void bench_end(const char *what, const char *detail) {
    fprintf(stderr, "benchmark: %s: %s\n", what, detail);
    exit(1);
}

void bench_note(json_t *times, const char *subject, double value) {
    if (!json_object_get(times, subject)) json_object_set_new(times, subject, json_array());
    json_array_append_new(json_object_get(times, subject), json_real(value));
}

double bench_since_ms(uint64_t begun_us) {
    return (double)(clock_monotonic_us() - begun_us) / 1000;
}

void bench_settle(void) {
    enum { SETTLE_MS = 15 };
    poll(NULL, 0, SETTLE_MS);
}

extern char **environ;

pid_t bench_spawn(const char *const *words, const char *folder, int input, int output) {
    posix_spawn_file_actions_t actions;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, 0);
    posix_spawn_file_actions_adddup2(&actions, output, 1);
    if (folder) posix_spawn_file_actions_addchdir_np(&actions, folder);
    int status = posix_spawnp(&pid, words[0], &actions, NULL, (char *const *)(uintptr_t)words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (status != 0) bench_end(words[0], strerror(status));
    return pid;
}

struct bench_vm bench_vm_open(const char *const *words) {
    int question[2], answer[2];
    if (pipe2(question, O_CLOEXEC) < 0 || pipe2(answer, O_CLOEXEC) < 0) bench_end("the VM that stays", "no pipe");
    bench_spawn(words, NULL, question[0], answer[1]);
    close(question[0]);
    close(answer[1]);
    struct bench_vm vm = {fdopen(question[1], "we"), fdopen(answer[0], "re")};
    if (!vm.ask || !vm.answers) bench_end("the VM that stays", "no stream");
    setlinebuf(vm.ask);
    return vm;
}

void bench_vm_ask(const struct bench_vm *vm, const char *question, char *ret_line, int size) {
    fprintf(vm->ask, "%s\n", question);
    if (!fgets(ret_line, size, vm->answers)) bench_end("the VM that stays ended at", question);
}

void bench_vm_close(struct bench_vm *vm) {
    fclose(vm->ask);
    fclose(vm->answers);
}
