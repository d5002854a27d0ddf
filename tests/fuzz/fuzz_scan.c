/* Any bytes at all, as a BEAM file or as source text of either language: a scan ends, and tells no more than it may. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/harness/fuzz.h"
#include "guard/guard.h"

static const struct beam_options bounds = {.max_bytes = 1 << 20, .max_terms = 1 << 14};

static void check(bool holds) {
    if (!holds) abort();
}

static void check_report(const struct scan_report *report) {
    check(json_array_size(report->findings) <= SCAN_FINDINGS_MAX &&
          json_array_size(report->notes) <= SCAN_FINDINGS_MAX);
    json_t *json = scan_to_json(report);
    check(json != NULL);
    json_decref(json);
}

static void scan_as_source(const uint8_t *data, size_t size, enum scan_language language) {
    struct scan_report report;
    check(scan_begin(0, &report, NULL) == 0);
    check(scan_source(&report, "lib/a.ex", (const char *)data, size, language, NULL) == 0);
    check_report(&report);
    scan_free(&report);
}

static void scan_as_beam(const uint8_t *data, size_t size) {
    struct beam *beam = NULL;
    struct scan_report report;
    if (beam_read(data, size, &bounds, &beam, NULL) < 0) return;
    check(scan_begin(0, &report, NULL) == 0);
    scan_beam(&report, beam, NULL);
    check_report(&report);
    scan_free(&report);
    beam_free(beam);
}

void fuzz_one(const uint8_t *data, size_t size) {
    scan_as_beam(data, size);
    scan_as_source(data, size, SCAN_ELIXIR);
    scan_as_source(data, size, SCAN_ERLANG);
}
