/* core/audit_record: the text of one record of the audit trail. */
#ifndef CORE_POLICY_AUDIT_RECORD_H
#define CORE_POLICY_AUDIT_RECORD_H

#include "core/core.h"

enum { AUDIT_RECORD_BYTES = 512 }; /* which most of them fit into */

/* The caller, the operation, the time and the origin; the phase is "begin" or "end". */
void audit_record_begin(struct buf *to, const char *op, const struct request *request, const char *phase);
/* What may be told of the parameters: long texts cut, of an environment the names, null when it is too much. */
void audit_record_params(struct buf *to, json_t *params);
void audit_record_outcome(struct buf *to, const struct error *error, uint64_t duration_ms);

#endif
