/* Large results: a user asks a sandbox of its own for a value that is small to make and large to print. */
#include "siege.h"

#define OWN "tenant"

bool results_prepare(struct crew *crew) {
    struct sbx_error error;
    crew->service = arena_client(crew->arena->home);
    if (!crew->service) return false;
    if (sbx_create(crew->service, OWN, crew->arena->counter, "{\"limit\": {\"memory\": \"512M\", \"heap\": \"400M\"}}",
                   NULL, &error) == 0)
        return true;
    fprintf(stderr, "%s: %s\n", OWN, error.detail);
    return false;
}

void results_volley(struct crew *crew) {
    struct sbx_error error;
    if (sbx_eval(crew->service, OWN, crew->attack->text, "{\"language\": \"erlang\"}", NULL, &error) == 0) return;
    if (crew->stage->refused++ == 0) fprintf(stderr, "%s: %s\n", crew->attack->tries, error.detail);
}
