/* tree: the node of a sandbox and the application on it. */
#ifndef CORE_SANDBOX_TREE_H
#define CORE_SANDBOX_TREE_H

#include "core/create/create_timing.h"
#include "node/node.h"

struct kept_states;
struct sandbox;

enum {
    NODE_TEXT_MAX_BYTES = 255, /* of a name that a node tells */
    STOP_MAX_MS = 5000,        /* for an application to stop before its VM is ended */
};

/* The application on a node: what runs, and what its start and its end lead to. */
struct tree_state {
    char *app_name, *supervisor_module, *app_pid, *supervisor_pid;
    void (*started)(void *data, const struct error *error);
    void *started_data;
    void (*ended)(void *data);
    void *ended_data;
    struct kept_states *states; /* that the new tree is to have; NULL: none */
    bool starts_fresh;          /* of a restart under way: it keeps no states */
    bool start_asked;
    bool is_lost;        /* the connection over which it was asked */
    bool is_warm;        /* its node waited in the pool */
    uint64_t schedulers; /* of its VM; 0: not known */
    struct create_timing timing;
    uint64_t settle_ms;   /* how long it must run to count as started, where nothing points to trouble */
    bool has_not_started; /* the last restart failed, so that this build has not run */
    bool stop_seen, stop_crashed;
    int exit_status; /* with which the VM ended by itself; -1: it has not */
    char stop_text[512];
};

extern const struct node_handler tree_node_handler;
/* Tell of an attempt that was refused: by a node of the sandbox, or by the compiler node of its project. */
void tree_violation(struct sandbox *sandbox, struct node *node, const char *what, const char *detail);

/* Start a node with the sandbox's build and the application on it, with the states of an earlier tree (NULL: none).
   `started` is called once, unless tree_end is called before. */
void tree_start(struct sandbox *sandbox, struct kept_states *states,
                void (*started)(void *data, const struct error *error), void *data);
void tree_go_on(struct sandbox *sandbox); /* a start that waited for the addresses of names */
/* Kill the node, if there is one. An application that runs and has files which outlive it is asked to stop before, for
   STOP_MAX_MS. `ended` is called once the node is gone with all it had; from inside if there is
   none. */
void tree_end(struct sandbox *sandbox, void (*ended)(void *data), void *data);
/* The VM ended with the machine, which is no failure of the sandbox: any restart policy starts it again. Without one
   it is stopped. */
void tree_ended_with_host(struct sandbox *sandbox);

/* start_args.c: what the agent of the sandbox's node is told for the start. Made is called from inside, or in a later
   turn of the loop; not at all when the start was called off meanwhile, or the node has gone. It takes the arguments.
 */
void start_args_make(struct sandbox *sandbox, bool is_elixir, void (*made)(struct sandbox *sandbox, struct buf *args));

/* Parts of it: what the caller gave, and the configuration that the compiler found, which is a file of the build. */
enum { START_CONFIG_PATH_BYTES = PATH_MAX + 32 };
struct sandbox_config;
void start_args_put_given(struct term_map *map, const struct sandbox_config *config);
bool start_args_find_config(const struct sandbox *sandbox, char ret[START_CONFIG_PATH_BYTES]);
/* On the pool. "", or a file that can't be read, is none. */
void start_args_put_config(const char *path, struct buf *args);

#endif
