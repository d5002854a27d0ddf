/* client: libsandbox. Its API is include/sandbox.h; here is what the command line needs besides. */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <limits.h>
#include <sys/un.h>

#include "base/base.h"

/* A home's path is bounded by what the kernel takes as a socket's. */
enum { CLIENT_HOME_BYTES = sizeof(((struct sockaddr_un *)0)->sun_path) };

/* The home to use: the given one, else $SANDBOX_HOME, else the user's default; absolute. E_INVALID when its sockets'
   paths would be too long for the kernel. */
int client_home(const char *given, char ret[CLIENT_HOME_BYTES], struct error *reterr);

/* Where one of our programs is: beside the running program or the library, or in its ../libexec/sandbox. */
int client_find_program(const char *name, char ret[PATH_MAX], struct error *reterr);

#endif
