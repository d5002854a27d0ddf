/* Scans a BEAM file: every call in its code and every constant, against the operations that a profile allows. */
#include <stdlib.h>
#include <string.h>

#include "guard/guard_internal.h"

enum {
    ARGUMENT_MAX_BYTES = 4096, /* of a constant that is decoded at each call: modes, child specifications */
    MODES_ARGUMENT = 1,
};

/* Facts about an import, looked up once for all its calls. */
struct import_facts {
    int operation;       /* that the call takes */
    int writing;         /* that it takes to open for writing; negative: it opens nothing */
    int module_argument; /* of an indirect call; negative: it is a direct one */
};

struct beam_scan {
    struct scan_report *report;
    const struct beam *beam;
    const struct beam_import *imports;
    struct import_facts *facts;
    const char *source; /* the module's source file; NULL: unknown */
};

static struct scan_place place_of(const struct beam_scan *scan, const struct beam_site *site) {
    struct beam_text file = site->file;
    if (file.size == 0 && scan->source) file = (struct beam_text){scan->source, strlen(scan->source)};
    return (struct scan_place){.module = beam_module(scan->beam),
                               .function = site->function,
                               .arity = site->arity,
                               .file = file,
                               .line = site->line};
}

/* Decodes a small constant; *ret stays NULL for others. */
static int decode_small(const struct beam *beam, struct beam_value value, struct term_doc **ret, struct error *reterr) {
    const uint8_t *data;
    size_t size;
    if (value.known != BEAM_LITERAL) return 0;
    beam_literal_bytes(beam, value.literal, &data, &size);
    return size <= ARGUMENT_MAX_BYTES ? beam_literal(beam, value.literal, ret, reterr) : 0;
}

static bool opens_for_writing(const struct beam_scan *scan, const struct beam_site *site) {
    CLEANUP_TERM struct term_doc *modes = NULL;
    if (decode_small(scan->beam, site->arguments[MODES_ARGUMENT], &modes, NULL) < 0 || !modes) return false;
    return scan_modes_write(term_root(modes));
}

/* The target is known if module and function are atoms. */
static int see_named(struct beam_scan *scan, const struct scan_place *place, const struct beam_value *module, int arity,
                     struct error *reterr) {
    const struct beam_value *function = module + 1;
    struct scan_target target = {.arity = arity};
    if (module->known == BEAM_ATOM) target.module = module->atom;
    if (function->known == BEAM_ATOM) target.function = function->atom;
    if (target.module.size > 0 && target.function.size > 0)
        return scan_call(scan->report, SCAN_CALL, place, &target, reterr);
    return scan_add_dynamic(scan->report, place, &target, reterr);
}

static int see_call(struct beam_scan *scan, const struct beam_site *site, const struct scan_place *place,
                    struct error *reterr) {
    const struct beam_import *import = &scan->imports[site->import];
    const struct import_facts *facts = &scan->facts[site->import];
    struct scan_target target = {.module = import->module, .function = import->function, .arity = (int)import->arity};
    bool writes = facts->writing >= 0 && opens_for_writing(scan, site);
    int operation = writes ? facts->writing : facts->operation;
    int result = 0;
    if (operation >= 0 && !(scan->report->allowed >> operation & 1))
        result = scan_add_finding(scan->report, SCAN_CALL, place, &target, operation, reterr);
    if (result < 0 || facts->module_argument < 0) return result;
    return see_named(scan, place, &site->arguments[facts->module_argument], SCAN_ANY_ARITY, reterr);
}

static int see_literal(struct beam_scan *scan, uint32_t literal, const struct scan_place *place, struct error *reterr) {
    CLEANUP_TERM struct term_doc *doc = NULL;
    const uint8_t *data;
    size_t size;
    beam_literal_bytes(scan->beam, literal, &data, &size);
    if (!scan_term_may_matter(data, size)) return 0;
    int result = beam_literal(scan->beam, literal, &doc, reterr);
    return result < 0 ? result : scan_term(scan->report, place, term_root(doc), reterr);
}

static int see_child(struct beam_scan *scan, struct beam_value start, const struct scan_place *place,
                     struct error *reterr) {
    CLEANUP_TERM struct term_doc *doc = NULL;
    struct scan_target target = {.module = start.atom, .function = start.function, .arity = SCAN_ANY_ARITY};
    int result = decode_small(scan->beam, start, &doc, reterr);
    if (result < 0) return result;
    if (start.known != BEAM_START && (!doc || !scan_start_of(term_root(doc), &target))) return 0;
    return scan_call(scan->report, SCAN_CHILD, place, &target, reterr);
}

static int see_site(void *data, const struct beam_site *site, struct error *reterr) {
    struct beam_scan *scan = data;
    struct scan_place place = place_of(scan, site);
    switch (site->kind) {
    case BEAM_SITE_CALL: return see_call(scan, site, &place, reterr);
    case BEAM_SITE_APPLY:
        if (site->is_field) return 0;
        return see_named(scan, &place, site->arguments, (int)site->called_arity, reterr);
    case BEAM_SITE_LITERAL: return see_literal(scan, site->literal, &place, reterr);
    case BEAM_SITE_CHILD: return see_child(scan, site->arguments[0], &place, reterr);
    }
    return 0;
}

static bool exports_transform(const struct beam *beam) {
    size_t count;
    const struct beam_function *exports = beam_exports(beam, &count);
    for (size_t i = 0; i < count; i++)
        if (exports[i].arity == 2 && guard_text_is(exports[i].name, "parse_transform")) return true;
    return false;
}

static int note_times(struct beam_scan *scan, struct error *reterr) {
    struct beam_site nowhere = {0};
    struct scan_place place = place_of(scan, &nowhere);
    int result = 0;
    if (beam_has_on_load(scan->beam))
        result = scan_add_note(scan->report, "on_load", &place, "runs a function of its own when it is loaded", reterr);
    if (result == 0 && exports_transform(scan->beam))
        result =
            scan_add_note(scan->report, "parse_transform", &place, "runs in the compiler, which is jailed too", reterr);
    return result;
}

static struct import_facts *facts_of(const struct beam_import *imports, size_t count) {
    struct import_facts *facts = calloc(count + 1, sizeof *facts);
    for (size_t i = 0; facts && i < count; i++) {
        struct beam_text module = imports[i].module, function = imports[i].function;
        int arity = (int)imports[i].arity;
        facts[i] = (struct import_facts){
            .operation = operation_of_call(module, function, arity),
            .writing = operation_of_writing(module, function, arity),
            .module_argument = indirect_module_argument(&imports[i]),
        };
    }
    return facts;
}

int scan_beam(struct scan_report *report, const struct beam *beam, struct error *reterr) {
    size_t count;
    const struct beam_import *imports = beam_imports(beam, &count);
    CLEANUP_FREE char *source = beam_source(beam);
    CLEANUP_FREE struct import_facts *facts = facts_of(imports, count);
    struct beam_scan scan = {.report = report, .beam = beam, .imports = imports, .facts = facts, .source = source};
    if (!facts) return error_set(reterr, E_NO_MEMORY, "no memory to scan a BEAM file");
    int result = note_times(&scan, reterr);
    return result < 0 ? result : beam_each_site(beam, see_site, &scan, reterr);
}
