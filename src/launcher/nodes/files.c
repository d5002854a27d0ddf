/* Files of a running node, for its owner: read, written and listed by a process inside, which has the node's own rights
   and goes below /data and /mnt alone. It follows no link, and opens nothing but folders and regular files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/files.h"
#include "jail/plan.h"
#include "jail/wire.h"
#include "launcher/launcher.h"
#include "launcher/nodes/files.h"
#include "launcher/nodes/nodes.h"
#include "launcher/privileges.h"
#include "launcher/project/helper.h"

enum { MODE_OF_FILES = 0777, LISTED_MAX = 10000, LISTED_BYTES_MAX = 4 << 20, PATIENCE_MS = 10000 };
enum { REPORT_FD = HELPER_FD + 1, CONTENT_FD };

struct work {
    const struct file_task *task;
    int data_fd; /* what is to be written, or where to put what was read */
};

/* What a person can make of it. */
static int fail(const struct file_task *task, struct error *reterr) {
    switch (errno) {
    case ENOENT: return error_set(reterr, E_NOT_FOUND, "there is no %s", task->path);
    case ELOOP: return error_set(reterr, E_INVALID, "%s leads through a link", task->path);
    case EXDEV: return error_set(reterr, E_INVALID, "%s leads out of its folder", task->path);
    case ENOTDIR:
    case EISDIR: return error_set(reterr, E_INVALID, "%s: %s", task->path, strerror(errno));
    case EROFS:
    case EPERM:
    case EACCES: return error_set(reterr, E_FORBIDDEN, "%s: %s", task->path, strerror(errno));
    case EDQUOT:
    case ENOSPC: return error_set(reterr, E_LIMIT, "%s: there is no room for it", task->path);
    default: return error_errno(reterr, errno, "%s", task->path);
    }
}

/* ---- inside ---- */

/* Both are the node's own or its owner's; what is below may be a mount, and is no link. */
static int open_base(const char *path, const char **ret_rest) {
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    const char *base = string_starts(path, JAIL_VOLUMES) ? JAIL_VOLUMES : JAIL_DATA;
    const char *rest = path + strlen(base);
    *ret_rest = *rest ? rest + 1 : ".";
    return file_open_how(AT_FDCWD, base, &how);
}

static int open_below(const char *path, uint64_t flags, mode_t mode) {
    struct open_how how = {.flags = flags | O_CLOEXEC | O_NOFOLLOW | (flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY),
                           .mode = mode,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    const char *rest;
    CLEANUP_FD int base_fd = open_base(path, &rest);
    return base_fd < 0 ? -1 : file_open_how(base_fd, rest, &how);
}

/* Never a pipe or a device, which wait or do something when they are opened: those are looked at first. */
static int open_regular(const struct file_task *task, uint64_t flags, struct stat *ret_status, struct error *reterr) {
    struct stat seen;
    CLEANUP_FD int seen_fd = open_below(task->path, O_PATH, 0);
    if (seen_fd >= 0 && fstat(seen_fd, &seen) == 0 && !S_ISREG(seen.st_mode))
        return error_set(reterr, E_INVALID, "%s is no regular file", task->path);
    CLEANUP_FD int fd = open_below(task->path, flags, flags & O_CREAT ? task->mode & MODE_OF_FILES : 0);
    if (fd < 0 || fstat(fd, ret_status) < 0) return fail(task, reterr);
    if (!S_ISREG(ret_status->st_mode)) return error_set(reterr, E_INVALID, "%s is no regular file", task->path);
    return take_fd(&fd);
}

static int read_file(const struct work *work, struct error *reterr) {
    const struct file_task *task = work->task;
    struct stat status;
    off_t at = (off_t)task->offset;
    CLEANUP_FD int fd = open_regular(task, O_RDONLY, &status, reterr);
    if (fd < 0) return -1;
    for (size_t left = task->length; left > 0;) {
        ssize_t size = sendfile(work->data_fd, fd, &at, left);
        if (size < 0) return fail(task, reterr);
        if (size == 0) break;
        left -= (size_t)size;
    }
    return 0;
}

static int write_file(const struct work *work, struct error *reterr) {
    const struct file_task *task = work->task;
    struct stat status;
    off_t from = 0;
    uint64_t flags = task->offset == 0 ? O_WRONLY | O_CREAT | O_TRUNC : O_WRONLY;
    CLEANUP_FD int fd = open_regular(task, flags, &status, reterr);
    if (fd < 0) return -1;
    if (lseek(fd, (off_t)task->offset, SEEK_SET) < 0) return fail(task, reterr);
    if (task->offset == 0 && fchmod(fd, task->mode & MODE_OF_FILES) < 0) return fail(task, reterr);
    for (size_t left = task->length; left > 0;) {
        ssize_t size = sendfile(fd, work->data_fd, &from, left);
        if (size < 0) return fail(task, reterr);
        if (size == 0) break;
        left -= (size_t)size;
    }
    return 0;
}

static int make_folder(const struct work *work, struct error *reterr) {
    const struct file_task *task = work->task;
    char parent[PATH_MAX];
    const char *slash = strrchr(task->path, '/');
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - task->path), task->path);
    CLEANUP_FD int fd = *parent ? open_below(parent, O_PATH | O_DIRECTORY, 0) : -1;
    CLEANUP_FD int there_fd = open_below(task->path, O_PATH | O_DIRECTORY, 0);
    if (there_fd >= 0) return 0;
    if (fd < 0 || mkdirat(fd, slash + 1, task->mode & MODE_OF_FILES) < 0) return fail(task, reterr);
    return 0;
}

static char type_of(mode_t mode) {
    return S_ISREG(mode) ? 'F' : S_ISDIR(mode) ? 'D' : 'O';
}

static void print_entry(struct buf *text, const char *name, const struct stat *status) {
    buf_append_byte(text, (uint8_t)type_of(status->st_mode));
    buf_printf(text, " %o %llu ", (unsigned)status->st_mode & MODE_OF_FILES, (unsigned long long)status->st_size);
    wire_put_word(text, name);
    buf_append_byte(text, '\n');
}

static int print_folder(const struct file_task *task, DIR *listing, struct buf *text, struct error *reterr) {
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(listing));) {
        struct stat status;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (++count > LISTED_MAX)
            return error_set(reterr, E_TOO_LARGE, "%s has more than %d entries", task->path, LISTED_MAX);
        if (fstatat(dirfd(listing), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0)
            print_entry(text, entry->d_name, &status);
    }
    return 0;
}

/* Of a file: itself, without a name. */
static int list_files(const struct work *work, struct error *reterr) {
    const struct file_task *task = work->task;
    struct stat status;
    CLEANUP(buf_free) struct buf text = {.max = LISTED_BYTES_MAX};
    CLEANUP_FD int seen_fd = open_below(task->path, O_PATH, 0);
    if (seen_fd < 0 || fstat(seen_fd, &status) < 0) return fail(task, reterr);
    print_entry(&text, "", &status);
    if (S_ISDIR(status.st_mode)) {
        CLEANUP_FD int fd = open_below(task->path, O_RDONLY | O_DIRECTORY, 0);
        DIR *listing = fd < 0 ? NULL : fdopendir(fd);
        if (!listing) return fail(task, reterr);
        take_fd(&fd);
        int failed = print_folder(task, listing, &text, reterr);
        closedir(listing);
        if (failed) return failed;
    }
    if (text.failed) return error_set(reterr, E_TOO_LARGE, "%s has too much in it to be listed", task->path);
    return file_write_all(work->data_fd, text.data, text.size) < 0 ? fail(task, reterr) : 0;
}

static const struct {
    const char *word;
    int (*run)(const struct work *work, struct error *reterr);
    bool takes_data, gives_data;
} kinds[FILE_TASKS] = {
    [FILE_READ] = {"read", read_file, false, true},
    [FILE_WRITE] = {"write", write_file, true, false},
    [FILE_MAKE_FOLDER] = {"mkdir", make_folder, false, false},
    [FILE_LIST] = {"list", list_files, false, true},
};

static int run_task(void *data, struct error *reterr) {
    const struct work *work = data;
    umask(0);
    if (privileges_drop_all(reterr) < 0) return -1;
    return kinds[work->task->kind].run(work, reterr);
}

/* ---- the launcher's side ---- */

bool file_task_find(const char *word, enum file_kind *ret) {
    for (unsigned i = 0; word && i < FILE_TASKS; i++)
        if (strcmp(kinds[i].word, word) == 0) {
            *ret = i;
            return true;
        }
    return false;
}

static bool is_place(const char *path) {
    return path_is_clean(path) &&
           (plan_is_volume_place(path) || strcmp(path, JAIL_DATA) == 0 || strcmp(path, JAIL_VOLUMES) == 0);
}

static int check(const struct file_task *task, int data_fd, struct error *reterr) {
    if (!is_place(task->path)) return error_set(reterr, E_INVALID, "%s is not below /data or /mnt", task->path);
    if (task->length > JAIL_FILE_PIECE || task->offset > INT64_MAX - JAIL_FILE_PIECE)
        return error_set(reterr, E_INVALID, "a piece of a file is too long");
    if (kinds[task->kind].takes_data != (data_fd >= 0))
        return error_set(reterr, E_INVALID, "content comes with what is to be written, and with nothing else");
    return 0;
}

static struct file_doing *find_room(struct launcher *launcher, uid_t uid, struct error *reterr) {
    struct file_doing *room = NULL;
    size_t own = 0;
    for (size_t i = 0; i < FILES_DOING_MAX; i++) {
        struct file_doing *doing = &launcher->files.doing[i];
        own += doing->under_way && doing->uid == uid;
        if (!doing->under_way) room = doing;
    }
    if (room && own < FILES_DOING_OF_NODE) return room;
    error_set(reterr, E_LIMIT, "%zu files of this sandbox are being read or written already",
              own < FILES_DOING_OF_NODE ? (size_t)FILES_DOING_MAX : own);
    return NULL;
}

struct going {
    const struct launcher *launcher;
    const struct jailed_node *node;
    const struct file_task *task;
};

/* With the node's pidfd, the socket to report to, and the content. */
static void go_inside(const void *data) {
    const struct going *going = data;
    struct jailed_node node = *going->node;
    struct work work = {going->task, CONTENT_FD};
    struct error error;
    node.pidfd = HELPER_FD;
    jailed_go_inside(going->launcher, &node, &(struct inside_job){NULL, run_task, &work}, &error);
    fd_send(REPORT_FD, &error, sizeof error, NULL, 0, 0);
}

static int start(struct launcher *launcher, const struct jailed_node *node, const struct file_task *task, int data_fd,
                 struct file_doing *doing, struct error *reterr) {
    struct going going = {launcher, node, task};
    int fds[2];
    bool gives_data = kinds[task->kind].gives_data;
    if (gives_data && (doing->memory_fd = memfd_create("file", MFD_CLOEXEC)) < 0)
        return error_errno(reterr, errno, "make a memory file");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return error_errno(reterr, errno, "make a socket pair");
    doing->report_fd = fds[0];
    CLEANUP_FD int its_fd = fds[1];
    const int kept[] = {node->pidfd, its_fd, gives_data ? doing->memory_fd : data_fd};
    if (helper_start(go_inside, &going, kept, kept[2] < 0 ? 2 : 3, &doing->pidfd, reterr) < 0) return -1;
    launcher_due_at(launcher, doing->deadline_ms);
    return launcher_watch(launcher, doing->report_fd, SOURCE_FILE, (size_t)(doing - launcher->files.doing), reterr);
}

static void end(struct launcher *launcher, struct file_doing *doing) {
    launcher_unwatch(launcher, doing->report_fd);
    helper_end_of(launcher, doing->uid, doing->pidfd);
    fd_close(doing->report_fd);
    fd_close(doing->memory_fd);
    *doing = (struct file_doing){.report_fd = -1, .pidfd = -1, .memory_fd = -1};
}

static void fail_request(struct launcher *launcher, struct file_doing *doing, const struct error *error) {
    struct request request = doing->request;
    end(launcher, doing);
    server_fail(launcher, request, error);
}

void jailed_file(struct launcher *launcher, struct request request, const struct jailed_node *node,
                 const struct file_task *task, int data_fd) {
    struct error error;
    struct file_doing *doing = NULL;
    if (check(task, data_fd, &error) == 0 && helper_check_dying(launcher, node->uid, &error) == 0)
        doing = find_room(launcher, node->uid, &error);
    if (!doing) {
        server_fail(launcher, request, &error);
        return;
    }
    *doing = (struct file_doing){.under_way = true,
                                 .request = request,
                                 .uid = node->uid,
                                 .report_fd = -1,
                                 .pidfd = -1,
                                 .memory_fd = -1,
                                 .deadline_ms = clock_monotonic_ms() + PATIENCE_MS};
    if (start(launcher, node, task, data_fd, doing, &error) < 0) fail_request(launcher, doing, &error);
}

void jailed_file_done(struct launcher *launcher, size_t index) {
    struct file_doing *doing = &launcher->files.doing[index];
    struct error report, error;
    if (!doing->under_way) return;
    bool is_good = fd_receive(doing->report_fd, &report, sizeof report, NULL, 0, MSG_DONTWAIT) == sizeof report;
    int failed =
        is_good ? helper_error(&report, &error) : error_set(&error, E_SYSTEM, "the helper inside the node ended early");
    if (failed) {
        fail_request(launcher, doing, &error);
        return;
    }
    server_ok(launcher, doing->request, "", &doing->memory_fd, doing->memory_fd >= 0);
    end(launcher, doing);
}

uint64_t jailed_files_check(struct launcher *launcher, uint64_t now_ms) {
    uint64_t next_ms = UINT64_MAX;
    for (size_t i = 0; i < FILES_DOING_MAX; i++) {
        struct file_doing *doing = &launcher->files.doing[i];
        struct error error;
        if (!doing->under_way) continue;
        if (now_ms >= doing->deadline_ms) {
            error_set(&error, E_TIMEOUT, "the file system did not answer in time");
            fail_request(launcher, doing, &error);
        } else if (doing->deadline_ms < next_ms) {
            next_ms = doing->deadline_ms;
        }
    }
    return next_ms;
}

void jailed_files_close(struct launcher *launcher) {
    for (size_t i = 0; i < FILES_DOING_MAX; i++)
        if (launcher->files.doing[i].under_way) end(launcher, &launcher->files.doing[i]);
}
