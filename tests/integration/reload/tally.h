/* The application whose code the reload tests change: three counters, `tally`, `spare` and `third`, whose answers say
   which version gave them. */
#ifndef INTEGRATION_TALLY_H
#define INTEGRATION_TALLY_H

#include "support.h"

struct tally {
    const char *version;    /* an expression; N is the state */
    const char *init;       /* NULL: {ok, 0} */
    const char *attributes; /* NULL: none */
    const char *more;       /* functions besides; NULL: a code_change that keeps the state */
};

/* Write its sources; their folder. */
const char *tally_write(struct world *world, const struct tally *tally);
const char *tally_write_version(struct world *world, const char *version, const char *more);

/* Add one to `tally`, of the sandbox "a": it answers {Version, State}. */
void tally_assert_answers(struct world *world, const char *expected);
/* The version that the registry says is current; 0: none. */
int tally_current(struct world *world);
/* That it is so now or soon: a daemon that just started may still be asking. */
void tally_assert_current(struct world *world, int version);
/* Reload it, as a change; the version that is current afterwards. */
int tally_reload(struct world *world);
/* Evaluate in the sandbox. */
void tally_assert_eval(struct world *world, const char *code, const char *expected);

/* A change of its code that goes on while the test does something else. */
struct tally_change;

struct tally_change *tally_begin(struct world *world, const char *op, const char *params_json);
/* Wait for its end: "" for success, else the error's code. To be freed. */
char *tally_end(struct tally_change *change);

/* The application has printed the text so often. */
void tally_wait_output(struct world *world, const char *text, size_t times);

void tally_kill_daemon(struct world *world);

const char *text_of(const json_t *object, const char *name);

#endif
