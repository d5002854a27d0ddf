/* BEAM files of a caller's, read and validated without a VM: one object each. */
#ifndef COMPILE_CHECK_VALIDATE_H
#define COMPILE_CHECK_VALIDATE_H

#include <jansson.h>

#include "base/base.h"
#include "compile/check/beam_files.h"

enum { VALIDATE_NAMES_MAX_BYTES = 32 << 20 /* of functions and modules in one answer */ };

struct validate_request {
    struct beam_source source;
    unsigned otp; /* whose loader is to take the files; 0: the newest known */
};

/* *ret is `valid` and `files[]`, sorted by path: every BEAM file in the folder and below it, links not followed. A file
   that is not valid is an answer, no failure. Blocking; for the thread pool. */
int validate_run(const struct validate_request *request, json_t **ret, struct error *reterr);

/* The object of one file's content. Fails only without memory, or with E_TOO_LARGE when its names do not fit into
 *names_left any more; that may be shared by several threads. */
int validate_bytes(const char *path, const uint8_t *data, size_t size, unsigned otp, atomic_llong *names_left,
                   json_t **ret, struct error *reterr);

#endif
