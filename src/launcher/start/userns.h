/* User namespaces: of nodes, and for mounts that show a project's files as another user's. */
#ifndef LAUNCHER_START_USERNS_H
#define LAUNCHER_START_USERNS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/base.h"

struct userns_map {
    uid_t inside_uid, outside_uid;
    gid_t inside_gid, outside_gid;
};

enum { USERNS_KEPT = 16 }; /* callers whose projects are opened often */

struct userns_cache {
    struct userns_entry {
        bool is_used;
        struct userns_map map;
        int fd;
    } entries[USERNS_KEPT];
    size_t next; /* to be replaced */
};

/* Write "inside outside 1" maps for a process in a new user namespace. */
int userns_write_maps(pid_t pid, const struct userns_map *map, bool root, struct error *reterr);
/* A user namespace with just these two mappings, for an idmapped mount. */
int userns_make(const struct userns_map *map, int *ret_fd, struct error *reterr);
/* The same from those that were made lately; the descriptor stays the cache's. Negative: there is none to be had. */
int userns_get(struct userns_cache *cache, const struct userns_map *map, struct error *reterr);
void userns_cache_free(struct userns_cache *cache);

#endif
