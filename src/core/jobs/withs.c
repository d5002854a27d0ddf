/* The folders that a caller hands over with a project. */
#include "core/jobs/withs.h"

#include <stdio.h>

#include "core/core_internal.h"

static void open_next(struct withs *withs);

static int take(struct withs *withs, const struct link_project *project, struct error *reterr) {
    struct compile_with *with = &withs->opened[withs->count];
    const char *path = json_string_value(json_array_get(withs->paths, withs->count));
    *with = (struct compile_with){.path = path, .fd = project->fd};
    snprintf(with->token, sizeof with->token, "%s", project->token);
    withs->count++;
    if (project->is_file) return error_set(reterr, E_INVALID, "%s is no folder", path);
    if (project->is_stream)
        return error_set(reterr, E_INVALID, "%s can't be mounted here, so it can't be handed over", path);
    return 0;
}

static void on_opened(void *data, const struct link_project *project, const struct error *error) {
    struct withs *withs = data;
    struct error own;
    if (!error && take(withs, project, &own) < 0) error = &own;
    if (error)
        withs->done(withs->data, error);
    else
        open_next(withs);
}

static void open_next(struct withs *withs) {
    const char *path = json_string_value(json_array_get(withs->paths, withs->count));
    if (!path || withs->count == WITHS_MAX)
        withs->done(withs->data, NULL);
    else
        link_open_project(withs->engine->host.link, withs->caller->peer_fd, path, on_opened, withs);
}

void withs_open(struct withs *withs, struct engine *engine, const struct caller *caller, json_t *paths,
                void (*done)(void *data, const struct error *error), void *data) {
    *withs = (struct withs){.engine = engine, .caller = caller, .paths = paths, .done = done, .data = data};
    struct error error;
    if (json_array_size(paths) > 0 && caller->peer_fd < 0) {
        error_set(&error, E_INVALID, "only callers on the unix socket may hand over a folder of this host");
        done(data, &error);
        return;
    }
    open_next(withs);
}

void withs_release(struct withs *withs) {
    for (size_t i = 0; i < withs->count; i++) {
        fd_close(withs->opened[i].fd);
        link_release_project(withs->engine->host.link, withs->opened[i].token);
    }
    withs->count = 0;
}
