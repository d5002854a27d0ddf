/* User namespaces: maps of a node's, and small ones for idmapped mounts, which are kept for a while. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "launcher/start/userns.h"

static int write_proc(pid_t pid, const char *name, const char *text, struct error *reterr) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) return error_errno(reterr, errno, "write %s", path);
    return 0;
}

static int write_map(pid_t pid, const char *name, unsigned inside, unsigned outside, struct error *reterr) {
    char line[64];
    snprintf(line, sizeof line, "%u %u 1\n", inside, outside);
    return write_proc(pid, name, line, reterr);
}

int userns_write_maps(pid_t pid, const struct userns_map *map, bool root, struct error *reterr) {
    /* Without root the kernel wants to know first that groups can't be dropped in there. */
    if (!root && write_proc(pid, "setgroups", "deny", reterr) < 0) return -1;
    if (write_map(pid, "uid_map", map->inside_uid, map->outside_uid, reterr) < 0) return -1;
    return write_map(pid, "gid_map", map->inside_gid, map->outside_gid, reterr);
}

/* A namespace needs a process to be made by; it stays until the descriptor is open, and does nothing. It has nothing
   of the launcher's and ends with it: otherwise locks and link would outlive a launcher that is killed meanwhile. */
static pid_t start_idle(void) {
    struct clone_args arguments = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    pid_t launcher = getpid();
    pid_t pid = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid != 0) return pid;
    close_range(0, ~0U, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    while (getppid() == launcher) pause();
    _exit(EXIT_SUCCESS);
}

int userns_make(const struct userns_map *map, int *ret_fd, struct error *reterr) {
    char path[64];
    pid_t pid = start_idle();
    if (pid < 0) return error_errno(reterr, errno, "make a user namespace");
    int failed = userns_write_maps(pid, map, true, reterr);
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    int fd = failed ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (!failed && fd < 0) failed = error_errno(reterr, errno, "open %s", path);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    if (failed) return failed;
    *ret_fd = fd;
    return 0;
}

static bool is_same(const struct userns_map *one, const struct userns_map *other) {
    return one->inside_uid == other->inside_uid && one->outside_uid == other->outside_uid &&
           one->inside_gid == other->inside_gid && one->outside_gid == other->outside_gid;
}

int userns_get(struct userns_cache *cache, const struct userns_map *map, struct error *reterr) {
    for (size_t i = 0; i < USERNS_KEPT; i++)
        if (cache->entries[i].is_used && is_same(&cache->entries[i].map, map)) return cache->entries[i].fd;
    struct userns_entry entry = {.is_used = true, .map = *map};
    if (userns_make(map, &entry.fd, reterr) < 0) return -1;
    struct userns_entry *place = &cache->entries[cache->next++ % USERNS_KEPT];
    if (place->is_used) fd_close(place->fd);
    *place = entry;
    return entry.fd;
}

void userns_cache_free(struct userns_cache *cache) {
    for (size_t i = 0; i < USERNS_KEPT; i++)
        if (cache->entries[i].is_used) fd_close(cache->entries[i].fd);
    *cache = (struct userns_cache){0};
}
