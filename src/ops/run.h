/* ops/run: joins the rows of the table to the engine's functions. */
#ifndef OPS_RUN_H
#define OPS_RUN_H

#include "core/core.h"
#include "ops/table.h"

/* Check the caller's role and the parameters (request->params is replaced by the completed ones), then run. Failures
   arrive through request->done like any other answer; a refused role or parameter does so before this returns. */
void ops_run(struct engine *engine, const struct op *op, struct request *request);

/* The same for parameters that ops_check has completed already: only the role is looked at. */
void ops_run_checked(struct engine *engine, const struct op *op, struct request *request);
/* Whether the caller's role allows it. E_UNAUTHENTICATED, E_FORBIDDEN. */
int ops_check_role(const struct op *op, const struct caller *caller, struct error *reterr);
/* Answer one whose parameters were refused; the audit trail hears of it. */
void ops_refuse(struct engine *engine, const struct op *op, struct request *request, const struct error *error);

/* The engine's function for a row; NULL for local operations, which are answered without it. */
engine_fn *ops_runner(const struct op *op);

#endif
