/* ops/run: joins the rows of the table to the engine's functions. */
#ifndef OPS_RUN_H
#define OPS_RUN_H

#include "core/core.h"
#include "ops/table.h"

/* Check the caller's role and the parameters (request->params is replaced by the completed ones), then run. Failures
   arrive through request->done like any other answer; a refused role or parameter does so before this returns. */
void ops_run(struct engine *engine, const struct op *op, struct request *request);

/* The engine's function for a row; NULL for local operations, which are answered without it. */
engine_fn *ops_runner(const struct op *op);

#endif
