/* outcome: what is answered, before it is text. */
#ifndef API_OUTCOME_H
#define API_OUTCOME_H

#include <jansson.h>
#include <stdbool.h>

#include "base/base.h"

struct outcome {
    unsigned status;
    const char *content_type;
    json_t *value; /* owned */
};

/* Whether printing and freeing it would keep the loop for long. Looks at no more of it than tells. */
bool outcome_is_heavy(const struct outcome *outcome);

#endif
