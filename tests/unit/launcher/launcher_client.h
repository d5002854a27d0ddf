/* Drives a real launcher over its socket, in the daemon's place. */
#ifndef TESTS_LAUNCHER_CLIENT_H
#define TESTS_LAUNCHER_CLIENT_H

#include <sys/types.h>

#include "jail/plan.h"
#include "jail/wire.h"
#include "slowness.h"

enum { USER_UID = 12345, OUTPUT_BYTES = 8192 };

struct client {
    bool root;           /* the launcher runs as root, or as USER_UID */
    bool has_old_kernel; /* which knows nothing of notified system calls */
    char directory[64];  /* of the test: home, programs, projects */
    char home[80];
    uid_t daemon_uid;
    pid_t launcher;
    int log_fd; /* the launcher's stderr */
    int link_fd;
    uint64_t next_id;
    char message[JAIL_MESSAGE_BYTES + 1]; /* the last one received */
    int fds[2];                           /* that came with it; -1 */
    struct buf unasked;                   /* messages that answer nothing, a line each */
};

void client_open(struct client *client, bool root);
void client_open_on_old_kernel(struct client *client, bool root);
/* Start a launcher, and wait until it is ready. */
void client_start_launcher(struct client *client);
void client_dial(struct client *client);
void client_hello(struct client *client); /* until "ready" */
/* Kill it, and wait. Returns its wait status. */
int client_kill_launcher(struct client *client, int signal_number);
/* Shut the service down and check that nothing is left. */
void client_close(struct client *client);

void client_send(struct client *client, const char *text, int fd); /* fd -1: none goes with it */
/* Send "verb id rest", and wait for the answer, which is client->message from after the id: "ok…" as "…". True for ok.
 */
bool client_ask(struct client *client, const char *verb, const char *rest, int fd);
/* Wait for one more unasked message. */
void client_pump(struct client *client);
/* Wait for an unasked message that contains text. */
void client_await(struct client *client, const char *text);
/* Spawn a node that runs the probe with the given attempts (separated by spaces) and more plan lines. */
bool client_spawn(struct client *client, const char *node, const char *more, const char *attempts);
/* Ask for limits in a running node: lines of a plan. */
bool client_limit(struct client *client, const char *node, const char *limits);
/* The same, and everything it printed until it ended. */
void client_probe(struct client *client, const char *node, const char *more, const char *attempts,
                  char ret[OUTPUT_BYTES]);
/* Read the node's output until text appears in it. */
void client_read_until(int output_fd, const char *text);
/* The process that runs the node's program, as the host sees it. */
pid_t client_program_of(pid_t init);
void client_await_death(int pidfd);
/* Bury the node; the answer is the cause, status and count that are expected. */
void client_assert_death(struct client *client, const char *node, const char *expected);
uint64_t client_number(const struct client *client, const char *key); /* of the last answer */
/* The directory that the last answer names, e.g. memory=. */
void client_directory(const struct client *client, const char *key, char ret[256]);
/* Whether a node does, given where its CPU time is counted: cpu=. */
uint64_t client_yielding(const char *accounting);
/* Percent-decoded in place; the last answer's detail. */
const char *client_detail(struct client *client);

/* A connection to the home's api.sock made by uid: *ret_peer is the accepted end, the result the other. */
int client_connect_as(struct client *client, uid_t uid, int *ret_peer);
void write_file(const char *path, const char *text, uid_t owner, mode_t mode);
void make_directory(const char *path, uid_t owner, mode_t mode);

/* A group's set-up: a launcher of root's and one of an ordinary user's; and a test's, which chooses one as its state.
 */
int clients_open(void **state);
int clients_close(void **state);
int client_as_root(void **state);
int client_as_user(void **state);

#define BOTH(function)                                                                                                 \
    {#function " (root)", function, client_as_root, NULL, NULL}, {                                                     \
#function " (user)", function, client_as_user, NULL, NULL                                                      \
    }
#define ROOT(function)                                                                                                 \
    { #function, function, client_as_root, NULL, NULL }

#endif
