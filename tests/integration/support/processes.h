/* Processes that are none of the test's children: watched by pidfd, ended by force, looked at through /proc. */
#ifndef INTEGRATION_PROCESSES_H
#define INTEGRATION_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A pidfd; the process must live. To be closed. */
int process_open(pid_t pid);
/* The parent: a VM's is its node's init, which ends last, when the file systems of the node are written back. */
int process_open_parent(pid_t pid);
/* Whether it has ended, or does so in time. */
bool process_ends(int pidfd, uint64_t timeout_ms);
bool process_lives(pid_t pid);
/* Send the signal and wait for the end. */
void process_end(pid_t pid, int signal_number);
/* The first child of a process; 0 when it has none. */
pid_t process_child(pid_t pid);
/* A line of /proc/PID/status, without its name and the white space after it. To be freed. */
char *process_status(pid_t pid, const char *name);

/* Look at a condition that no event tells of, until it holds or the time is over. */
bool wait_until(bool (*holds)(void *data), void *data, uint64_t timeout_ms);

#endif
