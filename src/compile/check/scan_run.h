/* Scanning what a caller has: the BEAM files of a build, and the sources they were made of. */
#ifndef COMPILE_CHECK_SCAN_RUN_H
#define COMPILE_CHECK_SCAN_RUN_H

#include "compile/check/beam_files.h"
#include "guard/guard.h"

enum { SCAN_SOURCE_MAX_BYTES = 4 << 20 }; /* what is larger was not written by hand */

struct scan_request {
    operation_set allowed;
    const char *build;         /* the folder of what was compiled; NULL: the source is a BEAM file itself */
    struct beam_source source; /* the caller's project */
};

/* *ret is the report, with `modules`, how many were scanned. Blocking; for the thread pool. */
int scan_run(const struct scan_request *request, json_t **ret, struct error *reterr);

/* Every BEAM file of a build. Blocking. */
int scan_build(struct scan_report *report, const char *build, atomic_bool *call_off, size_t *ret_modules,
               struct error *reterr);

#endif
