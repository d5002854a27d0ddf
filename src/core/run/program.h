/* program: what a run has in the foreground: a script, main/1 of an Erlang file, or a task of Mix. It ends the VM with
   its status. */
#ifndef CORE_RUN_PROGRAM_H
#define CORE_RUN_PROGRAM_H

#include <jansson.h>

#include "node/node.h"

struct sandbox;

/* Of a run's parameters. */
int program_check(const json_t *params, struct error *reterr);
bool program_is_wanted(const json_t *params);
/* Whether its sandbox, once it was created, has one: an escript is known when it was read. E_INVALID: there are
   arguments and no program that takes them. */
int program_find(const struct sandbox *sandbox, const json_t *params, bool *ret_is_there, struct error *reterr);
/* Parameters of the run that its sandbox is not created with. A script's is created for an empty project; its text is
   for the VM that runs it. */
void program_replace_source(json_t *params);

/* An answer without an error says that the application goes on without a program. */
void program_start(struct sandbox *sandbox, const json_t *params, node_reply_fn told, void *data);

#endif
