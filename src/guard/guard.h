/* guard: the operations that a profile may allow, what each means to the kernel and to a scan, and the scans of BEAM
   files and source text. Nothing here asks the system. */
#ifndef GUARD_GUARD_H
#define GUARD_GUARD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "beam/beam.h"

/* ---- operations ---- */

typedef uint32_t operation_set; /* one bit for each row of the table */

/* What the jail must provide for an operation. Without it the kernel refuses the operation, whatever a scan says. */
enum guard_need {
    GUARD_NEEDS_NETWORK = 1 << 0,  /* a network, at least its own loopback */
    GUARD_NEEDS_EXEC = 1 << 1,     /* programs other than the VM */
    GUARD_NEEDS_NATIVE = 1 << 2,   /* the application's own files mapped executable */
    GUARD_NEEDS_OUTGOING = 1 << 3, /* outgoing connections */
};

/* Functions of a module that take the operation. */
struct import_rule {
    const char *module;
    const char *functions; /* "read_file open/2 list_*", or "*": by name, by name and arity, by prefix, all */
};

struct guard_operation {
    const char *name;
    const char *summary;
    const char *held;                  /* how the kernel enforces a missing permission */
    unsigned needs;                    /* bits of enum guard_need */
    const struct import_rule *imports; /* ends with a row without a module, like `opens` */
    const struct import_rule *opens;   /* calls that take it when their second argument is a constant with `write` */
};

enum { GUARD_NO_OPERATION = -1 };

const struct guard_operation *guard_operations(size_t *ret_count);
/* Parses "basic_otp, file_read". E_INVALID names an unknown operation. `all` is every bit. */
int guard_operations_parse(const char *text, operation_set *ret, struct error *reterr);
unsigned guard_operations_need(operation_set operations); /* bits of enum guard_need */

/* ---- scanning ---- */

enum {
    SCAN_FINDINGS_MAX = 1000, /* of each list in a report; more are only counted */
    SCAN_ANY_ARITY = -1,
};

struct scan_report {
    operation_set allowed;
    json_t *findings; /* calls that the profile does not allow */
    json_t *dynamic;  /* calls whose target is known only at run time */
    json_t *notes;    /* code that runs outside normal calls: -on_load, parse transforms */
    uint64_t finding_count, dynamic_count;
    struct map seen; /* reported findings, so that each is reported once */
};

int scan_begin(operation_set allowed, struct scan_report *ret, struct error *reterr);
void scan_free(struct scan_report *report);

int scan_beam(struct scan_report *report, const struct beam *beam, struct error *reterr);

/* Scans a source text after the BEAM files made from it, for code that is in none of them. path is only shown. */
enum scan_language { SCAN_ERLANG, SCAN_ELIXIR };
int scan_source(struct scan_report *report, const char *path, const char *text, size_t size,
                enum scan_language language, struct error *reterr);

/* Returns {findings[], dynamic[], notes[], finding_count, dynamic_count} as a new reference; NULL without memory. */
json_t *scan_to_json(const struct scan_report *report);

#endif
