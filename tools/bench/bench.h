/* What the benchmarks share: times by subject, other programs, and a VM that stays and is asked line by line. Whatever
   goes wrong ends the program. */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

_Noreturn void bench_end(const char *what, const char *detail);

void bench_note(json_t *times, const char *subject, double value); /* subject → array */
double bench_since_ms(uint64_t begun_us);
/* A moment before the next measurement, of ours and of what is beside it: what the last one left to be done afterwards
   is not the next one's. A VM looks through its processes for literals of what was purged, the service syncs what it
   wrote. */
void bench_settle(void);

/* Folder NULL: this one. */
pid_t bench_spawn(const char *const *words, const char *folder, int input, int output);

struct bench_vm {
    FILE *ask, *answers;
};

struct bench_vm bench_vm_open(const char *const *words);
/* One line, one line back. */
void bench_vm_ask(const struct bench_vm *vm, const char *question, char *ret_line, int size);
void bench_vm_close(struct bench_vm *vm); /* it ends with its input */

#endif
