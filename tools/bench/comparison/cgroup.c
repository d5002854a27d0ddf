/* What processes use, as the kernel accounts for it. Both versions of cgroups. */
#include "rows.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REMOVE_LOOK_MS = 20, REMOVE_LOOKS_MAX = 500 };

static bool read_text(const char *path, char *ret, size_t size) {
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = fd < 0 ? -1 : read(fd, ret, size - 1);
    if (count < 0) return false;
    ret[count] = '\0';
    return true;
}

static double read_number(const char *folder, const char *name, double otherwise) {
    char path[PATH_MAX], text[64];
    if (string_format(path, sizeof path, NULL, "%s/%s", folder, name) < 0) return otherwise;
    return read_text(path, text, sizeof text) ? strtod(text, NULL) : otherwise;
}

/* "7:memory:/sandbox/3/n1" on v1, "0::/sandbox/3/n1" on v2. */
static void folder_of(const char *process, const char *controller, char ret[PATH_MAX]) {
    char path[64], text[4096], *rest = text, *line;
    snprintf(path, sizeof path, "/proc/%s/cgroup", process);
    if (!read_text(path, text, sizeof text)) bench_end(path, strerror(errno));
    while ((line = strsep(&rest, "\n"))) {
        char *names = strchr(line, ':'), *at = names ? strchr(++names, ':') : NULL;
        if (!at) continue;
        *at++ = '\0';
        if (names[0] && !strstr(names, controller)) continue;
        if (string_format(ret, PATH_MAX, NULL, "/sys/fs/cgroup%s%s%s", names[0] ? "/" : "", names[0] ? controller : "",
                          at) == 0)
            return;
    }
    bench_end("cgroups", "there is no such controller");
}

static double memory_in(const char *folder) {
    return read_number(folder, "memory.usage_in_bytes", read_number(folder, "memory.current", 0));
}

double bench_memory_of(pid_t pid) {
    char process[16], folder[PATH_MAX];
    snprintf(process, sizeof process, "%d", (int)pid);
    folder_of(process, "memory", folder);
    return memory_in(folder);
}

/* ---- a cgroup of our own ---- */

static void own_folder(char ret[PATH_MAX]) {
    struct stat status;
    bool is_v1 = stat("/sys/fs/cgroup/memory", &status) == 0;
    snprintf(ret, PATH_MAX, "/sys/fs/cgroup%s/bench-%d", is_v1 ? "/memory" : "", (int)getpid());
}

static void join(const char *folder) {
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/cgroup.procs", folder);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) < 0) bench_end(path, strerror(errno));
}

void bench_cgroup_enter(void) {
    char folder[PATH_MAX];
    own_folder(folder);
    if (mkdir(folder, 0755) < 0 && errno != EEXIST) bench_end(folder, strerror(errno));
    join(folder);
}

double bench_cgroup_bytes(void) {
    char folder[PATH_MAX];
    own_folder(folder);
    return memory_in(folder);
}

void bench_cgroup_leave(void) {
    char folder[PATH_MAX];
    own_folder(folder);
    *strrchr(folder, '/') = '\0';
    join(folder);
}

void bench_cgroup_remove(void) {
    char folder[PATH_MAX];
    own_folder(folder);
    for (int i = 0; i < REMOVE_LOOKS_MAX && rmdir(folder) < 0; i++) poll(NULL, 0, REMOVE_LOOK_MS);
}

/* ---- CPU time ---- */

static double process_cpu_ms(const char *home, const char *lock) {
    char path[PATH_MAX], text[1024], *rest;
    unsigned long user, system;
    snprintf(path, sizeof path, "%s/%s", home, lock);
    if (!read_text(path, text, sizeof text)) bench_end(path, strerror(errno));
    snprintf(path, sizeof path, "/proc/%d/stat", atoi(text));
    if (!read_text(path, text, sizeof text) || !(rest = strrchr(text, ')'))) bench_end(path, "it can't be read");
    if (sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2) return 0;
    return (double)(user + system) * 1000 / (double)sysconf(_SC_CLK_TCK);
}

/* All nodes are beside one another in one cgroup. */
static double nodes_cpu_ms(pid_t node) {
    char process[16], folder[PATH_MAX], path[PATH_MAX + 16], text[1024];
    snprintf(process, sizeof process, "%d", (int)node);
    folder_of(process, "cpuacct", folder);
    *strrchr(folder, '/') = '\0';
    double v1_ns = read_number(folder, "cpuacct.usage", -1);
    if (v1_ns >= 0) return v1_ns / 1e6;
    snprintf(path, sizeof path, "%s/cpu.stat", folder);
    const char *usage = read_text(path, text, sizeof text) ? strstr(text, "usage_usec ") : NULL;
    return usage ? strtod(usage + strlen("usage_usec "), NULL) / 1000 : 0;
}

double bench_cpu_ms(const struct sbx *service, pid_t node) {
    const char *home = sbx_home(service);
    return process_cpu_ms(home, "daemon.lock") + process_cpu_ms(home, "launcher.lock") + nodes_cpu_ms(node);
}
