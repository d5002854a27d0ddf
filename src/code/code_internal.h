/* Between the files of code. */
#ifndef CODE_CODE_INTERNAL_H
#define CODE_CODE_INTERNAL_H

#include "code/code.h"

enum { CODE_FILE_MAX_BYTES = 64 << 20 }; /* of one file of a build */

#endif
