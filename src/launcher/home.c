/* The instance's directory. As root it is given to the daemon's uid. An attacker may control the daemon one day: from
   then on nothing in it is opened but with that uid's rights. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "launcher/cgroup/cgroup.h"
#include "launcher/home.h"
#include "launcher/launcher.h"

enum { DEPTH_MAX = 64 };

void fs_rights_of_daemon(const struct launcher *launcher) {
    if (!launcher->root) return;
    setfsgid(launcher->daemon_gid);
    setfsuid(launcher->daemon_uid);
}

void fs_rights_restore(const struct launcher *launcher) {
    if (!launcher->root) return;
    setfsuid(geteuid());
    setfsgid(getegid());
}

static int make_directories(const char *path, struct error *reterr) {
    char prefix[PATH_MAX];
    if (string_format(prefix, sizeof prefix, reterr, "%s", path) < 0) return -1;
    for (char *slash = strchr(prefix + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(prefix, 0755);
        *slash = '/';
    }
    if (mkdir(prefix, 0711) < 0 && errno != EEXIST) return error_errno(reterr, errno, "make %s", path);
    return 0;
}

static DIR *open_listing(int directory_fd, const char *name) {
    CLEANUP_FD int fd = openat(directory_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (listing) take_fd(&fd);
    return listing;
}

/* Before root's directory is given to the daemon: a mistyped --home must not hand another one over. */
static int check_fresh(const struct launcher *launcher, struct error *reterr) {
    DIR *listing = open_listing(launcher->home.fd, ".");
    if (!listing) return error_errno(reterr, errno, "read %s", launcher->home.path);
    int failed = 0;
    for (struct dirent *entry; !failed && (entry = readdir(listing));)
        if (!home_may_hold(entry->d_name))
            failed = error_set(reterr, E_INVALID, "%s holds '%s': not a directory to run a service in",
                               launcher->home.path, entry->d_name);
    closedir(listing);
    return failed;
}

static bool is_slot_uid(uid_t uid) {
    return uid >= SLOT_UID_BASE && (uid - SLOT_UID_BASE) % SLOT_UIDS == 0 &&
           (uid - SLOT_UID_BASE) / SLOT_UIDS < SLOTS_MAX;
}

/* Give on what belonged to the uid of the home's earlier slot, and only that: a hard link to another user's file keeps
   its owner.
 */
static void give_tree(const struct launcher *launcher, int directory_fd, uid_t from, int depth) {
    DIR *listing = depth < DEPTH_MAX ? open_listing(directory_fd, ".") : NULL;
    if (!listing) return;
    for (struct dirent *entry; (entry = readdir(listing));) {
        struct stat status;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        CLEANUP_FD int fd = openat(dirfd(listing), entry->d_name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &status) < 0 || status.st_uid != from) continue;
        if (S_ISDIR(status.st_mode)) give_tree(launcher, fd, from, depth + 1);
        if (fchownat(fd, "", launcher->daemon_uid, launcher->daemon_gid, AT_EMPTY_PATH) < 0)
            log_line(&launcher->log, LOG_WARN_LEVEL, "chown_failed", "name", entry->d_name, NULL);
    }
    closedir(listing);
}

/* Before anything is changed: is it a home, or could it become one? */
static int check_ownership(const struct launcher *launcher, struct error *reterr) {
    struct stat status;
    if (fstat(launcher->home.fd, &status) < 0) return error_errno(reterr, errno, "look at %s", launcher->home.path);
    if (is_slot_uid(status.st_uid)) return 0;
    if (status.st_uid == 0) return check_fresh(launcher, reterr);
    return error_set(reterr, E_INVALID, "%s belongs to uid %u: not a directory to run root's service in",
                     launcher->home.path, status.st_uid);
}

static int give_to_daemon(const struct launcher *launcher, struct error *reterr) {
    struct stat status;
    if (fstat(launcher->home.fd, &status) < 0) return error_errno(reterr, errno, "look at %s", launcher->home.path);
    if (status.st_uid == launcher->daemon_uid) return 0;
    if (fchown(launcher->home.fd, launcher->daemon_uid, launcher->daemon_gid) < 0 ||
        fchmod(launcher->home.fd, 0711) < 0)
        return error_errno(reterr, errno, "give %s to the daemon's uid", launcher->home.path);
    if (status.st_uid != 0) give_tree(launcher, launcher->home.fd, status.st_uid, 0);
    return 0;
}

/* The daemon must get there on its own. */
static int check_reachable(const struct launcher *launcher, struct error *reterr) {
    fs_rights_of_daemon(launcher);
    CLEANUP_FD int fd = open(launcher->home.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failure = errno;
    fs_rights_restore(launcher);
    if (fd < 0)
        return error_errno(reterr, failure, "the daemon runs as uid %u and can't reach %s", launcher->daemon_uid,
                           launcher->home.path);
    return 0;
}

static int take_lock(struct launcher *launcher, struct error *reterr) {
    fs_rights_of_daemon(launcher);
    launcher->home.lock_fd =
        openat(launcher->home.fd, "launcher.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
    int failure = errno;
    fs_rights_restore(launcher);
    if (launcher->home.lock_fd < 0) return error_errno(reterr, failure, "open %s/launcher.lock", launcher->home.path);
    if (!file_lock(launcher->home.lock_fd))
        return error_set(reterr, E_CONFLICT, "another launcher serves %s", launcher->home.path);
    if (ftruncate(launcher->home.lock_fd, 0) < 0 || dprintf(launcher->home.lock_fd, "%d\n", (int)getpid()) < 0)
        return error_errno(reterr, errno, "write %s/launcher.lock", launcher->home.path);
    return 0;
}

static int open_own_records(struct launcher *launcher, struct error *reterr) {
    mkdirat(launcher->home.fd, "launcher", 0700);
    launcher->slot.records_fd = openat(launcher->home.fd, "launcher", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (launcher->slot.records_fd < 0) return error_errno(reterr, errno, "open %s/launcher", launcher->home.path);
    return 0;
}

int home_open(struct launcher *launcher, const char *path, struct error *reterr) {
    struct sockaddr_un address;
    char socket_path[PATH_MAX];
    if (make_directories(path, reterr) < 0) return -1;
    if (!realpath(path, launcher->home.path)) return error_errno(reterr, errno, "find %s", path);
    if (string_format(socket_path, sizeof socket_path, reterr, "%s/launcher.sock", launcher->home.path) < 0) return -1;
    if (strlen(socket_path) >= sizeof address.sun_path)
        return error_set(reterr, E_INVALID, "%s is too long for a socket's path", socket_path);
    launcher->home.fd = open(launcher->home.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (launcher->home.fd < 0) return error_errno(reterr, errno, "open %s", launcher->home.path);
    if (launcher->root) {
        if (check_ownership(launcher, reterr) < 0 || slot_take(launcher, reterr) < 0 ||
            give_to_daemon(launcher, reterr) < 0)
            return -1;
    } else {
        launcher->daemon_uid = geteuid();
        launcher->daemon_gid = getegid();
    }
    if (check_reachable(launcher, reterr) < 0 || take_lock(launcher, reterr) < 0) return -1;
    return launcher->root ? 0 : open_own_records(launcher, reterr);
}

void home_close(struct launcher *launcher) {
    cgroup_host_close(&launcher->cgroups);
    if (launcher->root)
        slot_give_back(launcher);
    else
        unlinkat(launcher->home.fd, "launcher", AT_REMOVEDIR);
}
