/* Shared by the files of guard. */
#ifndef GUARD_GUARD_INTERNAL_H
#define GUARD_GUARD_INTERNAL_H

#include "guard/guard.h"

/* The operation that a call takes, by its row in the table; GUARD_NO_OPERATION: none. */
int operation_of_call(struct beam_text module, struct beam_text function, int arity);
/* The operation that the call takes if its second argument opens for writing. */
int operation_of_writing(struct beam_text module, struct beam_text function, int arity);

/* For a function that calls another one given by arguments: the index of the module argument, which the function's name
   follows. Negative for other functions. */
int indirect_module_argument(const struct beam_import *import);

bool guard_text_is(struct beam_text text, const char *string);

/* ---- scan_report.c ---- */

/* Where a finding is. */
struct scan_place {
    struct beam_text module;   /* empty: unknown */
    struct beam_text function; /* likewise */
    uint32_t arity;
    struct beam_text file;
    uint32_t line;
};

struct scan_target {
    struct beam_text module;   /* empty: known only at run time */
    struct beam_text function; /* likewise */
    int arity;
};

enum scan_kind { SCAN_CALL, SCAN_REFERENCE, SCAN_CHILD, SCAN_MACRO, SCAN_SOURCE };

int scan_add_finding(struct scan_report *report, enum scan_kind kind, const struct scan_place *place,
                     const struct scan_target *target, int operation, struct error *reterr);
int scan_add_dynamic(struct scan_report *report, const struct scan_place *place, const struct scan_target *target,
                     struct error *reterr);
int scan_add_note(struct scan_report *report, const char *kind, const struct scan_place *place, const char *detail,
                  struct error *reterr);
/* Whether a BEAM file had a finding of this target on this line or a neighbouring one. */
bool scan_is_known(const struct scan_report *report, const struct scan_place *place, const struct scan_target *target);

/* Notes a call with a known target: it is a finding if its operation is not allowed. */
int scan_call(struct scan_report *report, enum scan_kind kind, const struct scan_place *place,
              const struct scan_target *target, struct error *reterr);

/* ---- scan_term.c: constants ---- */

/* Whether the bytes can hold anything that has to be decoded. */
bool scan_term_may_matter(const uint8_t *data, size_t size);
int scan_term(struct scan_report *report, const struct scan_place *place, const struct term *term,
              struct error *reterr);
/* {Module, Function, Arguments} as a target; false for other terms. */
bool scan_start_of(const struct term *term, struct scan_target *ret);
bool scan_modes_write(const struct term *term);

#endif
