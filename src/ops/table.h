/* ops/table: every operation there is, declared once, as data. The CLI, the HTTP service, the clients, the docs and
   parameter checks are made from it; it links against nothing of the engine. */
#ifndef OPS_TABLE_H
#define OPS_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

enum op_type {
    OP_TEXT,
    OP_ID,     /* 1–64 of [A-Za-z0-9._-], not starting with a dot or a dash */
    OP_PATH,   /* absolute; the CLI makes it so */
    OP_NAME,   /* 1–255 bytes without space or control characters */
    OP_MODULE, /* the same, as either language writes it */
    OP_INTEGER,
    OP_SIZE,     /* bytes: a number, or text such as "64M" */
    OP_DURATION, /* milliseconds: a number, or text such as "5s" */
    OP_PERCENT,  /* a number, or text such as "50%"; 100 is one core */
    OP_BOOLEAN,
    OP_CHOICE,
    OP_RESTART,     /* never, on-failure, on-failure:N, always */
    OP_TEXTS,       /* a list of names; the CLI repeats the flag */
    OP_PATHS,       /* a list of absolute paths; the CLI takes any number of words */
    OP_EXPRESSIONS, /* a list of code; the same */
    OP_PAIRS,       /* an object of text, its names those of environment variables; the CLI repeats K=V */
    OP_WORDS,       /* a list of any text; the CLI takes all words that are left */
    OP_MOUNTS,      /* a list of "SOURCE:PATH[:ro]"; the CLI makes folders absolute, and repeats the flag */
    OP_FILES,       /* an object of texts, its names those of files; the CLI reads the files */
    OP_TYPE_COUNT
};

enum op_param_flags {
    OP_REQUIRED = 1 << 0,
    OP_POSITIONAL = 1 << 1, /* in the CLI, in the order of the row */
    OP_IN_PATH = 1 << 2,    /* a :name in the HTTP path */
    OP_REST = 1 << 3,       /* the CLI takes any number of it: one request each (destroy A B C) */
    OP_CLIENT = 1 << 4,     /* the CLI's own affair: never sent, and refused from others */
    OP_VERBATIM = 1 << 5,   /* in the CLI, all words from its first one on are its own, those with a dash too */
};

struct op_param {
    const char *name; /* JSON name */
    enum op_type type;
    unsigned flags;
    const char *flag;     /* the CLI's flag without its dashes, or NULL: the name with dashes for underscores */
    const char *fallback; /* JSON text of the default, or NULL: absent */
    int64_t min, max;     /* of numbers after conversion, and of the length of text; 0, 0: the type's own */
    const char *choices;  /* "elixir|erlang" */
    const char *summary;
};

/* What it answers: one object, a list that pages, items as they come. */
enum op_shape { OP_OBJECT, OP_LIST, OP_STREAM };

/* Whether a client starts the service for it. A local operation is answered without the engine: by the table itself
   (then it has a path) or by the CLI alone (then it has none). */
enum op_start { OP_STARTS_SERVICE, OP_NEEDS_NO_SERVICE, OP_LOCAL };

struct op {
    const char *name;   /* also the CLI's command */
    const char *method; /* NULL: not served over HTTP */
    const char *path;   /* "/api/v1/sandboxes/:id"; NULL like the method */
    enum role role;     /* the least that its caller must have */
    enum audit_kind audit;
    enum op_shape shape;
    enum op_start start;
    const char *summary;
    const char *example;
    const struct op_param *params;
    size_t param_count;
};

enum {
    OP_ID_MAX_BYTES = 64,
    OP_NAME_MAX_BYTES = 255,
    OP_EXPRESSION_MAX_BYTES = 64 << 10, /* an atom's length in the VM */
    OP_PATH_MAX_BYTES = 4095,
    OP_VARIABLE_MAX_BYTES = 32 * 1024, /* name and value of an environment variable */
    OP_PAIRS_MAX_BYTES = 128 * 1024,   /* of all of them: the registry's entry of a sandbox has them */
    OP_FILES_MAX_BYTES = 128 * 1024,   /* the same */
};

const struct op *ops_table(size_t *ret_count);
const struct op *ops_find(const char *name); /* NULL when unknown */
const struct op_param *ops_param(const struct op *op, const char *name);

/* The operation that method and path name. The path is without its query and already percent-decoded; its parameters
   are put into params as text. E_NOT_FOUND, or E_METHOD when only the method is wrong. */
int ops_route(const char *method, const char *path, json_t *params, const struct op **ret, struct error *reterr);

/* The methods a path answers to, as an Allow header has them: "GET, POST"; "" when there is no such path. */
enum { OPS_ALLOW_BYTES = 64 };
void ops_allow(const char *path, char ret[OPS_ALLOW_BYTES]);

/* Check what a stranger sent against the row: unknown names, missing ones, types, bounds. Input may be NULL: nothing
   was sent. *ret is a new object with every value in its own unit (integers for sizes, durations and percents) and the
   defaults filled in; null counts as absent. E_INVALID names the parameter, its value and what is expected. */
int ops_check(const struct op *op, const json_t *input, json_t **ret, struct error *reterr);

/* The same for one value of one parameter; the error does not name the parameter. */
int ops_convert(const struct op_param *param, const json_t *value, json_t **ret, struct error *reterr);

/* What a text, and a list or an object of texts, may hold at most. */
int64_t ops_text_max(const struct op_param *param);
int64_t ops_entries_max(const struct op_param *param);
/* How long a request's parameters may be as JSON. */
size_t ops_body_max(const struct op *op);

bool ops_id_valid(const char *id);

/* The table as JSON: an array with an object per operation, as GET /api/v1/operations answers. NULL without memory. */
json_t *ops_describe(void);
const char *ops_type_name(enum op_type type);
const char *ops_role_name(enum role role);
const char *ops_shape_name(enum op_shape shape);

/* An error as a problem (RFC 9457), and what one may hold, as a JSON schema. NULL without memory. */
json_t *ops_problem(const struct error *error);
json_t *ops_problem_schema(void);

/* The OpenAPI 3.1 document of the whole table. NULL without memory. */
json_t *ops_openapi(void);

#endif
