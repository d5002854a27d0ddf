/* The path that a refused system call was made with, for its report. */
#ifndef LAUNCHER_NODES_PATH_READ_H
#define LAUNCHER_NODES_PATH_READ_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>

struct launcher;
struct jailed_node;

enum { NOTIFY_STRUCT_BYTES = 1024 };

/* A newer kernel's structs may be longer than ours. */
union notify_call {
    struct seccomp_notif call;
    char bytes[NOTIFY_STRUCT_BYTES];
};
union notify_answer {
    struct seccomp_notif_resp answer;
    char bytes[NOTIFY_STRUCT_BYTES];
};

/* Have the path read, then answer the call and tell of it. False: the call has none, or no path is read now. */
bool path_read_start(struct launcher *launcher, struct jailed_node *node, const struct seccomp_notif *call);
void path_read_came(struct launcher *launcher, struct jailed_node *node); /* or the reader has ended without it */
uint64_t path_read_check(struct launcher *launcher, uint64_t now_ms);     /* deadlines; returns the next */
void path_read_call_off(struct launcher *launcher, struct jailed_node *node);

#endif
