/* model: what a project is, as a compiler node found it to be. */
#ifndef COMPILE_PROJECT_MODEL_H
#define COMPILE_PROJECT_MODEL_H

#include "compile/cache/manifest.h"
#include "loop/loop.h"

struct model_app {
    char *name;
    char *dir; /* below the project's folder; "" for that itself */
    struct name_list sources;
    uint8_t options[DIGEST_BYTES]; /* of everything besides sources that decides how they compile */
    bool has_priv;
    bool is_own;        /* no dependency: its warnings are told every time */
    bool has_compilers; /* compilers of its project's run whenever something of the project changed */
};

struct model {
    struct model_app *apps; /* in the order they are compiled */
    size_t app_count;
    char *main;    /* the application to start, or NULL */
    char *program; /* the module whose main/1 is a program, or NULL */
    char *mix_env; /* that a Mix project was described in, or NULL */
    bool is_loose; /* nothing says how it starts, so its modules are looked at for that */
    uint8_t *config;
    size_t config_size;
    uint8_t config_digest[DIGEST_BYTES];
    struct name_list described_by; /* the files that all this was read from, or would have been */
    json_t *problems;              /* warnings */
    size_t problems_left_out;
};

/* Checked, since it is a node's answer. *ret must be empty. */
int model_from_term(const struct term *answer, struct model *ret, struct error *reterr);
void model_free(struct model *model);
void model_discard(uv_loop_t *loop, struct model *model); /* the same on the pool: it may have thousands of sources */
const struct model_app *model_find(const struct model *model, const char *app);

/* Whether the project may be another one now: a file that describes it changed, or sources came or went. */
bool model_is_outdated(const struct model *model, const struct tree *before, const struct tree *now);

#endif
