/* config: what a sandbox is made of, from a caller's parameters, and to and from the registry. */
#ifndef CORE_SANDBOX_CONFIG_H
#define CORE_SANDBOX_CONFIG_H

#include <jansson.h>

#include "base/base.h"
#include "compile/compile.h"
#include "core/limits/limits.h"
#include "core/network/ports.h"
#include "core/policy/compile_bounds.h"
#include "guard/profiles.h"
#include "jail/jail.h"

/* What a caller asked for; everything needed to start the sandbox again. */
struct sandbox_config {
    char *source;
    char *app;                /* NULL: the project's own */
    char *supervisor;         /* NULL: the application's */
    char *restart;            /* as written */
    char *toolchain;          /* its name; NULL: the default */
    json_t *own_toolchain;    /* where it is, if it is its owner's own; NULL */
    char *mix_env;            /* of its project; NULL: the project's own */
    json_t *with;             /* paths that are handed over with the source; NULL: none */
    json_t *env;              /* its values and those of the next may be secrets: nothing shows them */
    json_t *volumes;          /* texts as the option -v has them; NULL: none */
    uint64_t data_size_bytes; /* of the volume that is its /data; 0: there is none */
    char *volumes_key; /* what its permissions for folders and its own volume are called by; NULL: it has neither */
    json_t *files;     /* of configuration, an object from names to text; NULL: none */
    const struct guard_profile *profile;
    struct jail_limits limits;
    struct limit_policies policies;
    struct compile_bounds compile_bounds;
    enum compile_extra extra;             /* COMPILE_WITH_PROJECT: it runs a task of Mix and no application */
    struct sandbox_ports ports;           /* published, and connected to */
    bool ephemeral;                       /* it belongs to a run, and ends with it */
    bool watch;                           /* compile and reload whatever changes in the source */
    json_t *migrate;                      /* expressions for states whose module a save changes; NULL: none */
    json_t *watch_ignore, *watch_include; /* patterns; NULL: none */
};

/* The key of its volumes, where it has any: it is kept with the sandbox. */
int sandbox_config_make_key(struct sandbox_config *config, struct error *reterr);
void sandbox_config_free(struct sandbox_config *config);
/* From a caller's checked parameters, or from what sandbox_config_to_json made. */
json_t *sandbox_config_to_json(const struct sandbox_config *config);
int sandbox_config_from_json(const struct guard_profiles *profiles, json_t *json, struct sandbox_config *ret,
                             struct error *reterr);

#endif
