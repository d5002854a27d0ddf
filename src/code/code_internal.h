/* Between the files of code. */
#ifndef CODE_CODE_INTERNAL_H
#define CODE_CODE_INTERNAL_H

#include "code/code.h"

/* A file as it is, bounded. Blocking. */
int code_file_load(const char *path, uint8_t **ret, size_t *ret_size, struct error *reterr);

#endif
