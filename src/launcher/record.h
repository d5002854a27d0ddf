/* What a later launcher is to know of a node, as a file (record.c), and how it takes nodes over (adopt.c). */
#ifndef LAUNCHER_RECORD_H
#define LAUNCHER_RECORD_H

#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"

struct launcher;
struct jailed_node;

int record_write(const struct launcher *launcher, const struct jailed_node *node, struct error *reterr);
void record_remove(const struct launcher *launcher, const char *name);
/* Fills name, pid, start_time, uid and the exec count; the rest of ret is zero. */
int record_read(const struct launcher *launcher, const char *name, struct jailed_node *ret, struct error *reterr);
/* The start time of a process in clock ticks since boot; 0 when there is no such process. */
uint64_t process_start_time(pid_t pid);
/* The uid a process runs with; (uid_t)-1 when there is no such process. */
uid_t process_uid(pid_t pid);

/* Take over every node of an earlier launcher that is what its record says; kill and remove all else. */
int adopt_all(struct launcher *launcher, struct error *reterr);

#endif
