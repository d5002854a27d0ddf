/* Files as wholes: locked, written, read. */
#ifndef BASE_IO_FILE_H
#define BASE_IO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;

/* A file that marks one process per home. The lock is the process's own: a child that it was about to start when it was
   killed doesn't hold it on, as it would an inherited flock. Closing any descriptor of the file gives it up. */
bool file_lock(int fd);
bool file_is_locked(int fd);

int file_write_all(int fd, const void *data, size_t size); /* 0, or -1 and errno */

/* The text of a small file, such as /proc has, by one read: as much as fits, terminated. A link is not followed. Its
   length, or -1 and errno. Path is relative to the folder, or absolute. */
ssize_t file_read_text(int folder_fd, const char *path, char *ret, size_t size);

/* A regular file's content, to be freed; a link is not followed. E_TOO_LARGE past the bound, E_SYSTEM when it shrinks
   meanwhile. Blocking. */
int file_load(const char *path, size_t max_bytes, uint8_t **ret, size_t *ret_size, struct error *reterr);

struct open_how;
/* openat2. Where a path must not lead out of its folder, the kernel gives up (EAGAIN) when anything on the machine was
   mounted or renamed meanwhile: it is tried again. */
int file_open_how(int folder_fd, const char *path, const struct open_how *how);

#endif
