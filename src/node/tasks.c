/* A node's processes as the kernel has them, read from outside. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "node/node_internal.h"

enum { STAT_MAX_BYTES = 1024 };

/* "pid (name) state ppid … utime stime … threads … rss": the name may hold anything, so its end is the last bracket. */
static bool parse_stat(const char *text, struct node_task *ret) {
    const char *begin = strchr(text, '('), *end = strrchr(text, ')');
    unsigned long long user, system;
    long threads, pages;
    char state;
    if (!begin || !end || end < begin) return false;
    if (sscanf(end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %ld %*d %*u %*u %ld",
               &state, &user, &system, &threads, &pages) != 5)
        return false;
    struct buf name = BUF_INIT;
    escape_text(&name, begin + 1, (size_t)(end - begin - 1));
    snprintf(ret->name, sizeof ret->name, "%s", buf_string(&name));
    buf_free(&name);
    ret->state = state;
    ret->threads = (uint32_t)threads;
    ret->memory_bytes = pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
    ret->cpu_ms = (user + system) * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
    return true;
}

bool task_read(pid_t pid, struct node_task *ret) {
    char path[64], text[STAT_MAX_BYTES];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    struct node_task task = {.pid = pid};
    if (file_read_text(AT_FDCWD, path, text, sizeof text) <= 0 || !parse_stat(text, &task)) return false;
    *ret = task;
    return true;
}

size_t node_tasks(const struct node *node, struct node_task *ret, size_t max) {
    char path[PATH_MAX + 16];
    size_t count = 0;
    snprintf(path, sizeof path, "%s/cgroup.procs", node->memory_cgroup[0] ? node->memory_cgroup : node->cpu_cgroup);
    FILE *file = fopen(path, "re");
    for (int pid; file && count < max && fscanf(file, "%d", &pid) == 1;)
        if (pid > 0 && task_read(pid, &ret[count])) count++;
    if (file) fclose(file);
    return count;
}
