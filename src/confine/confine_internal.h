/* Between the files of confine. */
#ifndef CONFINE_CONFINE_INTERNAL_H
#define CONFINE_CONFINE_INTERNAL_H

#include "base/base.h"
#include "confine/confine.h"
#include "jail/syscalls.h"

/* The system calls that the daemon makes. */
const struct syscall_table *confine_syscalls(void);

#endif
