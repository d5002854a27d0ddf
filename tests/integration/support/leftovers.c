/* Finds what a service has on the machine: its processes, cgroups, mounts, network namespaces, records and files. */
#include "leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/base.h"
#include "support.h"

/* The launcher's, of src/launcher/slot.c: what each slot owns by its number. */
#define SLOTS "/run/sandbox/slots"
#define RECORDS "/run/sandbox/nodes"
#define CGROUPS "/sys/fs/cgroup"
#define NODES "sandbox"
#define DAEMON "sandbox-daemon"
enum { SLOT_UID_BASE = 1000000000, SLOT_UIDS = 65536, PROCESSES_MAX = 4096, NAMES_MAX = 512 };

struct process {
    pid_t pid;
    uint64_t start_time;
    ino_t network;  /* its network namespace */
    int network_fd; /* holds it: else another's could have its number by the time of the next look; -1: another does */
};

struct footprint {
    char home[64];
    int slot; /* -1: none */
    ino_t own_network;
    struct process processes[PROCESSES_MAX];
    size_t process_count;
    char cgroups[NAMES_MAX][64]; /* of nodes, by name */
    size_t cgroup_count;
};

/* ---- looking ---- */

static bool slot_names_home(const char *slot, const char *home) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, SLOTS "/%s", slot);
    CLEANUP_FREE char *text = read_whole(path);
    return text && strncmp(text, home, strlen(home)) == 0 && text[strlen(home)] == '\n';
}

static int find_slot(const char *home) {
    int slot = -1;
    DIR *directory = opendir(SLOTS);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (entry->d_name[0] != '.' && slot_names_home(entry->d_name, home)) slot = atoi(entry->d_name);
    if (directory) closedir(directory);
    return slot;
}

/* A field of /proc/PID/stat, from the third on: what follows the name's last parenthesis is regular. */
static const char *field_of(const char *stat, int number) {
    const char *at = stat ? strrchr(stat, ')') : NULL;
    for (int field = 2; at && field < number; field++) at = strchr(at + 1, ' ');
    return at ? at + 1 : "";
}

/* Whether or not its parent has looked at it yet. One that the kernel is about to end has nothing to do any more but to
   get its turn for that. */
static bool has_ended(const char *stat) {
    enum { EXITING = 0x4 }; /* PF_EXITING of include/linux/sched.h */
    return strchr("ZX", *field_of(stat, 3)) || strtoul(field_of(stat, 9), NULL, 10) & EXITING;
}

/* 0: it has ended. */
static uint64_t start_time_of(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    CLEANUP_FREE char *text = read_whole(path);
    return has_ended(text) ? 0 : strtoull(field_of(text, 22), NULL, 10);
}

static int open_network(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static ino_t number_of(int network_fd) {
    struct stat status;
    return network_fd >= 0 && fstat(network_fd, &status) == 0 ? status.st_ino : 0;
}

static ino_t network_of(pid_t pid) {
    CLEANUP_FD int fd = open_network(pid);
    return number_of(fd);
}

static bool names_home(pid_t pid, const char *home) {
    char path[64], line[4096];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    for (ssize_t i = 0; i + 1 < size; i++)
        if (line[i] == '\0') line[i] = ' ';
    line[size < 0 ? 0 : size] = '\0';
    return strstr(line, home) != NULL;
}

static bool has_slot_uid(pid_t pid, int slot) {
    char path[64];
    unsigned uid = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    CLEANUP_FREE char *text = read_whole(path);
    char *line = text ? strstr(text, "\nUid:") : NULL;
    if (!line || sscanf(line, "\nUid:\t%u", &uid) != 1) return false;
    unsigned first = SLOT_UID_BASE + (unsigned)slot * SLOT_UIDS;
    return slot >= 0 && uid >= first && uid < first + SLOT_UIDS;
}

static void visit_processes(void (*visit)(pid_t pid, void *data), void *data) {
    DIR *directory = opendir("/proc");
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        pid_t pid = atoi(entry->d_name);
        if (pid > 1 && pid != getpid()) visit(pid, data);
    }
    if (directory) closedir(directory);
}

static void note_process(pid_t pid, void *data) {
    struct footprint *footprint = data;
    if (!names_home(pid, footprint->home) && !has_slot_uid(pid, footprint->slot)) return;
    if (footprint->process_count == PROCESSES_MAX) return;
    CLEANUP_FD int network_fd = open_network(pid);
    ino_t network = number_of(network_fd);
    bool is_held = network == footprint->own_network;
    for (size_t i = 0; i < footprint->process_count; i++) is_held |= footprint->processes[i].network == network;
    footprint->processes[footprint->process_count++] =
        (struct process){pid, start_time_of(pid), network, is_held ? -1 : take_fd(&network_fd)};
}

/* Every cgroup of the slot, in whichever hierarchy. */
static void visit_cgroups(const char *group, int slot, void (*visit)(const char *path, const char *name, void *data),
                          void *data) {
    DIR *hierarchies = opendir(CGROUPS);
    for (struct dirent *entry; hierarchies && (entry = readdir(hierarchies));) {
        char path[PATH_MAX];
        /* "." is the root of a machine with the unified hierarchy only. */
        if (strcmp(entry->d_name, "..") == 0) continue;
        snprintf(path, sizeof path, CGROUPS "/%s/%s/%d", entry->d_name, group, slot);
        DIR *nodes = opendir(path);
        if (nodes) visit(path, "", data);
        for (struct dirent *node; nodes && (node = readdir(nodes));)
            if (node->d_type == DT_DIR && node->d_name[0] != '.') visit(path, node->d_name, data);
        if (nodes) closedir(nodes);
    }
    if (hierarchies) closedir(hierarchies);
}

/* A node has a cgroup of the same name in each hierarchy. */
static void note_cgroup(const char *path, const char *name, void *data) {
    struct footprint *footprint = data;
    (void)path;
    if (!*name || footprint->cgroup_count == NAMES_MAX) return;
    for (size_t i = 0; i < footprint->cgroup_count; i++)
        if (strcmp(footprint->cgroups[i], name) == 0) return;
    snprintf(footprint->cgroups[footprint->cgroup_count++], sizeof footprint->cgroups[0], "%s", name);
}

struct footprint *footprint_take_nodes(const char *home) {
    struct footprint *footprint = calloc(1, sizeof *footprint);
    if (!footprint) return NULL;
    snprintf(footprint->home, sizeof footprint->home, "%s", home);
    footprint->slot = find_slot(home);
    if (footprint->slot >= 0) visit_cgroups(NODES, footprint->slot, note_cgroup, footprint);
    return footprint;
}

struct footprint *footprint_take(const char *home) {
    struct footprint *footprint = footprint_take_nodes(home);
    if (!footprint) return NULL;
    footprint->own_network = network_of(getpid());
    visit_processes(note_process, footprint);
    return footprint;
}

void footprint_free(struct footprint *footprint) {
    for (size_t i = 0; footprint && i < footprint->process_count; i++) fd_close(footprint->processes[i].network_fd);
    free(footprint);
}

size_t footprint_node_count(const struct footprint *footprint) {
    return footprint->cgroup_count;
}

bool footprint_runs(const struct footprint *footprint) {
    for (size_t i = 0; i < footprint->process_count; i++)
        if (footprint->processes[i].start_time) return true;
    return false;
}

const char *footprint_node(const struct footprint *footprint, size_t index) {
    return footprint->cgroups[index];
}

bool footprint_node_holds(const struct footprint *footprint, size_t index, pid_t pid) {
    char path[64], name[80];
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    snprintf(name, sizeof name, "/%s\n", footprint->cgroups[index]);
    CLEANUP_FREE char *text = read_whole(path);
    return text && strstr(text, name);
}

bool footprint_has_node(const struct footprint *footprint, const char *name) {
    for (size_t i = 0; i < footprint->cgroup_count; i++)
        if (strcmp(footprint->cgroups[i], name) == 0) return true;
    return false;
}

static bool is_dots(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

size_t count_entries(const char *path) {
    size_t count = 0;
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) count += !is_dots(entry->d_name);
    if (directory) closedir(directory);
    return count;
}

/* A node's own, or of its egress; the egress namespace has one too. */
static bool is_of_node(const struct footprint *footprint, const char *record) {
    static const char egress[] = ".egress";
    if (strncmp(record, egress, strlen(egress)) != 0) return footprint_has_node(footprint, record);
    record += strlen(egress);
    return !*record || footprint_has_node(footprint, record + 1);
}

size_t footprint_stray_record_count(const struct footprint *footprint) {
    char path[PATH_MAX];
    size_t count = 0;
    snprintf(path, sizeof path, RECORDS "/%d", footprint->slot);
    DIR *directory = footprint->slot < 0 ? NULL : opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        count += !is_dots(entry->d_name) && !is_of_node(footprint, entry->d_name);
    if (directory) closedir(directory);
    return count;
}

void footprint_kill(const struct footprint *footprint) {
    for (size_t i = 0; i < footprint->process_count; i++)
        if (start_time_of(footprint->processes[i].pid) == footprint->processes[i].start_time)
            kill(footprint->processes[i].pid, SIGKILL);
}

/* ---- what is left ---- */

struct remains {
    const struct footprint *footprint;
    bool slot_is_free; /* no other instance has taken our number meanwhile, and none can */
    struct buf text;
};

/* With its name and state, as the kernel has them: who finds it here has only this to go by. */
static void describe_process(pid_t pid, struct buf *text) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    CLEANUP_FREE char *stat = read_whole(path);
    const char *name = stat ? strchr(stat, '(') : NULL, *end = stat ? strrchr(stat, ')') : NULL;
    buf_printf(text, "process %d %.*s\n", (int)pid, name && end ? (int)(end - name) + 3 : 0, name ? name : "");
}

static void left_process(pid_t pid, void *data) {
    struct remains *remains = data;
    const struct footprint *footprint = remains->footprint;
    uint64_t start_time = start_time_of(pid);
    ino_t network = network_of(pid);
    if (!start_time) return;
    bool is_ours = names_home(pid, footprint->home);
    if (remains->slot_is_free) is_ours |= has_slot_uid(pid, footprint->slot);
    for (size_t i = 0; i < footprint->process_count && !is_ours; i++) {
        const struct process *before = &footprint->processes[i];
        is_ours = (before->pid == pid && before->start_time == start_time) ||
                  (before->network && before->network != footprint->own_network && before->network == network);
    }
    if (is_ours) describe_process(pid, &remains->text);
}

static void left_cgroup(const char *path, const char *name, void *data) {
    struct remains *remains = data;
    bool is_ours = remains->slot_is_free;
    for (size_t i = 0; i < remains->footprint->cgroup_count; i++)
        is_ours |= strcmp(remains->footprint->cgroups[i], name) == 0;
    if (is_ours) buf_printf(&remains->text, "cgroup %s/%s\n", path, name);
}

static void left_mounts(struct remains *remains) {
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char line[8192];
    while (file && fgets(line, sizeof line, file))
        if (strstr(line, remains->footprint->home)) buf_printf(&remains->text, "mount %s", line);
    if (file) fclose(file);
}

static void left_below(struct remains *remains, const char *path) {
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            buf_printf(&remains->text, "file %s/%s\n", path, entry->d_name);
    if (directory) closedir(directory);
}

static void left_files(struct remains *remains) {
    static const char *const sockets[] = {"api.sock", "launcher.sock"};
    const struct footprint *footprint = remains->footprint;
    char path[PATH_MAX];
    for (size_t i = 0; i < ARRAY_SIZE(sockets); i++) {
        snprintf(path, sizeof path, "%s/%s", footprint->home, sockets[i]);
        if (access(path, F_OK) == 0) buf_printf(&remains->text, "socket %s\n", path);
    }
    snprintf(path, sizeof path, "%s/nodes", footprint->home);
    left_below(remains, path);
    if (!remains->slot_is_free) return;
    snprintf(path, sizeof path, RECORDS "/%d", footprint->slot);
    if (access(path, F_OK) == 0) buf_printf(&remains->text, "records %s\n", path);
}

/* While the directory is locked no launcher takes a slot, so that what is found under ours is ours. */
static int lock_slots(void) {
    int fd = open(SLOTS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) flock(fd, LOCK_EX);
    return fd;
}

char *footprint_left(const struct footprint *footprint) {
    struct remains remains = {.footprint = footprint};
    CLEANUP_FD int lock = lock_slots();
    char path[PATH_MAX];
    snprintf(path, sizeof path, SLOTS "/%d", footprint->slot);
    remains.slot_is_free = footprint->slot >= 0 && access(path, F_OK) < 0;
    if (find_slot(footprint->home) >= 0) buf_printf(&remains.text, "slot %s\n", path);
    visit_processes(left_process, &remains);
    if (footprint->slot >= 0) visit_cgroups(NODES, footprint->slot, left_cgroup, &remains);
    if (footprint->slot >= 0) visit_cgroups(DAEMON, footprint->slot, left_cgroup, &remains);
    left_mounts(&remains);
    left_files(&remains);
    if (remains.text.size > 0) return buf_take_string(&remains.text);
    buf_free(&remains.text);
    return NULL;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk) {
    (void)status, (void)type, (void)walk;
    return remove(path);
}

void remove_tree(const char *path) {
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
