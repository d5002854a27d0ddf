/* A VM of a user's own toolchain: the launcher opens the folders with that user's rights, starts the VM with them, and
   forgets them. A folder that has gone meanwhile is an error that says so. */
#include <string.h>

#include "jail/plan.h"
#include "node/node_internal.h"

enum { FOLDERS_MAX = 2, TOKEN_BYTES = 65 };

struct opening {
    struct launcher_link *link;
    struct jail_plan plan;
    char grants[FOLDERS_MAX][TOOLCHAIN_GRANT_BYTES]; /* in the plan's place of the tokens */
    char tokens[FOLDERS_MAX][TOKEN_BYTES];
    size_t count, opened;
    link_spawned_fn done;
    void *data;
};

/* The plan has names of permissions where the launcher expects tokens of what was opened by them. */
static int put_tokens(struct opening *opening, struct error *reterr) {
    for (size_t i = 0; i < opening->plan.count; i++) {
        struct jail_plan_op *op = &opening->plan.ops[i];
        for (size_t n = 0; op->verb == JAIL_PLAN_TOOLCHAIN && n < opening->count; n++) {
            if (strcmp(op->words[0], opening->grants[n]) != 0) continue;
            char *token = strdup(opening->tokens[n]);
            if (!token) return error_set(reterr, E_NO_MEMORY, "no memory for a plan");
            free(op->words[0]);
            op->words[0] = token;
            break;
        }
    }
    return 0;
}

static void finish(struct opening *opening, const struct link_node *node, const struct error *error) {
    for (size_t i = 0; i < opening->opened; i++) link_release_project(opening->link, opening->tokens[i]);
    opening->done(opening->data, node, error);
    jail_plan_free(&opening->plan);
    free(opening);
}

static void on_spawned(void *data, const struct link_node *node, const struct error *error) {
    finish(data, node, error);
}

static void open_next(struct opening *opening);

static void on_opened(void *data, const struct link_project *project, const struct error *error) {
    struct opening *opening = data;
    struct error why;
    if (error) {
        error_set(&why, error->code == E_LAUNCHER ? E_LAUNCHER : E_TOOLCHAIN, "the toolchain can't be opened: %s",
                  error->detail);
        finish(opening, NULL, &why);
        return;
    }
    fd_close(project->fd);
    snprintf(opening->tokens[opening->opened++], TOKEN_BYTES, "%s", project->token);
    open_next(opening);
}

static void open_next(struct opening *opening) {
    struct error error;
    if (opening->opened < opening->count)
        link_open_granted_toolchain(opening->link, opening->grants[opening->opened], on_opened, opening);
    else if (put_tokens(opening, &error) < 0)
        finish(opening, NULL, &error);
    else
        link_spawn(opening->link, &opening->plan, on_spawned, opening);
}

static int copy_plan(const struct jail_plan *plan, struct jail_plan *ret) {
    for (size_t i = 0; i < plan->count; i++) {
        const struct jail_plan_op *op = &plan->ops[i];
        if (plan_add(ret, op->verb, op->words[0], op->words[1], op->number, NULL) < 0) return -1;
    }
    return 0;
}

void toolchain_spawn(struct launcher_link *link, const struct toolchain *toolchain, const struct jail_plan *plan,
                     link_spawned_fn done, void *data) {
    if (!toolchain->is_own) {
        link_spawn(link, plan, done, data);
        return;
    }
    struct opening *opening = new_or_abort(struct opening);
    *opening = (struct opening){.link = link, .done = done, .data = data};
    if (copy_plan(plan, &opening->plan) < 0) abort();
    const char *const grants[FOLDERS_MAX] = {toolchain->otp_grant, toolchain->elixir_grant};
    for (size_t i = 0; i < FOLDERS_MAX; i++)
        if (grants[i][0]) snprintf(opening->grants[opening->count++], TOOLCHAIN_GRANT_BYTES, "%s", grants[i]);
    open_next(opening);
}
