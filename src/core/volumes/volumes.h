/* volumes: what a sandbox has mounted besides its own: folders of its owner's, and named volumes. Folders are opened as
   the owner once, at create, by which the launcher gets a standing permission; with that each node of the sandbox gets
   them. */
#ifndef CORE_VOLUMES_VOLUMES_H
#define CORE_VOLUMES_VOLUMES_H

#include <jansson.h>

#include "base/base.h"
#include "core/core.h"

enum { VOLUMES_MAX = 8, VOLUMES_KEY_BYTES = 33, VOLUMES_NAME_BYTES = VOLUMES_KEY_BYTES + 8 };

struct sandbox;

/* Texts as the option -v has them. E_INVALID: a source or a place that won't do, or two places of which one is the
   other or lies in it. */
int volumes_check(json_t *volumes, struct error *reterr);
/* A name for the permissions of a new sandbox, which no other has; NULL: no memory. */
char *volumes_make_key(void);
/* What an answer tells of them. */
json_t *volumes_to_json(json_t *volumes);

/* The volume that is the sandbox's /data; NULL: it has none. */
const char *volumes_name_data(const struct sandbox *sandbox, char ret[VOLUMES_NAME_BYTES]);
/* Have the caller's folders opened and kept, and begin to make the sandbox's own volume. Done is called once, from
   inside where there are none. */
void volumes_grant(struct sandbox *sandbox, const struct caller *caller,
                   void (*done)(void *data, const struct error *error), void *data);
/* Mount all of them in the sandbox's node. Done is called once, from inside where there are none, unless the node has
   gone meanwhile. */
void volumes_mount(struct sandbox *sandbox, void (*done)(struct sandbox *sandbox, const struct error *error));
/* The sandbox is gone for good. */
void volumes_withdraw(struct sandbox *sandbox);
/* Of what earlier daemons were given, only what sandboxes have stays. */
void volumes_sweep(struct engine *engine);

/* ---- named.c ---- */

/* Ask a launcher that is new which there are, and have what no sandbox has any more removed. They are kept. */
void volumes_learn(struct engine *engine);
/* Of a sandbox whose caller did not say. */
uint64_t volumes_data_size(uint64_t disk_bytes);
/* E_GUARANTEE: /data can't be a volume here. E_INVALID: not of this size. */
int volumes_check_data(const struct engine *engine, uint64_t size_bytes, struct error *reterr);
/* Begin to make a sandbox's own volume, at the cost of its owner. Its job awaits the end, once, before it starts a node
   or ends. */
int volumes_make_data(struct sandbox *sandbox, int peer_fd, struct error *reterr);
void volumes_await_data(struct sandbox *sandbox, void (*done)(void *data, const struct error *error), void *data);
/* Remove it with all that is in it. */
void volumes_remove_data(struct sandbox *sandbox);
void volumes_forget(struct engine *engine); /* which there are */
/* E_NOT_FOUND: a volume that is not there, or not the caller's. */
int volumes_check_access(struct engine *engine, const struct caller *caller, json_t *volumes, struct error *reterr);

#endif
