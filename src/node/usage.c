/* What a node uses, read from its cgroups: v1 and v2 name the files differently. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "node/node_internal.h"

static bool read_file(const char *directory, const char *name, char *ret, size_t size) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    CLEANUP_FD int fd = directory[0] ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t count = fd < 0 ? -1 : read(fd, ret, size - 1);
    if (count <= 0) return false;
    ret[count] = '\0';
    return true;
}

static bool read_number(const char *directory, const char *name, uint64_t *ret) {
    char text[64];
    if (!read_file(directory, name, text, sizeof text)) return false;
    text[strcspn(text, "\n")] = '\0';
    return parse_u64(text, ret);
}

/* "usage_usec 1234" among the lines of cpu.stat. */
static bool read_cpu_stat(const char *directory, uint64_t *ret_ns) {
    char text[1024];
    unsigned long long usec;
    if (!read_file(directory, "cpu.stat", text, sizeof text)) return false;
    const char *line = strstr(text, "usage_usec ");
    if (!line || sscanf(line, "usage_usec %llu", &usec) != 1) return false;
    *ret_ns = usec * 1000;
    return true;
}

bool node_usage(const struct node *node, struct node_usage *ret) {
    struct node_usage usage;
    bool memory = read_number(node->memory_cgroup, "memory.usage_in_bytes", &usage.memory_bytes) ||
                  read_number(node->memory_cgroup, "memory.current", &usage.memory_bytes);
    bool cpu =
        read_number(node->cpu_cgroup, "cpuacct.usage", &usage.cpu_ns) || read_cpu_stat(node->cpu_cgroup, &usage.cpu_ns);
    if (!memory || !cpu) return false;
    *ret = usage;
    return true;
}
