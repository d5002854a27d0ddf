/* What is kept of a build in memory while its worker waits for the next compilation. */
#include "compile/job.h"

enum { KEPT_VALUES_MAX = 100000 }; /* about ten megabytes; what is larger is read from the build again */

json_t *facts_to_keep(const json_t *facts) {
    static const char *const needed[] = {"sources", "apps", "consolidated", "supervisor"};
    json_t *kept = json_object();
    for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
        json_t *fact = json_object_get(facts, needed[i]);
        if (fact) json_object_set(kept, needed[i], fact);
    }
    if (!term_json_is_heavy(kept, KEPT_VALUES_MAX)) return kept;
    json_decref(kept);
    return NULL;
}
