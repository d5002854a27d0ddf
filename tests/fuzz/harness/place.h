/* A folder for the files that a target reads, one for the whole run: making one for each input would take most of its
   time. */
#ifndef FUZZ_PLACE_H
#define FUZZ_PLACE_H

#include <stddef.h>

const char *place_path(void); /* absolute; removed with all that is in it when the process ends by itself */
/* Write the bytes to a file below it, in place of what was there. */
void place_write(const char *name, const void *data, size_t size);
void place_remove(const char *name); /* or a folder of files */

#endif
