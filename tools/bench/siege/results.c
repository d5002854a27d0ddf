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

/* ---- many questions whose answers become due together ---- */

/* One word of the node's agent, or one look at the sandboxes, is all that they wait for. */
void queries_volley(struct crew *crew) {
    enum { QUERIES_MAX = 64 };
    int fds[QUERIES_MAX];
    char path[PATH_MAX];
    if (string_format(path, sizeof path, NULL, "/api/v1/%s", crew->attack->text) < 0) _exit(1);
    for (unsigned i = 0; i < crew->attack->count; i++) fds[i] = crew_dial(crew);
    while (crew->stage->is_on) {
        for (unsigned i = 0; i < crew->attack->count; i++)
            if (fds[i] < 0 || !crew_request(fds[i], "GET", path, NULL, 0)) crew->stage->refused++;
        for (unsigned i = 0; i < crew->attack->count; i++)
            if (fds[i] >= 0 && !crew_await_answer(fds[i])) fds[i] = fd_close(fds[i]);
        for (unsigned i = 0; i < crew->attack->count; i++)
            if (fds[i] < 0) fds[i] = crew_dial(crew);
        crew->stage->strikes++;
        crew->stage->volleys++;
    }
    for (unsigned i = 0; i < crew->attack->count; i++) fd_close(fds[i]);
}
