/* manifest: what was compiled from what. A record per source file: what it held, the modules it gave, and everything
   that its compilation depended on. Names come from compiler nodes, so nothing here is believed beyond its project. */
#ifndef COMPILE_CACHE_MANIFEST_H
#define COMPILE_CACHE_MANIFEST_H

#include <jansson.h>

#include "base/base.h"
#include "beam/beam.h"
#include "compile/answer_budget.h"
#include "compile/project/tree.h"
#include "term/term.h"

struct name_list {
    char **items;
    size_t count, capacity;
};

bool name_list_add(struct name_list *list, const char *name); /* false without memory */
void name_list_free(struct name_list *list);
/* The texts of a list; false when it holds anything else, or more than max. */
bool name_list_from_term(const struct term *list, size_t max, struct name_list *ret);

/* What a module takes part in that is decided by looking at several of them together. */
enum module_part {
    PART_OF_PROTOCOL = 1, /* a protocol, or an implementation of one */
    PART_OF_START = 2,    /* an application's callback, or a supervisor */
    PARTS_ALL = 3,
};

struct compiled_module {
    char *name;                        /* as the VM has it: Elixir.Counter */
    char checksum[BEAM_DIGEST_BYTES];  /* of what is loaded */
    char interface[BEAM_DIGEST_BYTES]; /* of what others are compiled against */
    unsigned parts;                    /* of enum module_part */
    uint8_t *beam;                     /* owned; NULL: it lies in the build that the manifest came from */
    size_t beam_size;
};

struct record {
    char *path; /* of the source, from the project's folder */
    char *app;
    uint8_t digest[DIGEST_BYTES];  /* of the source */
    uint8_t options[DIGEST_BYTES]; /* of how it was compiled */
    struct compiled_module *modules;
    size_t module_count;
    struct name_list compile; /* modules whose code ran while it was compiled */
    struct name_list exports; /* modules whose interface it was compiled against */
    struct name_list runtime; /* modules it refers to otherwise */
    struct name_list files;   /* that were read besides it: headers and the like */
    bool reads_config;        /* of the project, while it was compiled */
    json_t *warnings;
    size_t warnings_left_out;     /* that there was no room for */
    uint8_t inputs[DIGEST_BYTES]; /* of all that it was compiled from, as plan.c tells */

    bool is_compiled; /* the rest is known */
    bool is_new;      /* the node compiled it in this job */
    bool is_in_round;
    struct answer_budget held; /* of the job's room, for its output */
    unsigned compilations;     /* of it in this job */
    unsigned mark;             /* of the walk of the graph under way */
    struct record **edges;     /* what it depends on, in any way */
    size_t edge_count;
};

struct record *record_new(const char *path, const char *app); /* NULL without memory */
struct record *record_free(struct record *record);            /* accepts NULL, returns NULL */
void record_forget_output(struct record *record);             /* leaves path, app, digest and options */

/* Take room for a record's output, or give it back. Warnings that there is no room for are left out. E_TOO_LARGE when
   the rest does not fit. */
int record_hold(struct record *record, struct answer_budget *budget, struct error *reterr);
void record_give_budget(struct record *record, struct answer_budget *budget);

/* One file of a compiler node's answer, checked: names become file names, beams are validated against the toolchain's
   generation. The record gets its output from it, and holds room for it. Blocking for as long as its beams are large.
 */
int record_take_answer(struct record *record, const struct term *file, struct answer_budget *budget,
                       struct error *reterr);
int record_check_beams(struct record *record, unsigned otp, struct answer_budget *budget, struct error *reterr);

json_t *record_to_json(const struct record *record); /* without beams */
struct record *record_from_json(const json_t *json); /* NULL when it is not one */

/* Whether a name that a stranger gave may become part of a path. */
bool is_app_name(const char *name);
bool is_module_name(const char *name);
bool is_relative_path(const char *path);

struct manifest {
    struct record **records; /* by application, in their order, then by path */
    size_t count, capacity;
};

bool manifest_add(struct manifest *manifest, struct record *record); /* takes it over, also on failure */
void manifest_free(struct manifest *manifest);
json_t *manifest_to_json(const struct manifest *manifest);
bool manifest_from_json(const json_t *array, struct manifest *ret);

#endif
