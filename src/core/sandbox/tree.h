/* tree: the node of a sandbox and the application on it. */
#ifndef CORE_SANDBOX_TREE_H
#define CORE_SANDBOX_TREE_H

#include "node/node.h"

struct sandbox;

enum {
    NODE_TEXT_MAX_BYTES = 255, /* names that a node says it has */
};

extern const struct node_handler tree_node_handler;
/* Tell what a node of the sandbox's, its compiler's too, tried and was refused. */
void tree_violation(struct sandbox *sandbox, struct node *node, const char *what, const char *detail);

/* Start a node with the sandbox's build and the application on it; `started` is called once, unless tree_end is before
   that. */
void tree_start(struct sandbox *sandbox, void (*started)(struct sandbox *sandbox, const struct error *error));
void tree_go_on(struct sandbox *sandbox); /* with a start that waited for what names stand for */
/* Kill the node, if there is one; `ended` is called once it is gone with all it had. Not from inside unless there is
   none. */
void tree_end(struct sandbox *sandbox, void (*ended)(struct sandbox *sandbox));
/* Its VM ended with the machine, which is no failure of its own: any restart policy starts it again, without one it is
   stopped. */
void tree_ended_with_host(struct sandbox *sandbox);

#endif
