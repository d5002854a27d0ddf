/* A file system that a test serves itself: one file, "held", of zeros. */
#ifndef FUSE_SERVER_H
#define FUSE_SERVER_H

#include <sys/types.h>

enum { FUSE_FILE_BYTES = 4096 };

/* Never answers that the file was closed. 0: this host has no such file systems. */
pid_t fuse_server_start(const char *path);
void fuse_server_end(pid_t server, const char *path);

#endif
