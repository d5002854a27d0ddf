/* Projects that the launcher sends as a stream: the caller gets them when all of their files have come. */
#include <stdio.h>
#include <stdlib.h>

#include "link/link_internal.h"
#include "link/spool.h"

enum {
    SILENCE_MAX_MS = 10000, /* a file system of the caller's own may never answer */
    STREAM_MAX_MS = 125000, /* the launcher ends the process that sends it before */
    TOKEN_BYTES = JAIL_NAME_BYTES,
    FILE_NAME_BYTES = 256,
};

#define STREAM_MAX_BYTES (640ULL << 20) /* the files that a project may have, and a line for each */

struct link_stream {
    struct link_stream *next;
    struct launcher_link *link;
    struct spool *spool;
    link_project_fn done;
    void *data;
    bool is_file;
    char token[TOKEN_BYTES];
    char name[FILE_NAME_BYTES];
};

static void unlist(struct link_stream *stream) {
    struct link_stream **at = link_streams(stream->link);
    while (*at != stream) at = &(*at)->next;
    *at = stream->next;
}

static void on_spooled(void *data, int fd, const struct error *error) {
    CLEANUP_FREE struct link_stream *stream = data;
    struct link_project project = {
        .token = stream->token, .fd = fd, .is_stream = true, .is_file = stream->is_file, .name = stream->name};
    unlist(stream);
    if (error) link_release_project(stream->link, stream->token);
    stream->done(stream->data, error ? NULL : &project, error);
    link_let_go(stream->link);
}

static int start(struct link_stream *stream, int pipe_fd, struct error *reterr) {
    static const struct spool_bounds bounds = {SILENCE_MAX_MS, STREAM_MAX_MS, STREAM_MAX_BYTES};
    stream->spool =
        spool_start(link_loop(stream->link), link_home(stream->link), pipe_fd, &bounds, on_spooled, stream, reterr);
    return stream->spool ? 0 : -1;
}

void link_stream_receive(struct launcher_link *link, const struct link_project *project, link_project_fn done,
                         void *data) {
    struct error error;
    struct link_stream *stream = new_or_abort(struct link_stream);
    *stream = (struct link_stream){
        .next = *link_streams(link), .link = link, .done = done, .data = data, .is_file = project->is_file};
    bool fits = string_format(stream->token, sizeof stream->token, &error, "%s", project->token) == 0 &&
                string_format(stream->name, sizeof stream->name, &error, "%s", project->name) == 0;
    if (!fits) fd_close(project->fd);
    if (!fits || start(stream, project->fd, &error) < 0) {
        link_release_project(link, project->token);
        done(data, NULL, &error);
        free(stream);
        return;
    }
    *link_streams(link) = stream;
    link_hold(link);
}

void link_streams_fail(struct launcher_link *link, const struct error *why) {
    for (struct link_stream *stream = *link_streams(link); stream; stream = stream->next)
        spool_cancel(stream->spool, why);
}
