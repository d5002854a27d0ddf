/* client: libsandbox. Its API is include/sandbox.h; here is what the command line needs besides. */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <jansson.h>
#include <limits.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/base.h"

/* A home's path is bounded by what the kernel takes as a socket's. */
enum { CLIENT_HOME_BYTES = sizeof(((struct sockaddr_un *)0)->sun_path) };

/* The home to use: the given one, else $SANDBOX_HOME, else the user's default; absolute. E_INVALID when its sockets'
   paths would be too long for the kernel. */
int client_home(const char *given, char ret[CLIENT_HOME_BYTES], struct error *reterr);

/* Where one of our programs is: beside the running program or the library, or in its ../libexec/sandbox. */
int client_find_program(const char *name, char ret[PATH_MAX], struct error *reterr);

/* The pid that a lock file of a home names; 0 when it names none or can't be read. */
pid_t client_lock_owner(const char *home, const char *lock);

/* The programs of a home's service, to wait for their end. */
enum { CLIENT_PROGRAMS = 2 };
struct client_watch {
    int pidfds[CLIENT_PROGRAMS]; /* -1: not running, or not to be seen */
};

void client_watch_open(const char *home, struct client_watch *ret);
bool client_watch_wait(const struct client_watch *watch, uint64_t timeout_ms); /* false: the time is over */
void client_watch_close(struct client_watch *watch);

#endif
