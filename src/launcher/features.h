/* What this host can enforce. */
#ifndef LAUNCHER_FEATURES_H
#define LAUNCHER_FEATURES_H

#include "jail/jail.h"
#include "launcher/cgroup/cgroup.h"

/* Find out by trying, without side effects that stay. */
void features_probe(struct jail_features *ret);
/* What the cgroups that were found, or made, can enforce. */
void features_note_cgroups(struct jail_features *features, const struct cgroup_host *host);

#endif
