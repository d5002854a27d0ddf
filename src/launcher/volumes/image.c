/* Images of volumes, worked on by a process of its own. Making a file system takes some 7 ms, and copying an empty one
   a tenth of a millisecond: of the sizes that sandboxes' own mostly have, an empty one is kept. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "launcher/privileges.h"
#include "launcher/project/helper.h"
#include "launcher/volumes/volumes.h"

#define PRIVATE_MOUNT (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)
#define BLANK_MOST (8 * JAIL_VOLUME_LEAST) /* and a multiple of the least, so they are few */

static const char *const programs[] = {"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"};

static const char *find_program(void) {
    for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
        if (access(programs[i], X_OK) == 0) return programs[i];
    return NULL;
}

bool volumes_are_possible(void) {
    return find_program() && access("/dev/loop-control", R_OK | W_OK) == 0;
}

void image_name_blank(const char *unfinished, char ret[VOLUME_UNFINISHED_BYTES]) {
    snprintf(ret, VOLUME_UNFINISHED_BYTES, ".new-blank%.*s", VOLUME_UNFINISHED_BYTES - 16, unfinished);
}

/* One that was given up by its maker may still be written to: this is another file. */
static int create(const char *file, uint64_t size_bytes, int *ret_fd, struct error *reterr) {
    unlinkat(HELPER_FD, file, 0);
    CLEANUP_FD int fd = openat(HELPER_FD, file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size_bytes) < 0) return error_errno(reterr, errno, "make an image");
    *ret_fd = take_fd(&fd);
    return 0;
}

/* ---- mkfs ---- */

/* It needs no rights but to write the image. Nothing is kept for root, and what can wait is made when it is used. A
   small one's journal takes a sixteenth of it at most. */
static _Noreturn void run_mkfs(int image_fd, uint64_t size_bytes) {
    char image[32], options[128];
    const char *program = find_program();
    snprintf(image, sizeof image, "/proc/self/fd/%d", image_fd);
    snprintf(options, sizeof options, "root_owner=%d:%d,lazy_itable_init=1,lazy_journal_init=1", VOLUME_OWNER_INSIDE,
             VOLUME_OWNER_INSIDE);
    const char *const words[] = {
        "mkfs.ext4", "-q", "-F", "-m", "0", "-E", options, size_bytes <= BLANK_MOST ? "-Jsize=1" : "-q", image, NULL};
    const char *const environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    CLEANUP_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct error ignored;
    if (program && null_fd >= 0 && fcntl(image_fd, F_SETFD, 0) == 0 && dup2(null_fd, STDOUT_FILENO) >= 0 &&
        dup2(null_fd, STDERR_FILENO) >= 0 && close_range(HELPER_FD, HELPER_FD + 1, CLOSE_RANGE_CLOEXEC) == 0 &&
        privileges_drop_bounding(&ignored) == 0 && privileges_drop_all(&ignored) == 0)
        execve(program, (char *const *)words, (char *const *)environment);
    _exit(EXIT_FAILURE);
}

static int run(int image_fd, uint64_t size_bytes, struct error *reterr) {
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) run_mkfs(image_fd, size_bytes);
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return error_errno(reterr, errno, "start mkfs.ext4");
    if (status == 0) return 0;
    return error_set(reterr, E_SYSTEM, "mkfs.ext4 made no file system of the image (status %x)", (unsigned)status);
}

/* Programs such as databases want an empty folder. */
static int remove_lost_and_found(int image_fd, struct error *reterr) {
    CLEANUP_FD int fd = -1;
    if (volume_mount_image(image_fd, "new", PRIVATE_MOUNT, &fd, reterr) < 0) return -1;
    unlinkat(fd, "lost+found", AT_REMOVEDIR);
    return 0;
}

static int make_file_system(int image_fd, uint64_t size_bytes, struct error *reterr) {
    if (run(image_fd, size_bytes, reterr) < 0) return -1;
    return remove_lost_and_found(image_fd, reterr);
}

/* ---- copies of an empty one ---- */

bool image_may_be_copied(uint64_t size_bytes) {
    return size_bytes <= BLANK_MOST && size_bytes % JAIL_VOLUME_LEAST == 0;
}

/* Another process may do the same: the last one's stays, and each is whole. */
static int make_blank(const struct volume *volume, const char *unfinished, const char *blank, struct error *reterr) {
    CLEANUP_FD int fd = -1;
    if (create(unfinished, volume->size_bytes, &fd, reterr) < 0) return -1;
    int failed = make_file_system(fd, volume->size_bytes, reterr);
    if (!failed && renameat(HELPER_FD, unfinished, HELPER_FD, blank) < 0)
        failed = error_errno(reterr, errno, "keep an empty image");
    if (failed) unlinkat(HELPER_FD, unfinished, 0);
    return failed;
}

static int open_blank(const struct volume *volume, const char *unfinished, int *ret_fd, struct error *reterr) {
    char blank[32], unfinished_blank[VOLUME_UNFINISHED_BYTES];
    snprintf(blank, sizeof blank, ".blank-%llu", (unsigned long long)(volume->size_bytes / JAIL_MIB));
    *ret_fd = openat(HELPER_FD, blank, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (*ret_fd >= 0) return 0;
    image_name_blank(unfinished, unfinished_blank);
    if (make_blank(volume, unfinished_blank, blank, reterr) < 0) return -1;
    *ret_fd = openat(HELPER_FD, blank, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return *ret_fd >= 0 ? 0 : error_errno(reterr, errno, "open %s", blank);
}

static int copy_piece(int from_fd, int to_fd, off_t start, off_t end) {
    off_t in = start, out = start;
    while (in < end)
        if (copy_file_range(from_fd, &in, to_fd, &out, (size_t)(end - in), 0) <= 0) return -1;
    return 0;
}

/* What is in it, without its holes. */
static int copy(int from_fd, int to_fd, struct error *reterr) {
    off_t start = 0;
    while ((start = lseek(from_fd, start, SEEK_DATA)) >= 0) {
        off_t end = lseek(from_fd, start, SEEK_HOLE);
        if (end < 0 || copy_piece(from_fd, to_fd, start, end) < 0) break;
        start = end;
    }
    return start < 0 && errno == ENXIO ? 0 : error_errno(reterr, errno, "copy an image");
}

static int fill_image(const struct volume *volume, const char *unfinished, int image_fd, struct error *reterr) {
    CLEANUP_FD int blank_fd = -1;
    if (!image_may_be_copied(volume->size_bytes)) return make_file_system(image_fd, volume->size_bytes, reterr);
    if (open_blank(volume, unfinished, &blank_fd, reterr) < 0) return -1;
    return copy(blank_fd, image_fd, reterr);
}

/* ---- what is asked for ---- */

/* Images have holes, so the disk may be full before they are. At first, at least, there is room. */
static int check_disk(const struct volume *volume, struct error *reterr) {
    struct statvfs disk;
    if (fstatvfs(HELPER_FD, &disk) < 0) return error_errno(reterr, errno, "look at the home's disk");
    if ((uint64_t)disk.f_bavail * disk.f_frsize >= volume->size_bytes) return 0;
    return error_set(reterr, E_DISK_FULL, "no room left for it on the home's disk: it may take %llu MiB",
                     (unsigned long long)(volume->size_bytes / JAIL_MIB));
}

static int make_unfinished(const struct volume *volume, const char *unfinished, struct error *reterr) {
    CLEANUP_FD int fd = -1;
    if (check_disk(volume, reterr) < 0 || create(unfinished, volume->size_bytes, &fd, reterr) < 0) return -1;
    return fill_image(volume, unfinished, fd, reterr);
}

int image_make(const struct volume *volume, const char *unfinished, struct error *reterr) {
    if (make_unfinished(volume, unfinished, reterr) == 0) return 0;
    unlinkat(HELPER_FD, unfinished, 0);
    return volume_is_private(volume->name) ? error_prefix(reterr, "/data")
                                           : error_prefix(reterr, "the volume '%s'", volume->name);
}

int image_mount(const struct volume *volume, const char *file, int *ret_fd, struct error *reterr) {
    CLEANUP_FD int fd = openat(HELPER_FD, file, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return error_errno(reterr, errno, "open the volume '%s'", volume->name);
    return volume_mount_image(fd, volume->name, PRIVATE_MOUNT, ret_fd, reterr);
}

int image_remove(const struct volume *volume, struct error *reterr) {
    if (unlinkat(HELPER_FD, volume->file, 0) == 0 || errno == ENOENT) return 0;
    return error_errno(reterr, errno, "remove the volume '%s'", volume->name);
}
