/* Images become mounts: by way of loop devices that end with their last mount. Runs in a process of its own, since the
   disk may be slow. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "launcher/start/userns.h"
#include "launcher/volumes/volumes.h"

enum {
    ATTEMPTS = 64, /* other programs take free devices too */
    SUPERBLOCK_AT = 1024,
    MAGIC_AT = 0x38,
    EXT4_MAGIC = 0xEF53,
    STATE_HAS_ERRORS = 2,
};

/* ---- loop devices ---- */

static bool is_backed_by(int loop_fd, const struct stat *image) {
    struct loop_info64 info;
    return ioctl(loop_fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_device == image->st_dev &&
           info.lo_inode == image->st_ino;
}

static int open_device(const char *name, int access_mode, char ret_path[32]) {
    snprintf(ret_path, 32, "/dev/%.16s", name);
    return open(ret_path, access_mode | O_CLOEXEC);
}

/* While it is open it is not given to another image. */
static int find_attached(const struct stat *image, char ret_path[32]) {
    DIR *listing = opendir("/sys/block");
    int found_fd = -1;
    for (struct dirent *entry; listing && found_fd < 0 && (entry = readdir(listing));) {
        char in_use[64];
        snprintf(in_use, sizeof in_use, "/sys/block/%.20s/loop", entry->d_name);
        if (!string_starts(entry->d_name, "loop") || access(in_use, F_OK) < 0) continue;
        CLEANUP_FD int fd = open_device(entry->d_name, O_RDONLY, ret_path);
        if (fd >= 0 && is_backed_by(fd, image)) found_fd = take_fd(&fd);
    }
    if (listing) closedir(listing);
    return found_fd;
}

static int attach_free(int control_fd, int image_fd, char ret_path[32]) {
    struct loop_config config = {.fd = (unsigned)image_fd, .info.lo_flags = LO_FLAGS_AUTOCLEAR};
    char name[16];
    int number = ioctl(control_fd, LOOP_CTL_GET_FREE);
    if (number < 0) return -1;
    snprintf(name, sizeof name, "loop%d", number);
    CLEANUP_FD int fd = open_device(name, O_RDWR, ret_path);
    return fd < 0 || ioctl(fd, LOOP_CONFIGURE, &config) < 0 ? -1 : take_fd(&fd);
}

/* Two processes that look at once would each take a device, so they take turns by one lock (on the open file). A second
   lock says that a device has the image: it lasts as long as the device has the file open. Looking through all devices
   is for such images alone, since there may be thousands of them. */
static int attach(int image_fd, const struct stat *image, char ret_path[32]) {
    bool is_free = flock(image_fd, LOCK_EX | LOCK_NB) == 0;
    int fd = is_free ? -1 : find_attached(image, ret_path);
    CLEANUP_FD int control_fd = fd >= 0 ? -1 : open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    for (int i = 0; fd < 0 && control_fd >= 0 && i < ATTEMPTS; i++) {
        /* The device that had it is ending, and gives the lock back. */
        if (!is_free && !(is_free = flock(image_fd, LOCK_EX) == 0)) break;
        fd = attach_free(control_fd, image_fd, ret_path);
        if (fd < 0 && errno != EBUSY) break;
    }
    return fd;
}

int loop_attach(int image_fd, char ret_path[32], int *ret_fd, struct error *reterr) {
    struct stat image;
    struct flock turn = {.l_type = F_WRLCK};
    if (fstat(image_fd, &image) < 0 || fcntl(image_fd, F_OFD_SETLKW, &turn) < 0)
        return error_errno(reterr, errno, "look at an image");
    int fd = attach(image_fd, &image, ret_path), failure = errno;
    turn = (struct flock){.l_type = F_UNLCK};
    fcntl(image_fd, F_OFD_SETLK, &turn);
    if (fd < 0) return error_errno(reterr, failure, "take a loop device");
    *ret_fd = fd;
    return 0;
}

/* ---- ext4 ---- */

/* The kernel would mount one that it found errors in before, and go on from there. */
static int check_image(int image_fd, const char *name, struct error *reterr) {
    uint8_t words[4];
    if (pread(image_fd, words, sizeof words, SUPERBLOCK_AT + MAGIC_AT) != sizeof words ||
        (words[0] | words[1] << 8) != EXT4_MAGIC)
        return error_set(reterr, E_FORMAT, "the volume '%s' is damaged: its superblock is none", name);
    if (words[2] & STATE_HAS_ERRORS)
        return error_set(reterr, E_FORMAT,
                         "the volume '%s' is damaged: the kernel found errors in it; root can look "
                         "at its image with e2fsck",
                         name);
    return 0;
}

/* A second time, the kernel gives the same file system. Its journal is played back by the kernel itself, as after any
   end without unmounting. */
static int make_mount(const char *device, unsigned attributes) {
    CLEANUP_FD int context_fd = fsopen("ext4", FSOPEN_CLOEXEC);
    if (context_fd < 0 || fsconfig(context_fd, FSCONFIG_SET_STRING, "source", device, 0) < 0 ||
        fsconfig(context_fd, FSCONFIG_SET_STRING, "errors", "remount-ro", 0) < 0 ||
        fsconfig(context_fd, FSCONFIG_SET_FLAG, "discard", NULL, 0) < 0 ||
        fsconfig(context_fd, FSCONFIG_SET_FLAG, "noinit_itable", NULL, 0) < 0 || /* holes are zero already */
        fsconfig(context_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -1;
    return fsmount(context_fd, FSMOUNT_CLOEXEC, attributes);
}

int volume_mount_image(int image_fd, const char *name, uint64_t attributes, int *ret_fd, struct error *reterr) {
    char device[32];
    CLEANUP_FD int loop_fd = -1;
    if (check_image(image_fd, name, reterr) < 0 || loop_attach(image_fd, device, &loop_fd, reterr) < 0) return -1;
    CLEANUP_FD int fd = make_mount(device, (unsigned)attributes);
    if (fd < 0)
        return errno == EUCLEAN || errno == EINVAL || errno == EBADMSG || errno == EIO
                   ? error_set(reterr, E_FORMAT, "the volume '%s' is damaged: %s", name, strerror(errno))
                   : error_errno(reterr, errno, "mount the volume '%s'", name);
    *ret_fd = take_fd(&fd);
    return 0;
}

int volume_dress(int mount_fd, const char *name, const struct jailed_node *node, bool is_read_only, bool is_executable,
                 int *ret_fd, struct error *reterr) {
    CLEANUP_FD int userns_fd = -1;
    struct userns_map map = {VOLUME_OWNER_INSIDE, node->uid, VOLUME_OWNER_INSIDE, node->uid};
    if (userns_make(&map, &userns_fd, reterr) < 0) return -1;
    struct mount_attr change = {.attr_set = MOUNT_ATTR_IDMAP | (is_read_only ? MOUNT_ATTR_RDONLY : 0),
                                .attr_clr = is_executable ? MOUNT_ATTR_NOEXEC : 0,
                                .propagation = MS_PRIVATE,
                                .userns_fd = (unsigned)userns_fd};
    CLEANUP_FD int fd = fcntl(mount_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH, &change, sizeof change) < 0)
        return error_errno(reterr, errno, "map the owner of the volume '%s'", name);
    *ret_fd = take_fd(&fd);
    return 0;
}
