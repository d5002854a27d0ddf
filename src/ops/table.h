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
    OP_ID,   /* 1–64 of [A-Za-z0-9._-], not starting with a dot or a dash */
    OP_PATH, /* the CLI makes it absolute */
    OP_MODULE,
    OP_INTEGER,
    OP_SIZE,     /* bytes: a number, or text such as "64M" */
    OP_DURATION, /* milliseconds: a number, or text such as "5s" */
    OP_PERCENT,  /* a number, or text such as "50%"; 100 is one core */
    OP_BOOLEAN,
    OP_CHOICE,
    OP_RESTART, /* never, on-failure, on-failure:N, always */
    OP_TEXTS,   /* a list; the CLI repeats the flag */
    OP_PAIRS,   /* an object of text; the CLI repeats K=V */
};

enum op_param_flags {
    OP_REQUIRED = 1 << 0,
    OP_POSITIONAL = 1 << 1, /* in the CLI, in the order of the row */
    OP_IN_PATH = 1 << 2,    /* a :name in the HTTP path */
    OP_REST = 1 << 3,       /* the CLI takes any number of it: one request each (destroy A B C) */
};

struct op_param {
    const char *name; /* JSON name; the CLI's flag with dashes for underscores */
    enum op_type type;
    unsigned flags;
    const char *fallback; /* JSON text of the default, or NULL: absent */
    int64_t min, max;     /* of numbers after conversion, and of the length of text; 0, 0: the type's own */
    const char *choices;  /* "elixir|erlang" */
    const char *summary;
};

enum op_role { OP_ROLE_VIEWER, OP_ROLE_OPERATOR, OP_ROLE_ADMIN };
enum op_audit { OP_AUDIT_NONE, OP_AUDIT_WRITE };
enum op_shape {
    OP_OBJECT,
    OP_LIST,
    OP_STREAM
}; /* what it answers: one object, a list that pages, items as they come */
enum op_start { OP_STARTS_SERVICE, OP_NEEDS_NO_SERVICE };

struct op {
    const char *name; /* also the CLI's command */
    const char *method;
    const char *path; /* "/api/v1/sandboxes/:id" */
    enum op_role role;
    enum op_audit audit;
    enum op_shape shape;
    enum op_start start; /* whether the CLI starts the service for it */
    const char *summary;
    const char *example;
    const struct op_param *params;
    size_t param_count;
};

const struct op *ops_table(size_t *ret_count);
const struct op *ops_find(const char *name); /* NULL when unknown */

/* The operation that method and path name; path parameters are put into params as text. E_NOT_FOUND, or E_METHOD when
   only the method is wrong. */
int ops_route(const char *method, const char *path, json_t *params, const struct op **ret, struct error *reterr);

/* Check what a stranger sent against the row: unknown names, missing ones, types, bounds. *ret is a new object with
   every value in its own unit (integers for sizes, durations and percents) and the defaults filled in. E_INVALID names
   the parameter, its value and what is expected. */
int ops_check(const struct op *op, const json_t *input, json_t **ret, struct error *reterr);

/* The OpenAPI 3.1 document of the whole table. */
json_t *ops_openapi(void);

#endif
