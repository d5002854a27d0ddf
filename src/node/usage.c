/* What a node uses, read from outside: memory, CPU time and tasks from its cgroups, which v1 and v2 name differently,
   its disks from the file systems that the launcher opened, and its traffic. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "node/node_internal.h"

bool usage_read_file(const char *directory, const char *name, char *ret, size_t size) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return directory[0] && file_read_text(AT_FDCWD, path, ret, size) > 0;
}

static bool read_number(const char *directory, const char *name, uint64_t *ret) {
    char text[64];
    if (!usage_read_file(directory, name, text, sizeof text)) return false;
    text[strcspn(text, "\n")] = '\0';
    return parse_u64(text, ret);
}

/* "usage_usec 1234" among the lines of cpu.stat. */
static bool read_cpu_stat(const char *directory, uint64_t *ret_ns) {
    char text[1024];
    unsigned long long usec;
    if (!usage_read_file(directory, "cpu.stat", text, sizeof text)) return false;
    const char *line = strstr(text, "usage_usec ");
    if (!line || sscanf(line, "usage_usec %llu", &usec) != 1) return false;
    *ret_ns = usec * 1000;
    return true;
}

/* ---- its VM's process ---- */

static pid_t find_vm(pid_t init) {
    char directory[64], text[32];
    snprintf(directory, sizeof directory, "/proc/%d/task/%d", (int)init, (int)init);
    return usage_read_file(directory, "children", text, sizeof text) ? atoi(text) : 0;
}

static pid_t vm_of(struct node *node) {
    if (!node->vm_pid) node->vm_pid = find_vm(node->pid);
    return node->vm_pid;
}

/* ---- memory, CPU time, tasks ---- */

static uint64_t memory_bytes(const struct node *node) {
    uint64_t bytes;
    bool is_known = read_number(node->memory_cgroup, "memory.usage_in_bytes", &bytes) ||
                    read_number(node->memory_cgroup, "memory.current", &bytes);
    return is_known ? bytes : NODE_UNKNOWN;
}

static uint64_t socket_memory_bytes(const struct node *node) {
    uint64_t bytes;
    return read_number(node->memory_cgroup, "memory.kmem.tcp.usage_in_bytes", &bytes) ? bytes : NODE_UNKNOWN;
}

static bool read_cpu(const char *cgroup, uint64_t *ret_ns) {
    return read_number(cgroup, "cpuacct.usage", ret_ns) || read_cpu_stat(cgroup, ret_ns);
}

/* Without a cgroup, of the VM's own process, in the kernel's ticks. */
uint64_t node_cpu_ns(struct node *node) {
    uint64_t time_ns;
    struct node_task vm;
    if (read_cpu(node->cpu_cgroup, &time_ns)) return time_ns;
    return vm_of(node) > 0 && task_read(node->vm_pid, &vm) ? vm.cpu_ms * 1000000 : NODE_UNKNOWN;
}

uint64_t node_cpu_of_all_ns(const struct node *node) {
    char parent[PATH_MAX];
    uint64_t time_ns;
    snprintf(parent, sizeof parent, "%s", node->cpu_cgroup);
    char *slash = strrchr(parent, '/');
    if (slash) *slash = '\0';
    return read_cpu(parent, &time_ns) ? time_ns : NODE_UNKNOWN;
}

static uint64_t os_tasks(const struct node *node) {
    uint64_t count;
    return read_number(node->tasks_cgroup, "pids.current", &count) ? count : NODE_UNKNOWN;
}

/* ---- the disk ---- */

static void add_place(struct node_usage *usage, enum jail_limit limit, uint64_t used, uint64_t most, uint64_t unit) {
    uint64_t sum = jail_limit_get(&usage->used, limit), fullest = jail_limit_get(&usage->fullest_percent, limit);
    uint64_t percent = most ? used * 100 / most : 0;
    uint64_t all = jail_limit_get(&usage->most, limit);
    jail_limit_set(&usage->used, limit, (sum == NODE_UNKNOWN ? 0 : sum) + used * unit);
    jail_limit_set(&usage->most, limit, (all == NODE_UNKNOWN ? 0 : all) + most * unit);
    if (fullest == NODE_UNKNOWN || percent > fullest) jail_limit_set(&usage->fullest_percent, limit, percent);
}

/* All places or none: one alone says too little. */
static void look_at_disk(const struct node *node, struct node_usage *usage) {
    struct statfs disks[JAIL_DISKS];
    for (size_t i = 0; i < JAIL_DISKS; i++)
        if (node->disk_fds[i] < 0 || fstatfs(node->disk_fds[i], &disks[i]) < 0 || disks[i].f_blocks == 0) return;
    for (size_t i = 0; i < JAIL_DISKS; i++) {
        add_place(usage, JAIL_LIMIT_DISK, disks[i].f_blocks - disks[i].f_bfree, disks[i].f_blocks,
                  (uint64_t)disks[i].f_bsize);
        add_place(usage, JAIL_LIMIT_FILES, disks[i].f_files - disks[i].f_ffree, disks[i].f_files, 1);
    }
}

/* What is open keeps the files of a node that has ended. */
void node_close_disk(struct node *node) {
    for (size_t i = 0; i < JAIL_DISKS; i++) fd_close(take_fd(&node->disk_fds[i]));
}

static void on_disks(void *data, const int fds[JAIL_DISKS], const struct error *error) {
    struct node *node = data;
    bool is_living = node->state < NODE_ENDING;
    node->is_disk_asked = !error;
    for (size_t i = 0; !error && i < JAIL_DISKS; i++) {
        if (is_living)
            node->disk_fds[i] = fds[i];
        else
            fd_close(fds[i]);
    }
    node_handle_closed(node);
}

void node_watch_disk(struct node *node) {
    if (node->is_disk_asked || node->state >= NODE_ENDING) return;
    node->is_disk_asked = true;
    node->open_handles++;
    link_disks(node->host->link, node->name, on_disks, node);
}

/* ---- descriptors ---- */

/* The size of the folder is the number of its entries. */
static uint64_t descriptors(struct node *node) {
    char path[64];
    struct stat folder;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)vm_of(node));
    return node->vm_pid > 0 && stat(path, &folder) == 0 && folder.st_size > 0 ? (uint64_t)folder.st_size : NODE_UNKNOWN;
}

void node_usage(struct node *node, struct node_usage *ret) {
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) {
        jail_limit_set(&ret->used, i, NODE_UNKNOWN);
        jail_limit_set(&ret->fullest_percent, i, NODE_UNKNOWN);
        jail_limit_set(&ret->most, i, NODE_UNKNOWN);
    }
    ret->cpu_ns = node_cpu_ns(node);
    ret->used.memory_bytes = memory_bytes(node);
    ret->used.socket_memory_bytes = socket_memory_bytes(node);
    ret->used.descriptors = descriptors(node);
    ret->used.os_tasks = os_tasks(node);
    look_at_disk(node, ret);
}

/* "  eth0: 3225 31 0 0 0 0 0 0 2964 …" among the lines of /proc/PID/net/dev: the kernel's own count, bytes in first. */
bool node_traffic(const struct node *node, struct node_traffic *ret) {
    char directory[64], text[2048];
    unsigned long long in, out;
    snprintf(directory, sizeof directory, "/proc/%d/net", (int)node_os_pid(node));
    if (node_os_pid(node) <= 0 || !usage_read_file(directory, "dev", text, sizeof text)) return false;
    const char *line = strstr(text, "eth0:");
    if (!line || sscanf(line, "eth0: %llu %*u %*u %*u %*u %*u %*u %*u %llu", &in, &out) != 2) return false;
    *ret = (struct node_traffic){.in_bytes = in, .out_bytes = out};
    return true;
}
