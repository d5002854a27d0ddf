/* What the kernel refuses a node at its limits, where nothing inside is ended by it: one process or thread more, a file
   that would grow too large. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/node_internal.h"

enum { STATUS_MAX_BYTES = 4096, THREADS_MAX = 1024 };

/* "max 12" among the lines of pids.events. */
uint64_t node_tasks_refused(const struct node *node) {
    char text[256];
    const char *line =
        usage_read_file(node->tasks_cgroup, "pids.events", text, sizeof text) ? strstr(text, "max ") : NULL;
    return line ? strtoull(line + strlen("max "), NULL, 10) : 0;
}

/* A node's threads have the signal for it blocked, so it stays with the one that wrote. */
static bool has_pending(int thread, int signal_number) {
    char directory[32], text[STATUS_MAX_BYTES];
    snprintf(directory, sizeof directory, "/proc/%d", thread);
    const char *line = usage_read_file(directory, "status", text, sizeof text) ? strstr(text, "\nSigPnd:") : NULL;
    return line && strtoull(line + strlen("\nSigPnd:"), NULL, 16) >> (signal_number - 1) & 1;
}

static FILE *open_threads(const struct node *node) {
    static const char *const names[] = {"cgroup.threads", "tasks"}; /* v2, v1 */
    FILE *file = NULL;
    for (size_t i = 0; !file && i < ARRAY_SIZE(names); i++) {
        char path[PATH_MAX + 16];
        snprintf(path, sizeof path, "%s/%s", node->cpu_cgroup, names[i]);
        file = node->cpu_cgroup[0] ? fopen(path, "re") : NULL;
    }
    return file;
}

uint64_t node_files_refused(const struct node *node) {
    FILE *file = open_threads(node);
    uint64_t count = 0;
    unsigned looked = 0;
    for (int thread; file && looked < THREADS_MAX && fscanf(file, "%d", &thread) == 1; looked++)
        count += thread > 0 && has_pending(thread, SIGXFSZ);
    if (file) fclose(file);
    return count;
}
