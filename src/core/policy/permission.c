/* Opening a path for a caller: with the rights of the connection's peer, or by its standing permission. */
#include "core/policy/permission.h"
#include "core/core_internal.h"

int caller_check_paths(const struct caller *caller, struct error *reterr) {
    if (caller->peer_fd >= 0 || caller->grant) return 0;
    return error_set(reterr, E_INVALID, "only callers on the unix socket may have a path of this host read");
}

/* A permission is for one path only, the launcher knows which. */
void caller_open_project(struct engine *engine, const struct caller *caller, const char *path, link_project_fn done,
                         void *data) {
    if (caller->grant)
        link_open_granted(engine->host.link, caller->grant, done, data);
    else
        link_open_project(engine->host.link, caller->peer_fd, path, done, data);
}
