/* Work on volumes: making, opening and removing one. It may take as long as the disk likes: an image is written, the
   kernel plays a journal back, or waits until what the last node has written is there. So a process of its own does
   it, and the request is answered, or carried out with the open volume, when that has ended. Owners take turns.

   A mount alone makes the disk flush several times. So one volume for the next sandbox is there ahead of time, empty
   and mounted: the spare one. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/schedule/share.h"
#include "jail/plan.h"
#include "launcher/launcher.h"
#include "launcher/project/helper.h"
#include "launcher/project/project.h"
#include "launcher/volumes/volumes.h"

enum { PATIENCE_MS = 60000, END_PATIENCE_MS = 5000, AT_ONCE_OF_ONE = 4, AT_ONCE = 32 };

struct volume_work {
    enum volume_deed deed;
    struct volume volume;
    char unfinished[VOLUME_UNFINISHED_BYTES]; /* what its image is called until it is made, or a spare one is taken */
    uid_t principal;                          /* whose turn and share it takes */
    uint64_t number;                          /* of all works: the lower one is the older */
    struct request request;
    char *message; /* for VOLUME_OPEN: the request, to be carried out */
    int report_fd; /* what its process says; -1: it waits for its turn */
    int pidfd;
    int mount_fd; /* of a spare one that is ready, or was taken and is not asked for yet; -1 */
    uint64_t deadline_ms;
};

/* ---- in a process of its own ---- */

static bool report(const struct error *error, int fd) {
    return fd_send(HELPER_FD + 1, error, sizeof *error, &fd, fd >= 0, 0) >= 0;
}

/* The launcher may have gone: the next one has looked for what is unfinished, and would not look again. */
static void report_made(const struct volume_work *work, const struct error *error, int fd) {
    bool is_told = report(error, fd);
    if (!is_told || error->code != E_NONE) unlinkat(HELPER_FD, work->unfinished, 0);
}

static void make(const void *data) {
    const struct volume_work *work = data;
    struct error error = {0};
    image_make(&work->volume, work->unfinished, &error);
    report_made(work, &error, -1);
}

static void remove_image(const void *data) {
    const struct volume_work *work = data;
    struct error error = {0};
    image_remove(&work->volume, &error);
    report(&error, -1);
}

/* It holds the mount until the launcher has let go of it: the last holder may have to write all that is unwritten. */
static void hold(int fd) {
    char byte;
    while (fd >= 0 && recv(HELPER_FD + 1, &byte, 1, 0) < 0 && errno == EINTR) {
    }
}

static void open_image(const void *data) {
    const struct volume_work *work = data;
    struct error error = {0};
    CLEANUP_FD int fd = -1;
    image_mount(&work->volume, work->volume.file, &fd, &error);
    report(&error, fd);
    hold(fd);
}

static void make_spare(const void *data) {
    const struct volume_work *work = data;
    struct error error = {0};
    CLEANUP_FD int fd = -1;
    if (image_make(&work->volume, work->unfinished, &error) == 0)
        image_mount(&work->volume, work->unfinished, &fd, &error);
    report_made(work, &error, fd);
    hold(fd);
}

/* ---- the launcher's side ---- */

static void forget(struct launcher *launcher, size_t index) {
    struct volume_work *work = launcher->volumes.works[index];
    launcher->volumes.works[index] = NULL;
    launcher_unwatch(launcher, work->report_fd);
    fd_close(work->mount_fd); /* before its process lets go of it */
    fd_close(work->report_fd);
    fd_close(work->pidfd);
    free(work->message);
    free(work);
}

static void fail(struct launcher *launcher, size_t index, const struct error *error) {
    struct request request = launcher->volumes.works[index]->request;
    forget(launcher, index);
    server_fail(launcher, request, error);
}

static int start(struct launcher *launcher, size_t index, struct error *reterr) {
    static void (*const bodies[])(const void *data) = {
        [VOLUME_MAKE] = make, [VOLUME_OPEN] = open_image, [VOLUME_REMOVE] = remove_image, [VOLUME_SPARE] = make_spare};
    struct volume_work *work = launcher->volumes.works[index];
    int fds[2];
    if (helper_check_dying(launcher, work->principal, reterr) < 0) return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return error_errno(reterr, errno, "make a socket pair");
    work->report_fd = fds[0];
    CLEANUP_FD int helper_fd = fds[1];
    if (helper_start(bodies[work->deed], work, (int[]){launcher->volumes.folder_fd, helper_fd}, 2, &work->pidfd,
                     reterr) < 0)
        return -1;
    work->deadline_ms = clock_monotonic_ms() + PATIENCE_MS;
    launcher_due_at(launcher, work->deadline_ms);
    return launcher_watch(launcher, work->report_fd, SOURCE_VOLUME, index, reterr);
}

/* Of one owner only so many at once: the others' need not wait for a slow disk's turn. */
static bool has_turn(const struct launcher *launcher, uid_t principal) {
    size_t all = 0, own = 0;
    for (size_t i = 0; i < VOLUME_WORKS_MAX; i++) {
        const struct volume_work *work = launcher->volumes.works[i];
        if (!work || work->report_fd < 0 || work->mount_fd >= 0) continue;
        all++;
        own += work->principal == principal;
    }
    return all < AT_ONCE && own < AT_ONCE_OF_ONE;
}

/* The oldest that waits and has a turn; VOLUME_WORKS_MAX: there is none. */
static size_t find_next(const struct launcher *launcher) {
    struct volume_work *const *works = launcher->volumes.works;
    size_t next = VOLUME_WORKS_MAX;
    for (size_t i = 0; i < VOLUME_WORKS_MAX; i++) {
        if (!works[i] || works[i]->report_fd >= 0) continue;
        bool is_older = next == VOLUME_WORKS_MAX || works[i]->number < works[next]->number;
        if (is_older && has_turn(launcher, works[i]->principal)) next = i;
    }
    return next;
}

static void start_waiting(struct launcher *launcher) {
    struct error error;
    for (size_t i; (i = find_next(launcher)) < VOLUME_WORKS_MAX;)
        if (start(launcher, i, &error) < 0) fail(launcher, i, &error);
}

/* No other work has it, of another launcher neither: its processes may live on. */
static void name_unfinished(struct volume_work *work) {
    const char *prefix = work->deed == VOLUME_SPARE ? VOLUME_SPARE_PREFIX : ".new-";
    snprintf(work->unfinished, sizeof work->unfinished, "%s%d-%llu%s%s", prefix, (int)getpid(),
             (unsigned long long)work->number, work->volume.file[0] ? "-" : "", work->volume.file);
}

/* A free place within the owner's share of them; VOLUME_WORKS_MAX: there is none. */
static size_t find_room(const struct launcher *launcher, uid_t principal, bool is_bound) {
    struct share share = {.all = VOLUME_WORKS_MAX, .used = 1, .own = 1};
    size_t index = VOLUME_WORKS_MAX;
    for (size_t i = 0; i < VOLUME_WORKS_MAX; i++) {
        const struct volume_work *work = launcher->volumes.works[i];
        if (!work) index = i;
        share.used += work != NULL;
        share.own += work && work->principal == principal;
    }
    return share_is_fair(&share, is_bound) ? index : VOLUME_WORKS_MAX;
}

static int begin(struct launcher *launcher, enum volume_deed deed, struct request request, const struct volume *volume,
                 char **message, struct error *reterr) {
    uid_t principal = principals_of(&launcher->principals, volume->owner);
    size_t index = find_room(launcher, principal, volume->owner != 0);
    if (index == VOLUME_WORKS_MAX)
        return error_set(reterr, E_LIMIT, "too many volumes of uid %u are being worked on already", volume->owner);
    struct volume_work *work = calloc(1, sizeof *work);
    if (!work || (message && !*message)) {
        free(work);
        return error_set(reterr, E_NO_MEMORY, "no memory for work on the volume '%s'", volume->name);
    }
    *work = (struct volume_work){.deed = deed,
                                 .volume = *volume,
                                 .principal = principal,
                                 .number = launcher->volumes.works_begun++,
                                 .request = request,
                                 .message = message ? take_ptr(*message) : NULL,
                                 .report_fd = -1,
                                 .pidfd = -1,
                                 .mount_fd = -1,
                                 .deadline_ms = UINT64_MAX};
    name_unfinished(work);
    launcher->volumes.works[index] = work;
    start_waiting(launcher);
    return 0;
}

/* ---- the ends ---- */

static int take_report(const struct volume_work *work, int *ret_fd, struct error *reterr) {
    struct error report;
    CLEANUP_FD int fd = -1;
    if (fd_receive(work->report_fd, &report, sizeof report, &fd, 1, MSG_DONTWAIT) != sizeof report)
        return error_set(reterr, E_SYSTEM, "the process that worked on the volume '%s' ended early", work->volume.name);
    if (helper_error(&report, reterr) < 0) return -1;
    if ((fd >= 0) != (work->deed == VOLUME_OPEN || work->deed == VOLUME_SPARE))
        return error_set(reterr, E_SYSTEM, "the volume '%s' was opened without its mount", work->volume.name);
    *ret_fd = take_fd(&fd);
    return 0;
}

/* What was made is this volume from now on, or goes. */
static int keep(struct launcher *launcher, const struct volume_work *work, const struct volume *volume,
                struct error *reterr) {
    int folder_fd = launcher->volumes.folder_fd;
    int failed = volume_add(launcher, volume, reterr);
    if (!failed && renameat(folder_fd, work->unfinished, folder_fd, volume->file) < 0) {
        failed = error_errno(reterr, errno, "keep the image of the volume '%s'", volume->name);
        volume_forget(launcher, volume->name);
    }
    if (failed) unlinkat(folder_fd, work->unfinished, 0);
    return failed;
}

/* ---- the spare one ---- */

static void begin_spare(struct launcher *launcher, uint64_t size_bytes) {
    struct volume volume = {.size_bytes = size_bytes};
    struct error ignored; /* the next one is made when it is wanted */
    for (size_t i = 0; i < VOLUME_WORKS_MAX; i++)
        if (launcher->volumes.works[i] && launcher->volumes.works[i]->deed == VOLUME_SPARE) return;
    if (launcher->shutting_down || !image_may_be_copied(size_bytes)) return;
    snprintf(volume.name, sizeof volume.name, "%cspare", JAIL_VOLUME_PRIVATE);
    begin(launcher, VOLUME_SPARE, (struct request){0}, &volume, NULL, &ignored);
}

static void keep_spare(struct launcher *launcher, struct volume_work *work, int mount_fd) {
    work->mount_fd = mount_fd;
    work->deadline_ms = UINT64_MAX;
    launcher_unwatch(launcher, work->report_fd);
}

static void drop_spare(struct launcher *launcher, size_t index) {
    unlinkat(launcher->volumes.folder_fd, launcher->volumes.works[index]->unfinished, 0);
    forget(launcher, index);
}

/* The spare one becomes this volume, and waits for its opening. */
static bool take_spare(struct launcher *launcher, const struct volume *volume) {
    for (size_t i = 0; i < VOLUME_WORKS_MAX; i++) {
        struct volume_work *work = launcher->volumes.works[i];
        if (!work || work->deed != VOLUME_SPARE || work->mount_fd < 0) continue;
        if (work->volume.size_bytes != volume->size_bytes || keep(launcher, work, volume, NULL) < 0) {
            drop_spare(launcher, i); /* the next one has the size that is wanted now */
            return false;
        }
        work->volume = *volume;
        work->principal = principals_of(&launcher->principals, volume->owner);
        work->deed = VOLUME_OPEN;
        return true;
    }
    return false;
}

/* Taken before, and not opened yet. */
static size_t find_taken(const struct launcher *launcher, const char *name) {
    for (size_t i = 0; i < VOLUME_WORKS_MAX; i++) {
        const struct volume_work *work = launcher->volumes.works[i];
        if (work && work->deed == VOLUME_OPEN && work->mount_fd >= 0 && strcmp(work->volume.name, name) == 0) return i;
    }
    return VOLUME_WORKS_MAX;
}

static int note(struct launcher *launcher, const struct volume_work *work, struct error *reterr) {
    if (work->deed == VOLUME_MAKE) return keep(launcher, work, &work->volume, reterr);
    volume_forget(launcher, work->volume.name);
    return 0;
}

void volume_work_done(struct launcher *launcher, size_t index) {
    struct volume_work *work = launcher->volumes.works[index];
    struct error error;
    int fd = -1;
    if (!work || work->report_fd < 0 || work->mount_fd >= 0) return;
    bool is_of_a_request = work->deed == VOLUME_MAKE || work->deed == VOLUME_REMOVE;
    if (take_report(work, &fd, &error) < 0 || (is_of_a_request && note(launcher, work, &error) < 0)) {
        fail(launcher, index, &error);
    } else if (work->deed == VOLUME_SPARE) {
        keep_spare(launcher, work, fd);
    } else if (work->deed == VOLUME_OPEN) {
        requests_go_on(launcher, work->request, work->message, fd, work->volume.owner);
        fd_close(fd); /* before its process lets go of it */
        forget(launcher, index);
    } else {
        struct request request = work->request;
        forget(launcher, index);
        server_ok(launcher, request, "", NULL, 0);
    }
    start_waiting(launcher);
}

uint64_t volumes_check(struct launcher *launcher, uint64_t now_ms) {
    uint64_t next_ms = UINT64_MAX;
    bool has_ended = false;
    for (size_t i = 0; i < VOLUME_WORKS_MAX; i++) {
        struct volume_work *work = launcher->volumes.works[i];
        struct error error;
        if (!work) continue;
        if (now_ms >= work->deadline_ms) {
            error_set(&error, E_TIMEOUT, "the disk of the volume '%s' did not answer in time", work->volume.name);
            work->pidfd = helper_end_of(launcher, work->volume.owner, work->pidfd);
            fail(launcher, i, &error);
            has_ended = true;
        } else if (work->deadline_ms < next_ms) {
            next_ms = work->deadline_ms;
        }
    }
    if (has_ended) start_waiting(launcher);
    return next_ms;
}

static void unmake(struct launcher *launcher, size_t index) {
    struct volume_work *work = launcher->volumes.works[index];
    char blank[VOLUME_UNFINISHED_BYTES];
    work->pidfd = helper_end(work->pidfd);
    if (work->report_fd >= 0) {
        image_name_blank(work->unfinished, blank);
        unlinkat(launcher->volumes.folder_fd, blank, 0);
        unlinkat(launcher->volumes.folder_fd, work->unfinished, 0);
    }
    forget(launcher, index);
}

void volumes_call_off(struct launcher *launcher) {
    for (size_t i = 0; i < VOLUME_WORKS_MAX; i++)
        if (launcher->volumes.works[i] && launcher->volumes.works[i]->deed == VOLUME_MAKE) unmake(launcher, i);
    start_waiting(launcher);
}

/* Let go of, they end by themselves: the last holder of a mount writes what is unwritten. A service that has ended has
   nothing mounted, unless its disk does not answer. */
static void await_end(struct launcher *launcher, size_t index, uint64_t until_ms) {
    struct volume_work *work = launcher->volumes.works[index];
    struct pollfd end = {.fd = take_fd(&work->pidfd), .events = POLLIN};
    char unfinished[VOLUME_UNFINISHED_BYTES];
    snprintf(unfinished, sizeof unfinished, "%s", work->unfinished);
    forget(launcher, index);
    uint64_t now_ms = clock_monotonic_ms();
    if (end.fd >= 0) poll(&end, 1, now_ms < until_ms ? (int)(until_ms - now_ms) : 0);
    unlinkat(launcher->volumes.folder_fd, unfinished, 0); /* it may have been made meanwhile */
    fd_close(end.fd);
}

void volumes_close(struct launcher *launcher) {
    uint64_t until_ms = clock_monotonic_ms() + END_PATIENCE_MS;
    for (size_t i = 0; i < VOLUME_WORKS_MAX; i++)
        if (launcher->volumes.works[i]) await_end(launcher, i, until_ms);
    launcher->volumes.folder_fd = fd_close(launcher->volumes.folder_fd);
    free(launcher->volumes.known);
    launcher->volumes.known = NULL;
}

/* ---- what is asked for ---- */

static bool is_under_way(const struct launcher *launcher, enum volume_deed deed, const char *name) {
    for (size_t i = 0; i < VOLUME_WORKS_MAX; i++) {
        const struct volume_work *work = launcher->volumes.works[i];
        if (work && work->deed == deed && strcmp(work->volume.name, name) == 0) return true;
    }
    return false;
}

static int check(const struct launcher *launcher, const struct volume *volume, struct error *reterr) {
    const char *name = volume->name;
    uint64_t size_bytes = volume->size_bytes;
    if (!(launcher->features.guarantees & 1u << JAIL_GUARANTEE_VOLUMES))
        return error_set(reterr, E_GUARANTEE, "there are no volumes here: they take root, loop devices and mkfs.ext4");
    if (size_bytes < JAIL_VOLUME_LEAST || size_bytes > JAIL_VOLUME_MOST)
        return error_set(reterr, E_INVALID, "a volume of %llu bytes is out of bounds", (unsigned long long)size_bytes);
    if (volume_find(launcher, name) || is_under_way(launcher, VOLUME_MAKE, name))
        return error_set(reterr, E_EXISTS, "there is a volume '%s' already", name);
    return volumes_check_room(launcher, volume, reterr);
}

void volume_make(struct launcher *launcher, struct request request, int peer_fd, const char *name,
                 uint64_t size_bytes) {
    struct error error;
    struct caller caller;
    struct volume volume = {.size_bytes = size_bytes};
    int failed = project_caller(launcher, peer_fd, &caller, &error);
    if (!failed) {
        volume.owner = caller.uid;
        snprintf(volume.name, sizeof volume.name, "%s", name);
        volume_name_file(name, caller.uid, volume.file);
        failed = check(launcher, &volume, &error);
    }
    if (!failed) {
        bool is_taken = volume_is_private(name) && take_spare(launcher, &volume);
        if (is_taken)
            server_ok(launcher, request, "", NULL, 0);
        else
            failed = begin(launcher, VOLUME_MAKE, request, &volume, NULL, &error);
    }
    if (failed)
        server_fail(launcher, request, &error);
    else if (volume_is_private(name))
        begin_spare(launcher, size_bytes);
}

/* Once: a second removal would take what is made under the name after the first. */
static int check_removal(const struct launcher *launcher, int peer_fd, const char *name, struct volume *ret,
                         struct error *reterr) {
    struct caller caller = {0};
    const struct volume *volume = volume_find(launcher, name);
    if (!volume_is_private(name) && project_caller(launcher, peer_fd, &caller, reterr) < 0) return -1;
    if (!volume || (caller.uid != volume->owner && caller.uid != 0) || is_under_way(launcher, VOLUME_REMOVE, name))
        return error_set(reterr, E_NOT_FOUND, "there is no volume '%s'", name);
    *ret = *volume;
    return 0;
}

void volume_remove(struct launcher *launcher, struct request request, int peer_fd, const char *name) {
    struct error error;
    struct volume volume;
    int failed = check_removal(launcher, peer_fd, name, &volume, &error);
    size_t taken = failed ? VOLUME_WORKS_MAX : find_taken(launcher, name);
    if (taken < VOLUME_WORKS_MAX) forget(launcher, taken);
    if (!failed) failed = begin(launcher, VOLUME_REMOVE, request, &volume, NULL, &error);
    if (failed) server_fail(launcher, request, &error);
}

int volume_open(struct launcher *launcher, struct request request, const char *name, char **message,
                struct error *reterr) {
    const struct volume *volume = volume_find(launcher, name);
    if (!volume) return error_set(reterr, E_NOT_FOUND, "there is no volume '%s'", name);
    size_t taken = find_taken(launcher, name);
    if (taken < VOLUME_WORKS_MAX && *message) {
        const struct volume_work *work = launcher->volumes.works[taken];
        requests_go_on(launcher, request, *message, work->mount_fd, work->volume.owner);
        forget(launcher, taken);
        return 0;
    }
    return begin(launcher, VOLUME_OPEN, request, volume, message, reterr);
}
