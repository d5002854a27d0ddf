/* room: what the answers for one compilation may hold in all. A compiler node can make much of few bytes: a warning of
   five bytes becomes an object of six hundred. So what is kept is counted as what it takes here. Pure. */
#ifndef COMPILE_ANSWER_BUDGET_H
#define COMPILE_ANSWER_BUDGET_H

#include "compile/room.h"

enum {
    DIAGNOSTICS_MAX = 1000, /* of one kind in a report */
    DIAGNOSTICS_MAX_BYTES = 4 << 20,
    DEPENDENCIES_MAX = 250000, /* names of modules and files that all sources of a project depend on */
    ANSWERS_MAX_BYTES = 256 << 20,
};

struct diagnostics_budget {
    size_t count, bytes;
};

struct answer_budget { /* what is left, or what something takes */
    size_t bytes;      /* of code and names, with all that is made of them */
    size_t names;
    struct diagnostics_budget warnings;
    struct room_part *room; /* what is taken counts there too; NULL: nowhere */
};

extern const struct diagnostics_budget whole_diagnostics_budget;
extern const struct answer_budget whole_answer_budget; /* of one compilation */

/* E_TOO_LARGE says of what there is too much, and E_LIMIT that others have it; nothing is taken then. */
int budget_take(struct answer_budget *budget, const struct answer_budget *wanted, struct error *reterr);
void budget_give(struct answer_budget *budget, struct answer_budget *held); /* held is empty then */

/* Whether one more diagnostic of so many bytes is kept. The first that is not ends it: then there is no room. */
bool budget_take_diagnostic(struct diagnostics_budget *budget, size_t bytes);

#endif
