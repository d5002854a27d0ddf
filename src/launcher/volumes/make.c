/* Making a volume: a file of holes, which a process of its own makes a file system of. It has its name when it is
   whole; a launcher that is killed meanwhile leaves one that its successor removes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/plan.h"
#include "launcher/launcher.h"
#include "launcher/privileges.h"
#include "launcher/project/helper.h"
#include "launcher/project/project.h"
#include "launcher/volumes/volumes.h"

enum { MAKING_PATIENCE_MS = 30000 };

static const char *const programs[] = {"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"};

static const char *find_program(void) {
    for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
        if (access(programs[i], X_OK) == 0) return programs[i];
    return NULL;
}

bool volumes_are_possible(void) {
    return find_program() && access("/dev/loop-control", R_OK | W_OK) == 0;
}

/* ---- in a process of its own ---- */

/* It needs no rights but to write the image. Nothing is kept for root, and what can wait is made when it is used. */
static _Noreturn void run_mkfs(void) {
    char image[32], owner[64];
    const char *program = find_program();
    snprintf(image, sizeof image, "/proc/self/fd/%d", HELPER_FD);
    snprintf(owner, sizeof owner, "root_owner=%d:%d,lazy_itable_init=1", VOLUME_OWNER_INSIDE, VOLUME_OWNER_INSIDE);
    const char *const words[] = {"mkfs.ext4", "-q", "-F", "-m", "0", "-E", owner, image, NULL};
    const char *const environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    CLEANUP_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct error ignored;
    if (program && null_fd >= 0 && fcntl(HELPER_FD, F_SETFD, 0) == 0 && dup2(null_fd, STDOUT_FILENO) >= 0 &&
        dup2(null_fd, STDERR_FILENO) >= 0 && privileges_drop_bounding(&ignored) == 0 &&
        privileges_drop_all(&ignored) == 0)
        execve(program, (char *const *)words, (char *const *)environment);
    _exit(EXIT_FAILURE);
}

static int make_file_system(struct error *reterr) {
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) run_mkfs();
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return error_errno(reterr, errno, "start mkfs.ext4");
    if (status == 0) return 0;
    return error_set(reterr, E_SYSTEM, "mkfs.ext4 made no file system of the image (status %x)", (unsigned)status);
}

/* Programs such as databases want an empty folder. */
static int remove_lost_and_found(const char *name, struct error *reterr) {
    CLEANUP_FD int fd = -1;
    if (volume_mount_image(HELPER_FD, name, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, &fd, reterr) < 0)
        return -1;
    unlinkat(fd, "lost+found", AT_REMOVEDIR);
    return 0;
}

static void make(const void *data) {
    const struct volume *volume = data;
    struct error error = {0};
    if (make_file_system(&error) == 0) remove_lost_and_found(volume->name, &error);
    fd_send(HELPER_FD + 1, &error, sizeof error, NULL, 0, 0);
}

/* ---- the launcher's side ---- */

static void name_unfinished(const struct volume *volume, char ret[VOLUME_FILE_BYTES + 8]) {
    snprintf(ret, VOLUME_FILE_BYTES + 8, ".new-%s", volume->name);
}

static struct volume_making *find_room(struct launcher *launcher, const char *name, struct error *reterr) {
    struct volume_making *free_entry = NULL;
    for (size_t i = 0; i < JAIL_VOLUMES_MAKING_MAX; i++) {
        struct volume_making *making = &launcher->volumes.making[i];
        if (making->under_way && strcmp(making->volume.name, name) == 0) {
            error_set(reterr, E_EXISTS, "a volume '%s' is being made", name);
            return NULL;
        }
        if (!making->under_way) free_entry = making;
    }
    if (!free_entry) error_set(reterr, E_LIMIT, "%d volumes are being made already", JAIL_VOLUMES_MAKING_MAX);
    return free_entry;
}

static size_t count(const struct launcher *launcher) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    size_t lines = 0;
    volumes_print(launcher, &text, NULL);
    for (size_t i = 0; i < text.size; i++) lines += text.data[i] == '\n';
    return lines;
}

static int check(const struct launcher *launcher, const char *name, uint64_t size_bytes, struct error *reterr) {
    struct volume other;
    if (!(launcher->features.guarantees & 1u << JAIL_GUARANTEE_VOLUMES))
        return error_set(reterr, E_GUARANTEE, "there are no volumes here: they take root, loop devices and mkfs.ext4");
    if (size_bytes < JAIL_VOLUME_LEAST || size_bytes > JAIL_VOLUME_MOST)
        return error_set(reterr, E_INVALID, "a volume of %llu bytes is out of bounds", (unsigned long long)size_bytes);
    if (volume_find(launcher, name, &other, NULL) == 0)
        return error_set(reterr, E_EXISTS, "there is a volume '%s' already", name);
    if (count(launcher) >= JAIL_VOLUMES_MAX)
        return error_set(reterr, E_LIMIT, "there are %d volumes already", JAIL_VOLUMES_MAX);
    return 0;
}

static void end(struct launcher *launcher, struct volume_making *making) {
    char file[VOLUME_FILE_BYTES + 8];
    name_unfinished(&making->volume, file);
    unlinkat(launcher->volumes.folder_fd, file, 0);
    launcher_unwatch(launcher, making->report_fd);
    helper_end(making->pidfd);
    fd_close(making->report_fd);
    *making = (struct volume_making){.report_fd = -1, .pidfd = -1};
}

static void end_failed(struct launcher *launcher, struct volume_making *making, const struct error *error) {
    struct request request = making->request;
    end(launcher, making);
    server_fail(launcher, request, error);
}

static int start(struct launcher *launcher, struct volume_making *making, struct error *reterr) {
    int fds[2];
    char file[VOLUME_FILE_BYTES + 8];
    name_unfinished(&making->volume, file);
    CLEANUP_FD int image_fd =
        openat(launcher->volumes.folder_fd, file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (image_fd < 0 || ftruncate(image_fd, (off_t)making->volume.size_bytes) < 0)
        return error_errno(reterr, errno, "make the volume '%s'", making->volume.name);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return error_errno(reterr, errno, "make a socket pair");
    making->report_fd = fds[0];
    CLEANUP_FD int helper_fd = fds[1];
    if (helper_start(make, &making->volume, (int[]){image_fd, helper_fd}, 2, &making->pidfd, reterr) < 0) return -1;
    return launcher_watch(launcher, making->report_fd, SOURCE_VOLUME, (size_t)(making - launcher->volumes.making),
                          reterr);
}

void volume_make(struct launcher *launcher, struct request request, int peer_fd, const char *name,
                 uint64_t size_bytes) {
    struct error error;
    struct caller caller;
    struct volume_making *making = NULL;
    if (project_caller(launcher, peer_fd, &caller, &error) == 0 && check(launcher, name, size_bytes, &error) == 0)
        making = find_room(launcher, name, &error);
    if (!making) {
        server_fail(launcher, request, &error);
        return;
    }
    *making = (struct volume_making){.under_way = true,
                                     .request = request,
                                     .volume = {.owner = caller.uid, .size_bytes = size_bytes},
                                     .report_fd = -1,
                                     .pidfd = -1,
                                     .deadline_ms = clock_monotonic_ms() + MAKING_PATIENCE_MS};
    snprintf(making->volume.name, sizeof making->volume.name, "%s", name);
    volume_name_file(name, caller.uid, making->volume.file);
    launcher_due_at(launcher, making->deadline_ms);
    if (start(launcher, making, &error) < 0) end_failed(launcher, making, &error);
}

static int finish(const struct launcher *launcher, const struct volume_making *making, struct error *reterr) {
    struct error report;
    char file[VOLUME_FILE_BYTES + 8];
    if (fd_receive(making->report_fd, &report, sizeof report, NULL, 0, MSG_DONTWAIT) != sizeof report)
        return error_set(reterr, E_SYSTEM, "the process that made the volume '%s' ended early", making->volume.name);
    if (helper_error(&report, reterr) < 0) return -1;
    name_unfinished(&making->volume, file);
    if (renameat(launcher->volumes.folder_fd, file, launcher->volumes.folder_fd, making->volume.file) < 0)
        return error_errno(reterr, errno, "keep the volume '%s'", making->volume.name);
    return 0;
}

void volume_made(struct launcher *launcher, size_t index) {
    struct error error;
    struct volume_making *making = &launcher->volumes.making[index];
    if (!making->under_way) return;
    if (finish(launcher, making, &error) < 0) {
        end_failed(launcher, making, &error);
        return;
    }
    struct request request = making->request;
    end(launcher, making);
    server_ok(launcher, request, "", NULL, 0);
}

uint64_t volumes_check(struct launcher *launcher, uint64_t now_ms) {
    uint64_t next_ms = UINT64_MAX;
    for (size_t i = 0; i < JAIL_VOLUMES_MAKING_MAX; i++) {
        struct volume_making *making = &launcher->volumes.making[i];
        struct error error;
        if (!making->under_way) continue;
        if (now_ms >= making->deadline_ms) {
            error_set(&error, E_TIMEOUT, "the volume '%s' was not made in time", making->volume.name);
            end_failed(launcher, making, &error);
        } else if (making->deadline_ms < next_ms) {
            next_ms = making->deadline_ms;
        }
    }
    return next_ms;
}

void volumes_call_off(struct launcher *launcher) {
    for (size_t i = 0; i < JAIL_VOLUMES_MAKING_MAX; i++)
        if (launcher->volumes.making[i].under_way) end(launcher, &launcher->volumes.making[i]);
}

void volumes_close(struct launcher *launcher) {
    volumes_call_off(launcher);
    volumes_opening_close(launcher);
    launcher->volumes.folder_fd = fd_close(launcher->volumes.folder_fd);
}
