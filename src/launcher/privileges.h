/* For processes that leave the privileges of the launcher behind, and for its own priority. */
#ifndef LAUNCHER_PRIVILEGES_H
#define LAUNCHER_PRIVILEGES_H

#include <stddef.h>
#include <sys/types.h>

#include "base/base.h"

int privileges_drop_bounding(struct error *reterr);
int privileges_drop_all(struct error *reterr); /* capabilities, and no_new_privs */
int privileges_become(uid_t uid, gid_t gid, const gid_t *groups, size_t group_count, struct error *reterr);
void signals_reset(void); /* defaults, none blocked */
/* The service does not wait for its turn behind those that it holds. Root's alone to have. */
void priority_raise(void);
void priority_reset(void); /* whatever runs for others runs like others */

#endif
