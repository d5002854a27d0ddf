/* ops/run: joins the rows of the table to the engine's functions. */
#ifndef OPS_RUN_H
#define OPS_RUN_H

#include "core/core.h"
#include "ops/table.h"

/* Run with parameters that ops_check has completed, where the caller's role allows it. Refusal is why ops_check refused
   them, NULL where it did not; a role that is missing is told before it. Failures arrive through request->done like any
   other answer, these before this returns. The audit trail hears of each. */
void ops_run(struct engine *engine, const struct op *op, struct request *request, const struct error *refusal);

/* The engine's function for a row; NULL for local operations, which are answered without it. */
engine_fn *ops_runner(const struct op *op);

#endif
