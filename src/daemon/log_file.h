/* log_file: the daemon's lines on their way to `daemon.log`, which is bounded. A thread writes them and rotates the
   file, so that the loop never waits for a disk; the launcher, which writes to the same file, notices by itself. */
#ifndef DAEMON_LOG_FILE_H
#define DAEMON_LOG_FILE_H

#include <stdint.h>

#include "base/base.h"

enum { LOG_FILES_KEPT = 3 }; /* daemon.log.1 is the newest of them */

struct log_file;

/* Take over standard error, if that is $home/daemon.log; *ret is NULL if it is anything else, which is left alone.
   max_bytes is for the file and those that are kept together. */
int log_file_open(const char *home, uint64_t max_bytes, struct log_file **ret, struct error *reterr);
/* What lines are to be written to: a write takes one whole, or fails at once because the disk is far behind. */
int log_file_fd(const struct log_file *file);
/* All that was written is in the file. NULL is none. */
void log_file_close(struct log_file *file);

#endif
