/* A stream that comes through a pipe, moved to a file of ours before anything reads it. The process that writes has a
   stranger's uid, and the stranger may stop it: no thread waits for it, and the loop only looks whether something came.
 */
#ifndef LINK_SPOOL_H
#define LINK_SPOOL_H

#include <uv.h>

#include "base/base.h"

struct spool;

/* fd is the receiver's: all that came, at its beginning; -1 with an error. */
typedef void (*spool_done_fn)(void *data, int fd, const struct error *error);

struct spool_bounds {
    uint64_t silence_ms; /* without anything coming */
    uint64_t whole_ms;
    uint64_t bytes;
};

/* Take the pipe over and read it to its end. done is called once, from the loop and never from inside; NULL, and the
   pipe is closed, when there is no memory or it is nothing that can be waited for. What is large goes to a nameless
   file in the folder, by the thread pool. */
struct spool *spool_start(uv_loop_t *loop, const char *folder, int pipe_fd, const struct spool_bounds *bounds,
                          spool_done_fn done, void *data, struct error *reterr);
/* Have done called soon, with that error. */
void spool_cancel(struct spool *spool, const struct error *why);

#endif
