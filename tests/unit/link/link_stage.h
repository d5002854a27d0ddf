/* The daemon's link to the launcher, with a launcher played by the test. */
#ifndef TESTS_LINK_STAGE_H
#define TESTS_LINK_STAGE_H

#include "link/link_internal.h"

/* The link under test, a launcher played by the test on the same thread, and a record of what the link reported. */
struct link_stage {
    uv_loop_t loop;
    struct launcher_link *link;
    struct buf story;
    char home[64];
    int server_fd;
    int launcher_fd; /* the accepted connection */
    size_t descriptors_before;
    bool closed;
    char message[JAIL_MESSAGE_BYTES + 1];
};

extern const struct link_handler link_stage_handler; /* its data is the stage */

int link_stage_open_group(void **state);
int link_stage_set_up(void **state);
int link_stage_tear_down(void **state); /* fails where a handle or a descriptor is left */

/* What came of a request, into the story. */
void on_done(void *data, const struct error *error);
void on_spawned(void *data, const struct link_node *node, const struct error *error);
void on_buried(void *data, const struct jail_death *death, const struct error *error);
void on_disks(void *data, const int fds[JAIL_DISKS], const struct error *error);
void on_project(void *data, const struct link_project *project, const struct error *error);
void on_port(void *data, const struct link_port *port, const struct error *error);
void on_closed(void *data);
/* All that was told since the last time. */
void assert_story(struct link_stage *stage, const char *expected);

/* Run the loop until fd is readable, or with -1 until the link has told something. */
void run_until_readable(struct link_stage *stage, int fd);
void run_until_told(struct link_stage *stage);

/* The launcher's part. */
void listen_at(struct link_stage *stage);
void accept_dial(struct link_stage *stage); /* and hear the hello */
void come_up(struct link_stage *stage);     /* the whole greeting */
void close_link(struct link_stage *stage);
/* The next message from the link; *ret_fd gets its descriptor or -1. */
const char *hear(struct link_stage *stage, int *ret_fd);
void assert_heard(struct link_stage *stage, const char *expected);
/* Say something, with as many copies of /dev/null as wanted. */
void say_with(struct link_stage *stage, const char *text, size_t size, size_t fd_count);
void say(struct link_stage *stage, const char *text);
int say_with_pipe(struct link_stage *stage, const char *text); /* returns the end to write to */

#endif
