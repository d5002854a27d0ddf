/* Everything that the service makes in its home, in one table: a home that root restored from a backup is known by it.
   An entry that the daemon or a client makes anew gets a row here; integration tests look for those that have none. */
#include <string.h>

#include "launcher/home.h"

static const struct {
    const char *name;
    bool is_start; /* files whose names go on after it belong to it too */
} entries[] = {
    {"start.lock", false},    /* a client that starts the service */
    {"launcher.lock", false}, /* the launcher's, with its pid */
    {"daemon.lock", false},   /* the daemon's */
    {"launcher.sock", false}, /* where the daemon dials the launcher */
    {"api.sock", false},      /* where clients dial the daemon */
    {"daemon.log", true},     /* of both, and those that were rotated */
    {"sandbox.conf", false},  /* the operator's settings */
    {"registry.db", true},    /* sandboxes and events, and what SQLite keeps beside it */
    {"reload.key", false},    /* signs the ids of reloads */
    {"audit", false},         /* the audit trail */
    {"store", false},         /* builds and caches */
    {"nodes", false},         /* sockets of nodes */
    {"toolchain", false},     /* boot files, by toolchain */
    {"volumes", false},       /* images of named volumes: root's */
    {"launcher", false},      /* records of nodes, without root */
};

bool home_may_hold(const char *name) {
    for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
        if (strcmp(name, entries[i].name) == 0 || (entries[i].is_start && string_starts(name, entries[i].name)))
            return true;
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}
