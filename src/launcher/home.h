/* What is the launcher's on this machine: the home, and as root a slot of uids. */
#ifndef LAUNCHER_HOME_H
#define LAUNCHER_HOME_H

#include <limits.h>

#include "base/base.h"

#define SLOT_UID_BASE 1000000000u /* far from the ids that people, services and subordinate ranges have */

enum { SLOT_UIDS = 65536, SLOTS_MAX = 4096 };

struct launcher;

struct home {
    char path[PATH_MAX];
    int fd;
    int lock_fd;
};

struct slot {
    int fd;
    unsigned number;
    int records_fd; /* the directory of what a later launcher is to know */
};

/* Make and open the home, take its lock; as root take a slot too and give the home to the daemon's uid. */
int home_open(struct launcher *launcher, const char *path, struct error *reterr);
/* Whether the service makes an entry of this name in its home. */
bool home_may_hold(const char *name);
/* Remove what a service that ends for good leaves: sockets, records, the slot. */
void home_close(struct launcher *launcher);
/* E_CONFLICT when another launcher serves this home. Fills the slot. */
int slot_take(struct launcher *launcher, struct error *reterr);
void slot_give_back(struct launcher *launcher);
/* Act with the daemon's uid and gid on files, until fs_rights_restore; capabilities over files are off meanwhile. */
void fs_rights_of_daemon(const struct launcher *launcher);
void fs_rights_restore(const struct launcher *launcher);

#endif
