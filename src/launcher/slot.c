/* A slot is a number that one home has on this machine, and with it 65,536 uids and a cgroup name. Its file, locked
   while the launcher lives, holds the home's path. The directory's own lock makes choosing one atomic. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "launcher/home.h"
#include "launcher/launcher.h"

static const char run_directory[] = "/run/sandbox";

_Static_assert(SLOT_UID_BASE + (uint64_t)SLOTS_MAX * SLOT_UIDS < UINT32_MAX, "uids have 32 bits");

static int open_directory(const char *name, mode_t mode, struct error *reterr) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", run_directory, name);
    if ((mkdir(run_directory, 0755) < 0 || mkdir(path, mode) < 0) && errno == EEXIST) mkdir(path, mode);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) error_errno(reterr, errno, "open %s", path);
    return fd;
}

static int open_locked_slots(struct error *reterr) {
    CLEANUP_FD int fd = open_directory("slots", 0700, reterr);
    if (fd < 0) return -1;
    if (flock(fd, LOCK_EX) < 0) return error_errno(reterr, errno, "lock %s/slots", run_directory);
    return take_fd(&fd);
}

static void read_home(int fd, char ret[PATH_MAX]) {
    ssize_t size = pread(fd, ret, PATH_MAX - 1, 0);
    ret[size > 0 ? size : 0] = '\0';
    ret[strcspn(ret, "\n")] = '\0';
}

/* 1 when the slot's file is ours from now on, 0 when it is another's, negative when our home is served already. */
static int try_slot(struct launcher *launcher, int slots_fd, unsigned slot, struct error *reterr) {
    char name[16], home[PATH_MAX];
    snprintf(name, sizeof name, "%u", slot);
    CLEANUP_FD int fd = openat(slots_fd, name, O_RDWR | O_CLOEXEC | O_CREAT, 0600);
    if (fd < 0) return error_errno(reterr, errno, "open %s/slots/%s", run_directory, name);
    read_home(fd, home);
    bool is_own = strcmp(home, launcher->home.path) == 0;
    if (!file_lock(fd))
        return is_own ? error_set(reterr, E_CONFLICT, "another launcher serves %s", launcher->home.path) : 0;
    /* A home that exists may be served again and then wants the uids that its files have. */
    if (!is_own && *home && access(home, F_OK) == 0) return 0;
    launcher->slot.number = slot;
    launcher->slot.fd = take_fd(&fd);
    return 1;
}

static bool is_slot_of(int slots_fd, const char *name, const char *home) {
    char text[PATH_MAX];
    CLEANUP_FD int fd = openat(slots_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    read_home(fd, text);
    return strcmp(text, home) == 0;
}

/* The slot that this home has already; SLOTS_MAX when it has none. */
static unsigned find_own(const struct launcher *launcher, int slots_fd) {
    uint64_t found = SLOTS_MAX, slot;
    int fd = openat(slots_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (!listing) {
        fd_close(fd);
        return SLOTS_MAX;
    }
    for (struct dirent *entry; found == SLOTS_MAX && (entry = readdir(listing));)
        if (parse_u64(entry->d_name, &slot) && slot < SLOTS_MAX &&
            is_slot_of(slots_fd, entry->d_name, launcher->home.path))
            found = slot;
    closedir(listing);
    return (unsigned)found;
}

/* By the home's name rather than the first that is free, so that it gets the same again after a restart of the
   machine, and no other home the uid that its files have. */
static unsigned preferred(const struct launcher *launcher) {
    uint32_t hash = 2166136261u;
    for (const char *at = launcher->home.path; *at; at++) hash = (hash ^ (uint8_t)*at) * 16777619u;
    return hash % SLOTS_MAX;
}

static int find_slot(struct launcher *launcher, int slots_fd, struct error *reterr) {
    unsigned own = find_own(launcher, slots_fd);
    unsigned first = own < SLOTS_MAX ? own : preferred(launcher);
    for (unsigned i = 0; i < SLOTS_MAX; i++) {
        int taken = try_slot(launcher, slots_fd, (first + i) % SLOTS_MAX, reterr);
        if (taken != 0) return taken < 0 ? taken : 0;
    }
    return error_set(reterr, E_LIMIT, "all %d slots are taken", SLOTS_MAX);
}

static void remove_records(int records_fd) {
    int fd = openat(records_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory) {
        fd_close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(directory));) unlinkat(records_fd, entry->d_name, 0);
    closedir(directory);
}

static int open_records(struct launcher *launcher, struct error *reterr) {
    char name[16];
    CLEANUP_FD int nodes_fd = open_directory("nodes", 0700, reterr);
    if (nodes_fd < 0) return -1;
    snprintf(name, sizeof name, "%u", launcher->slot.number);
    mkdirat(nodes_fd, name, 0700);
    launcher->slot.records_fd = openat(nodes_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (launcher->slot.records_fd < 0) return error_errno(reterr, errno, "open the records of slot %s", name);
    return 0;
}

int slot_take(struct launcher *launcher, struct error *reterr) {
    char home[PATH_MAX];
    CLEANUP_FD int slots_fd = open_locked_slots(reterr);
    if (slots_fd < 0 || find_slot(launcher, slots_fd, reterr) < 0 || open_records(launcher, reterr) < 0) return -1;
    read_home(launcher->slot.fd, home);
    if (strcmp(home, launcher->home.path) != 0) {
        /* Whatever runs under this slot was a home's that is gone; without its record it is not adopted but killed. */
        remove_records(launcher->slot.records_fd);
        if (ftruncate(launcher->slot.fd, 0) < 0 || dprintf(launcher->slot.fd, "%s\n", launcher->home.path) < 0)
            return error_errno(reterr, errno, "write slot %u", launcher->slot.number);
    }
    launcher->daemon_uid = SLOT_UID_BASE + launcher->slot.number * SLOT_UIDS;
    launcher->daemon_gid = launcher->daemon_uid;
    return 0;
}

void slot_give_back(struct launcher *launcher) {
    char name[16], path[PATH_MAX];
    CLEANUP_FD int slots_fd = open_locked_slots(NULL);
    remove_records(launcher->slot.records_fd);
    snprintf(path, sizeof path, "%s/nodes/%u", run_directory, launcher->slot.number);
    rmdir(path);
    snprintf(name, sizeof name, "%u", launcher->slot.number);
    if (slots_fd >= 0) unlinkat(slots_fd, name, 0);
}
