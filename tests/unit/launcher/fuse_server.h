/* A file system that a test serves itself: one file, "held", of zeros. */
#ifndef FUSE_SERVER_H
#define FUSE_SERVER_H

#include <sys/types.h>

enum { FUSE_FILE_BYTES = 4096 };

/* What it never answers. */
enum fuse_silence { FUSE_SILENT_ON_CLOSE, FUSE_SILENT_ON_READ, FUSE_SILENT_ON_DOOR }; /* whose name is looked up */

/* 0: this host has no such file systems. */
pid_t fuse_server_start(const char *path, enum fuse_silence silence);
/* Wait until it has left something unanswered. */
void fuse_server_await_silence(void);
void fuse_server_end(pid_t server, const char *path);

#endif
