/* "SOURCE:PATH[:ro]", as the option -v has it: what is mounted into a sandbox, and where. Pure. */
#ifndef BASE_DATA_MOUNT_TEXT_H
#define BASE_DATA_MOUNT_TEXT_H

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"

enum { MOUNT_PLACE_BYTES = 256 };

struct mount_text {
    char source[PATH_MAX]; /* a folder's path, or a volume's name */
    char place[MOUNT_PLACE_BYTES];
    bool is_read_only;
};

/* Takes it apart; whether source and place will do is for others to say. The place begins at the last ":/" but one
   that ends the text; neither holds control characters. E_INVALID. */
int mount_text_parse(const char *text, struct mount_text *ret, struct error *reterr);
/* A path, not a volume's name: it has a slash, or is "." or "..". */
bool mount_text_is_folder(const char *source);

#endif
