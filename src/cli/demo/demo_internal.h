/* Between the files of `sandbox demo`. */
#ifndef CLI_DEMO_DEMO_INTERNAL_H
#define CLI_DEMO_DEMO_INTERNAL_H

#include <limits.h>

#include "cli/cli_internal.h"
#include "client/client.h"

/* The story's own service, in a home of its own that goes with it. */
struct demo {
    struct cli *cli;
    struct sbx *sbx;
    char home[CLIENT_HOME_BYTES];
    char examples[PATH_MAX];
    json_int_t os_pid; /* of the counter's VM, to see it change and go */
};

/* One step: does it, checks it, and writes down what is to be seen. */
typedef int demo_step_fn(struct demo *demo, struct buf *shown, struct error *reterr);

struct demo_step {
    const char *title;
    const char *command; /* what a user would type; NULL: nothing */
    demo_step_fn *run;
};

const struct demo_step *demo_steps(size_t *ret_count);

#endif
