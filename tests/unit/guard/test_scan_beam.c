/* Modules that are labelled with what there is to find in them: all of it is found, and nothing else. */
#include "guard_test.h"

#include <dirent.h>

enum { FILE_MAX_BYTES = 1 << 20, LEAST_GUILTY = 40, LEAST_INNOCENT = 40, LABELS_MAX = 8 };

struct labels {
    char *texts[LABELS_MAX];
    size_t count;
};

static void labels_free(struct labels *labels) {
    for (size_t i = 0; i < labels->count; i++) free(labels->texts[i]);
}

static void add_label(struct labels *labels, const struct term *term) {
    assert_true(labels->count < LABELS_MAX);
    if (term_to_string(term, &labels->texts[labels->count])) labels->count++;
}

/* An Erlang module has an attribute for each, with the text; an Elixir module one with a list of texts. */
static void read_labels(const struct beam *beam, struct labels *ret) {
    CLEANUP_TERM struct term_doc *attributes = NULL;
    const struct term *pair, *text;
    assert_int_equal(beam_attributes(beam, &attributes, NULL), 0);
    for (size_t i = 0; (pair = term_at(term_root(attributes), i)); i++) {
        const struct term *value = term_at(pair, 1);
        if (!term_is_atom(term_at(pair, 0), "finding") || value->type != TERM_LIST) continue;
        if (term_at(value, 0)->type == TERM_INTEGER)
            add_label(ret, value);
        else
            for (size_t j = 0; (text = term_at(value, j)); j++) add_label(ret, text);
    }
}

static int64_t read_dynamic(const struct beam *beam) {
    CLEANUP_TERM struct term_doc *attributes = NULL;
    assert_int_equal(beam_attributes(beam, &attributes, NULL), 0);
    const struct term *value = beam_find_value(term_root(attributes), "dynamic");
    int64_t count = 0;
    if (value && term_at(value, 0)) term_to_int64(term_at(value, 0), &count);
    return count;
}

static bool has_label(const struct labels *labels, const char *text) {
    for (size_t i = 0; i < labels->count; i++)
        if (strcmp(labels->texts[i], text) == 0) return true;
    return false;
}

/* "run/1 call os:cmd/1 os_command" */
static void check_finding(const char *name, const struct labels *labels, json_t *finding) {
    char text[256];
    snprintf(text, sizeof text, "%s %s %s %s", member(finding, "function"), member(finding, "kind"),
             member(finding, "calls"), member(finding, "operation"));
    if (!has_label(labels, text)) fail_msg("%s: found \"%s\"", name, text);
    bool has_place = json_is_integer(json_object_get(finding, "line")) && strstr(member(finding, "file"), "/labelled/");
    if (!has_place && strcmp(member(finding, "kind"), "child_spec") != 0) fail_msg("%s: no place", name);
}

static bool check_module(const char *name, const struct beam *beam) {
    CLEANUP(labels_free) struct labels labels = {0};
    CLEANUP(scan_free) struct scan_report report = {0};
    struct error error = {0};
    size_t index;
    json_t *finding;
    read_labels(beam, &labels);
    begin(&report, STRICT);
    if (scan_beam(&report, beam, &error) < 0) fail_msg("%s: %s", name, error.detail);
    json_array_foreach(report.findings, index, finding) check_finding(name, &labels, finding);
    if (report.finding_count != labels.count)
        fail_msg("%s: %zu of %zu found", name, (size_t)report.finding_count, labels.count);
    if ((int64_t)report.dynamic_count != read_dynamic(beam))
        fail_msg("%s: %d dynamic calls", name, (int)report.dynamic_count);
    return labels.count > 0;
}

/* The same with everything allowed. */
static void check_nothing(const char *name, const struct beam *beam) {
    CLEANUP(scan_free) struct scan_report report = {0};
    begin(&report, "all");
    assert_int_equal(scan_beam(&report, beam, NULL), 0);
    if (report.finding_count > 0) fail_msg("%s: found what is allowed", name);
}

static bool check_file(const char *name) {
    char path[PATH_MAX];
    CLEANUP_FREE uint8_t *data = NULL;
    CLEANUP_BEAM struct beam *beam = NULL;
    struct error error = {0};
    size_t size;
    snprintf(path, sizeof path, "%s/%s", LABELLED, name);
    if (file_load(path, FILE_MAX_BYTES, &data, &size, &error) < 0 ||
        beam_read(data, size, &beam_default_options, &beam, &error) < 0)
        fail_msg("%s: %s", name, error.detail);
    check_nothing(name, beam);
    return check_module(name, beam);
}

static void test_labelled(void **state) {
    (void)state;
    unsigned guilty = 0, innocent = 0;
    DIR *folder = opendir(LABELLED);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (!string_ends(entry->d_name, ".beam")) continue;
        if (check_file(entry->d_name))
            guilty++;
        else
            innocent++;
    }
    closedir(folder);
    assert_true(guilty >= LEAST_GUILTY && innocent >= LEAST_INNOCENT);
}

/* ---- what a report says ---- */

static void scan_labelled(const char *name, struct scan_report *report) {
    char path[PATH_MAX];
    CLEANUP_FREE uint8_t *data = NULL;
    CLEANUP_BEAM struct beam *beam = NULL;
    size_t size;
    snprintf(path, sizeof path, "%s/%s.beam", LABELLED, name);
    assert_int_equal(file_load(path, FILE_MAX_BYTES, &data, &size, NULL), 0);
    assert_int_equal(beam_read(data, size, &beam_default_options, &beam, NULL), 0);
    assert_int_equal(scan_beam(report, beam, NULL), 0);
}

static void test_finding_tells_all(void **state) {
    (void)state;
    CLEANUP(scan_free) struct scan_report report = {0};
    begin(&report, STRICT);
    scan_labelled("guilty_cmd", &report);
    json_t *finding = json_array_get(report.findings, 0);
    assert_string_equal(member(finding, "module"), "guilty_cmd");
    assert_int_equal(json_integer_value(json_object_get(finding, "line")), 5);
    assert_non_null(strstr(member(finding, "file"), "guilty_cmd.erl"));
    assert_non_null(strstr(member(finding, "detail"), "calls os:cmd/1"));
    assert_non_null(strstr(member(finding, "allow"), "os_command"));
    assert_string_equal(member(finding, "held"), "starting a program is refused");
}

static void test_dynamic_and_notes(void **state) {
    (void)state;
    CLEANUP(scan_free) struct scan_report report = {0};
    begin(&report, STRICT);
    scan_labelled("innocent_dynamic_function", &report);
    scan_labelled("innocent_dynamic_call", &report);
    scan_labelled("innocent_on_load", &report);
    assert_string_equal(member(json_array_get(report.dynamic, 0), "calls"), "os:_/0");
    assert_string_equal(member(json_array_get(report.dynamic, 1), "calls"), "_:handle/1");
    assert_string_equal(member(json_array_get(report.notes, 0), "kind"), "on_load");
    json_t *json = scan_to_json(&report);
    assert_int_equal(json_integer_value(json_object_get(json, "dynamic_count")), 2);
    assert_int_equal(json_integer_value(json_object_get(json, "finding_count")), 0);
    json_decref(json);
}

/* The same module again finds nothing new. */
static void test_each_is_told_once(void **state) {
    (void)state;
    CLEANUP(scan_free) struct scan_report report = {0};
    begin(&report, STRICT);
    scan_labelled("guilty_cmd", &report);
    scan_labelled("guilty_cmd", &report);
    assert_int_equal(report.finding_count, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labelled),
        cmocka_unit_test(test_finding_tells_all),
        cmocka_unit_test(test_dynamic_and_notes),
        cmocka_unit_test(test_each_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
