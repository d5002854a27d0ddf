/* What the integration tests share: a world is a home of the test's own with the real service on it. Whatever goes
   wrong in here fails the test. Operations take their parameters as json_pack does:

       struct world *world = world_open("heartbeat = 100ms\n");
       json_t *sandbox = world_op(world, "create", "{s:s, s:s}", "id", "a", "source", EXAMPLES "/counter");
       json_decref(sandbox);
       world_close(world);

   Several worlds may live at once, in one test or in many. One that a failing test leaves open ends with the process.
 */
#ifndef INTEGRATION_SUPPORT_H
#define INTEGRATION_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <sys/types.h>

#include "base/base.h"
#include "sandbox.h"
#include "slowness.h"

enum { WORLD_DEADLINE_MS = 15000 * TEST_SLOWNESS }; /* for what should take milliseconds */

struct world;

/* Settings are the lines of a sandbox.conf, or NULL. */
struct world *world_open(const char *settings);

/* Shut the service down and prove that nothing is left of it: no process, cgroup, mount, network namespace, socket,
   slot or node's directory. Then remove the home. */
void world_close(struct world *world);

const char *world_home(const struct world *world);
struct sbx *world_client(const struct world *world);
pid_t world_pid(const struct world *world, const char *lock); /* the owner of "daemon.lock" or "launcher.lock" */

/* A path in a folder of the world's, outside its home, that is removed with it; valid until the next 8 calls. */
const char *world_path(struct world *world, const char *name);
/* Write a file there, making the folders above it; the same path is returned. */
const char *world_file(struct world *world, const char *name, const char *text);
/* Copy a file there, or the first bytes of it; the copy's path is returned. */
const char *world_copy(struct world *world, const char *name, const char *from, size_t bytes_max);

/* The answer, a new reference. */
json_t *world_op(struct world *world, const char *op, const char *format, ...);
/* As world_op, for answers that the test does not want. */
void world_do(struct world *world, const char *op, const char *format, ...);
/* Expect the operation to fail with this code, or with any for NULL; the problem object, a new reference. */
json_t *world_fails(struct world *world, const char *op, const char *code, const char *format, ...);

json_t *world_create(struct world *world, const char *id, const char *source, const char *profile);
json_t *world_info(struct world *world, const char *id);
void world_destroy(struct world *world, const char *id);
/* Evaluate; the result's text as the language prints it. Language NULL: the project's. To be freed. */
char *world_eval_text(struct world *world, const char *id, const char *language, const char *code);
/* Evaluate what may well fail or never answer: its text, or the problem's code and detail after "! ". To be freed. */
char *world_try_eval(struct world *world, const char *id, const char *language, const char *code, uint32_t timeout_ms);

struct event_pattern {
    const char *kind;       /* NULL: any */
    const char *sandbox_id; /* NULL: any */
    const char *field;      /* of its data; NULL: none */
    const char *value;      /* what that field begins with */
};

/* The number of the last event so far. */
uint64_t world_now(struct world *world);
/* The first event after `since` that fits, waiting for it; a new reference. NULL when the deadline passes. */
json_t *world_find_event(struct world *world, uint64_t since, const struct event_pattern *pattern, uint64_t timeout_ms);
/* The same, but it must come within WORLD_DEADLINE_MS. */
json_t *world_wait_event(struct world *world, uint64_t since, const struct event_pattern *pattern);
/* What happened after `since` as the service told it, and its log, for people: a failure that comes once in a hundred
   runs must explain itself. */
void world_print_story(struct world *world, uint64_t since);
/* Wait until the sandbox has this status. */
void world_wait_status(struct world *world, uint64_t since, const char *id, const char *status);

/* A whole small file, terminated; NULL when it can't be read. To be freed. */
char *read_whole(const char *path);

#endif
