/* Files of a running node, as the daemon asks the launcher for them. */
#ifndef JAIL_FILES_H
#define JAIL_FILES_H

enum { JAIL_FILE_PIECE = 256 * 1024 }; /* bytes of a file that are read or written at once */

#endif
