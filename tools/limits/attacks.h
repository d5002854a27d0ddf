/* For each limit an attack that tries to pass it: for the benchmark of limits, and for tests that need attackers. */
#ifndef TOOLS_LIMITS_ATTACKS_H
#define TOOLS_LIMITS_ATTACKS_H

#include <stddef.h>

/* How it shows that the limit held. */
enum limit_sign {
    SIGN_EVENT,  /* an event of this kind, whose data names this */
    SIGN_ANSWER, /* the code is told this */
    SIGN_RATE,   /* it gets no more than this, however long it tries */
};

struct limit_attack {
    const char *limit;   /* its name in the table of limits, or what a bound that is not in it is called */
    const char *tries;   /* for people */
    const char *options; /* of create, as JSON */
    const char *code;    /* Erlang: one attempt, which is repeated for as long as it is let */
    enum limit_sign sign;
    const char *kind, *told; /* the event's kind; a text in its data, in the answer, or of the rate's bound */
};

enum { LIMIT_ATTACK_CODE_BYTES = 1024 };

const struct limit_attack *limit_attacks(size_t *ret_count);
const struct limit_attack *limit_attack_find(const char *limit); /* NULL when there is none */
/* Its code, attempt after attempt without an end. */
void limit_attack_repeated(const struct limit_attack *attack, char ret[LIMIT_ATTACK_CODE_BYTES]);

#endif
