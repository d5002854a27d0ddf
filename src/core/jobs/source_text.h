/* source_text: source text in place of a path: the parameters `code` and `file`. */
#ifndef CORE_JOBS_SOURCE_TEXT_H
#define CORE_JOBS_SOURCE_TEXT_H

#include <jansson.h>

#include "base/base.h"
#include "link/link.h"

int source_text_check(const json_t *params, bool has_path, struct error *reterr);
/* As a project of one file; its fd is the receiver's. */
int source_text_open(const json_t *params, struct link_project *ret, struct error *reterr);

#endif
