/* The report of a scan: findings, dynamic calls and notes as JSON, each reported once, with names in the form of their
   language. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard/guard_internal.h"

enum { NAME_MAX_BYTES = 512 }; /* of a shown module or function; atoms have 255 characters */

#define ALIAS_START "Elixir."

static int no_memory(struct error *reterr) {
    return error_set(reterr, E_NO_MEMORY, "no memory for what a scan found");
}

int scan_begin(operation_set allowed, struct scan_report *ret, struct error *reterr) {
    struct scan_report report = {
        .allowed = allowed, .findings = json_array(), .dynamic = json_array(), .notes = json_array()};
    if (!report.findings || !report.dynamic || !report.notes) {
        scan_free(&report);
        return no_memory(reterr);
    }
    *ret = report;
    return 0;
}

void scan_free(struct scan_report *report) {
    json_decref(report->findings);
    json_decref(report->dynamic);
    json_decref(report->notes);
    map_free(&report->seen);
    *report = (struct scan_report){0};
}

json_t *scan_to_json(const struct scan_report *report) {
    return json_pack("{s:O, s:O, s:O, s:I, s:I}", "findings", report->findings, "dynamic", report->dynamic, "notes",
                     report->notes, "finding_count", (json_int_t)report->finding_count, "dynamic_count",
                     (json_int_t)report->dynamic_count);
}

/* ---- names in the form of their language ---- */

static bool is_elixir(struct beam_text module) {
    return module.size > strlen(ALIAS_START) && memcmp(module.data, ALIAS_START, strlen(ALIAS_START)) == 0;
}

static void put_text(struct buf *buf, struct beam_text text) {
    escape_text(buf, text.data, text.size < NAME_MAX_BYTES ? text.size : NAME_MAX_BYTES);
}

/* Not for a size of 0: the pointer of an empty text may be NULL. */
static struct beam_text without_start(struct beam_text text, size_t size) {
    return (struct beam_text){text.data + size, text.size - size};
}

static void put_module(struct buf *buf, struct beam_text module) {
    put_text(buf, is_elixir(module) ? without_start(module, strlen(ALIAS_START)) : module);
}

/* "os:cmd/1", "System.cmd/2", "os:_/1" */
static void put_target(struct buf *buf, const struct scan_target *target) {
    if (target->module.size > 0)
        put_module(buf, target->module);
    else
        buf_append_byte(buf, '_');
    buf_append_byte(buf, is_elixir(target->module) ? '.' : ':');
    if (target->function.size > 0)
        put_text(buf, target->function);
    else
        buf_append_byte(buf, '_');
    if (target->arity != SCAN_ANY_ARITY) buf_printf(buf, "/%d", target->arity);
}

/* A closure is named "-run/1-fun-0-" and a macro "MACRO-run" with one more parameter. Both belong to run. */
static void put_function(struct buf *buf, struct beam_text name, uint32_t arity) {
    static const char macro[] = "MACRO-";
    const char *dash = name.size > 1 && name.data[0] == '-' ? memchr(name.data + 1, '-', name.size - 1) : NULL;
    if (dash && memchr(name.data + 1, '/', (size_t)(dash - name.data - 1))) {
        put_text(buf, (struct beam_text){name.data + 1, (size_t)(dash - name.data - 1)});
        return;
    }
    bool is_macro = name.size > strlen(macro) && memcmp(name.data, macro, strlen(macro)) == 0;
    put_text(buf, is_macro ? without_start(name, strlen(macro)) : name);
    buf_printf(buf, "/%u", is_macro && arity > 0 ? arity - 1 : arity);
}

/* ---- entries ---- */

static void set_buf(json_t *object, const char *name, struct buf *buf) {
    json_object_set_new(object, name, buf->size > 0 ? json_string(buf_string(buf)) : json_null());
    buf_clear(buf);
}

static json_t *place_json(const struct scan_place *place) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    json_t *object = json_object();
    if (place->module.size > 0) put_module(&text, place->module);
    set_buf(object, "module", &text);
    if (place->function.size > 0) put_function(&text, place->function, place->arity);
    set_buf(object, "function", &text);
    put_text(&text, place->file);
    set_buf(object, "file", &text);
    json_object_set_new(object, "line", place->line > 0 ? json_integer(place->line) : json_null());
    return object;
}

static int append(json_t *list, json_t *object, struct error *reterr) {
    return json_array_append_new(list, object) < 0 ? no_memory(reterr) : 0;
}

/* Compilers may note different paths for the same file. The last part is the same in all of them. */
static struct beam_text last_part(struct beam_text path) {
    const char *slash = path.size > 0 ? memrchr(path.data, '/', path.size) : NULL;
    if (!slash) return path; /* which may be empty */
    return without_start(path, (size_t)(slash + 1 - path.data));
}

static void put_key(struct buf *key, struct beam_text file, uint32_t line, const struct scan_target *target) {
    struct scan_target name = {.module = target->module, .function = target->function, .arity = SCAN_ANY_ARITY};
    put_text(key, last_part(file));
    buf_printf(key, ":%u ", line);
    put_target(key, &name);
}

bool scan_is_known(const struct scan_report *report, const struct scan_place *place, const struct scan_target *target) {
    CLEANUP(buf_free) struct buf key = BUF_INIT;
    for (uint32_t line = place->line > 0 ? place->line - 1 : 0; line <= place->line + 1; line++) {
        buf_clear(&key);
        put_key(&key, place->file, line, target);
        if (map_get(&report->seen, buf_string(&key))) return true;
    }
    return false;
}

/* False if the same finding was reported for this place already. */
static bool is_new(struct scan_report *report, enum scan_kind kind, const struct scan_place *place,
                   const struct scan_target *target) {
    CLEANUP(buf_free) struct buf key = BUF_INIT;
    put_key(&key, place->file, place->line, target);
    if (kind != SCAN_SOURCE) map_set(&report->seen, buf_string(&key), report);
    put_module(&key, place->module);
    put_function(&key, place->function, place->arity);
    buf_printf(&key, " %d", (int)kind);
    if (map_get(&report->seen, buf_string(&key))) return false;
    map_set(&report->seen, buf_string(&key), report);
    return true;
}

static const struct {
    const char *slug;
    const char *meaning;
} kinds[] = {
    [SCAN_CALL] = {"call", "calls"},
    [SCAN_REFERENCE] = {"reference", "refers to"},
    [SCAN_CHILD] = {"child_spec", "has a child that is started by"},
    [SCAN_MACRO] = {"macro", "puts into other modules a call of"},
    [SCAN_SOURCE] = {"source", "while it is compiled, or in a macro, calls"},
};

/* "calls os:cmd/1, which takes the operation os_command; starting a program is refused" */
static json_t *finding_json(enum scan_kind kind, const struct scan_place *place, const struct scan_target *target,
                            const struct guard_operation *operation) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    json_t *object = place_json(place);
    json_object_set_new(object, "kind", json_string(kinds[kind].slug));
    put_target(&text, target);
    set_buf(object, "calls", &text);
    json_object_set_new(object, "operation", json_string(operation->name));
    buf_printf(&text, "%s ", kinds[kind].meaning);
    put_target(&text, target);
    buf_printf(&text, ", which takes the operation %s (%s)", operation->name, operation->summary);
    set_buf(object, "detail", &text);
    json_object_set_new(object, "held", json_string(operation->held));
    buf_printf(&text, "choose a profile whose operations have %s: `sandbox profiles` lists them", operation->name);
    set_buf(object, "allow", &text);
    return object;
}

int scan_add_finding(struct scan_report *report, enum scan_kind kind, const struct scan_place *place,
                     const struct scan_target *target, int operation, struct error *reterr) {
    size_t count;
    const struct guard_operation *operations = guard_operations(&count);
    bool is_listed = report->finding_count < SCAN_FINDINGS_MAX;
    if (is_listed && !is_new(report, kind, place, target)) return 0;
    report->finding_count++;
    if (!is_listed) return 0;
    return append(report->findings, finding_json(kind, place, target, &operations[operation]), reterr);
}

int scan_add_dynamic(struct scan_report *report, const struct scan_place *place, const struct scan_target *target,
                     struct error *reterr) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    if (report->dynamic_count++ >= SCAN_FINDINGS_MAX) return 0;
    json_t *object = place_json(place);
    put_target(&text, target);
    set_buf(object, "calls", &text);
    return append(report->dynamic, object, reterr);
}

int scan_add_note(struct scan_report *report, const char *kind, const struct scan_place *place, const char *detail,
                  struct error *reterr) {
    if (json_array_size(report->notes) >= SCAN_FINDINGS_MAX) return 0;
    json_t *object = place_json(place);
    json_object_set_new(object, "kind", json_string(kind));
    json_object_set_new(object, "detail", json_string(detail));
    return append(report->notes, object, reterr);
}

int scan_call(struct scan_report *report, enum scan_kind kind, const struct scan_place *place,
              const struct scan_target *target, struct error *reterr) {
    int operation = operation_of_call(target->module, target->function, target->arity);
    if (operation < 0 || report->allowed >> operation & 1) return 0;
    return scan_add_finding(report, kind, place, target, operation, reterr);
}
