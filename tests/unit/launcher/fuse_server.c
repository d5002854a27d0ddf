/* Serves a file system with one file over FUSE, in a child of the test. */
#include "fuse_server.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOT = FUSE_ROOT_ID, HELD, REQUEST_BYTES = 1 << 20 };

static int silence_pipe[2] = {-1, -1}; /* a byte for each request that is left unanswered */

static struct fuse_attr attributes(uint64_t id) {
    return (struct fuse_attr){.ino = id,
                              .size = id == HELD ? FUSE_FILE_BYTES : 0,
                              .mode = id == HELD ? S_IFREG | 0444 : S_IFDIR | 0755,
                              .nlink = 1,
                              .blksize = FUSE_FILE_BYTES};
}

static void reply(int fd, const struct fuse_in_header *request, int error, const void *data, size_t size) {
    struct fuse_out_header header = {
        .len = (uint32_t)(sizeof header + size), .error = -error, .unique = request->unique};
    struct iovec parts[] = {{&header, sizeof header}, {(void *)(uintptr_t)data, size}};
    if (writev(fd, parts, size ? 2 : 1) < 0 && errno != ENOENT) _exit(1);
}

static void greet(int fd, const struct fuse_in_header *request, const struct fuse_init_in *init) {
    struct fuse_init_out out = {
        .major = FUSE_KERNEL_VERSION, .minor = init->minor, .max_readahead = 4096, .max_write = 4096};
    reply(fd, request, 0, &out, sizeof out);
}

static void look_up(int fd, const struct fuse_in_header *request, const char *name) {
    struct fuse_entry_out out = {.nodeid = HELD, .attr = attributes(HELD)};
    if (strcmp(name, "held") == 0)
        reply(fd, request, 0, &out, sizeof out);
    else
        reply(fd, request, ENOENT, NULL, 0);
}

static bool is_unanswered(uint32_t opcode, const char *name, enum fuse_silence silence) {
    if (silence == FUSE_SILENT_ON_DOOR) return opcode == FUSE_LOOKUP && strcmp(name, "door") == 0;
    return opcode == (silence == FUSE_SILENT_ON_READ ? FUSE_READ : FUSE_FLUSH);
}

static void answer(int fd, const struct fuse_in_header *request, enum fuse_silence silence) {
    static const char zeros[FUSE_FILE_BYTES];
    struct fuse_attr_out attr = {.attr = attributes(request->nodeid)};
    struct fuse_open_out opened = {.open_flags = FOPEN_DIRECT_IO};
    const void *body = request + 1;
    if (is_unanswered(request->opcode, body, silence)) {
        if (write(silence_pipe[1], "", 1) != 1) _exit(1);
        return;
    }
    switch (request->opcode) {
    case FUSE_INIT: greet(fd, request, body); break;
    case FUSE_LOOKUP: look_up(fd, request, body); break;
    case FUSE_GETATTR: reply(fd, request, 0, &attr, sizeof attr); break;
    case FUSE_OPEN: reply(fd, request, 0, &opened, sizeof opened); break;
    case FUSE_READ: reply(fd, request, 0, zeros, ((const struct fuse_read_in *)body)->offset ? 0 : sizeof zeros); break;
    case FUSE_FLUSH:
    case FUSE_RELEASE: reply(fd, request, 0, NULL, 0); break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT: break; /* these want no answer */
    default: reply(fd, request, ENOSYS, NULL, 0);
    }
}

static void serve(int fd, enum fuse_silence silence) {
    static _Alignas(8) char request[REQUEST_BYTES];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(fd, request, sizeof request) > 0 || errno == EINTR || errno == ENOENT)
        answer(fd, (const struct fuse_in_header *)(const void *)request, silence);
    _exit(0);
}

pid_t fuse_server_start(const char *path, enum fuse_silence silence) {
    char options[128];
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0 || pipe2(silence_pipe, O_CLOEXEC) < 0) return 0;
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd);
    pid_t server = 0;
    if (mount("held", path, "fuse", 0, options) == 0) {
        server = fork();
        if (server == 0) serve(fd, silence);
    }
    close(fd);
    return server > 0 ? server : 0;
}

void fuse_server_await_silence(void) {
    char byte;
    while (read(silence_pipe[0], &byte, 1) < 0 && errno == EINTR) {
    }
}

/* Its end has the kernel answer all that waits. */
void fuse_server_end(pid_t server, const char *path) {
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    umount2(path, MNT_DETACH);
    close(silence_pipe[0]);
    close(silence_pipe[1]);
}
