/* Opening a volume may take as long as its disk likes: the kernel plays a journal back, or waits until what the last
   node has written is there. So a process of its own does it, and the request that needs the volume is carried out
   when it is open. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "launcher/project/helper.h"
#include "launcher/volumes/volumes.h"

enum { OPENING_PATIENCE_MS = 60000, AT_ONCE_OF_ONE = 4, AT_ONCE = 32 };

struct volume_opening {
    struct volume volume;
    struct request request;
    char *message; /* the request, to be carried out */
    int report_fd; /* what its helper says; -1: it waits for its turn */
    int pidfd;
    uint64_t deadline_ms;
};

/* ---- in a process of its own ---- */

/* It holds the mount until the launcher has let go of it: the last holder may have to write all that is unwritten.
 */
static void open_image(const void *data) {
    const struct volume *volume = data;
    struct error error = {0};
    CLEANUP_FD int fd = -1;
    char byte;
    volume_mount_image(HELPER_FD, volume->name, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, &fd, &error);
    if (fd_send(HELPER_FD + 1, &error, sizeof error, &fd, fd >= 0, 0) < 0 || fd < 0) return;
    while (recv(HELPER_FD + 1, &byte, 1, 0) < 0 && errno == EINTR) {
    }
}

/* ---- the launcher's side ---- */

static void forget(struct launcher *launcher, size_t index) {
    struct volume_opening *opening = launcher->volumes.openings[index];
    launcher->volumes.openings[index] = NULL;
    launcher_unwatch(launcher, opening->report_fd);
    fd_close(opening->report_fd);
    fd_close(opening->pidfd);
    free(opening->message);
    free(opening);
}

static void fail(struct launcher *launcher, size_t index, const struct error *error) {
    struct request request = launcher->volumes.openings[index]->request;
    forget(launcher, index);
    server_fail(launcher, request, error);
}

static int start(struct launcher *launcher, size_t index, struct error *reterr) {
    struct volume_opening *opening = launcher->volumes.openings[index];
    int fds[2];
    if (helper_check_dying(launcher, principals_of(&launcher->principals, opening->volume.owner), reterr) < 0)
        return -1;
    CLEANUP_FD int image_fd =
        openat(launcher->volumes.folder_fd, opening->volume.file, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (image_fd < 0) return error_errno(reterr, errno, "open the volume '%s'", opening->volume.name);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return error_errno(reterr, errno, "make a socket pair");
    opening->report_fd = fds[0];
    CLEANUP_FD int helper_fd = fds[1];
    if (helper_start(open_image, &opening->volume, (int[]){image_fd, helper_fd}, 2, &opening->pidfd, reterr) < 0)
        return -1;
    opening->deadline_ms = clock_monotonic_ms() + OPENING_PATIENCE_MS;
    launcher_due_at(launcher, opening->deadline_ms);
    return launcher_watch(launcher, opening->report_fd, SOURCE_VOLUME_OPENED, index, reterr);
}

/* Of one owner only so many at once: the others' need not wait for a slow disk's turn. */
static bool has_turn(const struct launcher *launcher, uid_t owner) {
    size_t all = 0, own = 0;
    for (size_t i = 0; i < VOLUMES_OPENING_MAX; i++) {
        const struct volume_opening *opening = launcher->volumes.openings[i];
        if (!opening || opening->report_fd < 0) continue;
        all++;
        own += opening->volume.owner == owner;
    }
    return all < AT_ONCE && own < AT_ONCE_OF_ONE;
}

static void start_waiting(struct launcher *launcher) {
    for (size_t i = 0; i < VOLUMES_OPENING_MAX; i++) {
        struct volume_opening *opening = launcher->volumes.openings[i];
        struct error error;
        if (!opening || opening->report_fd >= 0 || !has_turn(launcher, opening->volume.owner)) continue;
        if (start(launcher, i, &error) < 0) fail(launcher, i, &error);
    }
}

int volume_open(struct launcher *launcher, struct request request, const char *name, char **message,
                struct error *reterr) {
    struct volume volume;
    size_t index = 0;
    if (volume_find(launcher, name, &volume, reterr) < 0) return -1;
    while (index < VOLUMES_OPENING_MAX && launcher->volumes.openings[index]) index++;
    if (index == VOLUMES_OPENING_MAX)
        return error_set(reterr, E_LIMIT, "%d volumes are being opened already", VOLUMES_OPENING_MAX);
    struct volume_opening *opening = calloc(1, sizeof *opening);
    if (!opening || !*message) {
        free(opening);
        return error_set(reterr, E_NO_MEMORY, "no memory to open the volume '%s'", name);
    }
    *opening = (struct volume_opening){.volume = volume,
                                       .request = request,
                                       .message = *message,
                                       .report_fd = -1,
                                       .pidfd = -1,
                                       .deadline_ms = UINT64_MAX};
    *message = NULL;
    launcher->volumes.openings[index] = opening;
    start_waiting(launcher);
    return 0;
}

static int take_mount(const struct volume_opening *opening, int *ret_fd, struct error *reterr) {
    struct error report;
    CLEANUP_FD int fd = -1;
    if (fd_receive(opening->report_fd, &report, sizeof report, &fd, 1, MSG_DONTWAIT) != sizeof report)
        return error_set(reterr, E_SYSTEM, "the process that opened the volume '%s' ended early", opening->volume.name);
    if (helper_error(&report, reterr) < 0) return -1;
    if (fd < 0)
        return error_set(reterr, E_SYSTEM, "the volume '%s' was opened without its mount", opening->volume.name);
    *ret_fd = take_fd(&fd);
    return 0;
}

void volume_opened(struct launcher *launcher, size_t index) {
    struct volume_opening *opening = launcher->volumes.openings[index];
    struct error error;
    int fd = -1;
    if (!opening || opening->report_fd < 0) return;
    if (take_mount(opening, &fd, &error) < 0) {
        fail(launcher, index, &error);
    } else {
        requests_go_on(launcher, opening->request, opening->message, fd);
        fd_close(fd); /* before the helper lets go of it */
        forget(launcher, index);
    }
    start_waiting(launcher);
}

uint64_t volumes_opening_check(struct launcher *launcher, uint64_t now_ms) {
    uint64_t next_ms = UINT64_MAX;
    bool has_ended = false;
    for (size_t i = 0; i < VOLUMES_OPENING_MAX; i++) {
        struct volume_opening *opening = launcher->volumes.openings[i];
        struct error error;
        if (!opening) continue;
        if (now_ms >= opening->deadline_ms) {
            error_set(&error, E_TIMEOUT, "the volume '%s' was not opened in time", opening->volume.name);
            opening->pidfd = helper_end_of(launcher, opening->volume.owner, opening->pidfd);
            fail(launcher, i, &error);
            has_ended = true;
        } else if (opening->deadline_ms < next_ms) {
            next_ms = opening->deadline_ms;
        }
    }
    if (has_ended) start_waiting(launcher);
    return next_ms;
}

/* Helpers end by themselves, when they are let go of. */
void volumes_opening_close(struct launcher *launcher) {
    for (size_t i = 0; i < VOLUMES_OPENING_MAX; i++)
        if (launcher->volumes.openings[i]) forget(launcher, i);
}
