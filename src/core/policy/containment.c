/* What a profile says of the code that a sandbox is about to run. */
#include "core/policy/containment.h"
#include "core/core_internal.h"

enum { TOLD_MAX = 20, SCANS_KEPT = 256, SCAN_NAME_BYTES = 256 };

static json_t *summary_of(const struct guard_profile *profile, const struct scan_report *report) {
    json_t *told = json_array();
    for (size_t i = 0; i < TOLD_MAX && i < json_array_size(report->findings); i++)
        json_array_append(told, json_array_get(report->findings, i));
    return json_pack("{s:s, s:s, s:I, s:I, s:o}", "profile", profile->jail.name, "policy",
                     guard_scan_name(profile->scan), "finding_count", (json_int_t)report->finding_count,
                     "dynamic_count", (json_int_t)report->dynamic_count, "findings", told);
}

static const char *text_of(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

/* "the profile strict does not allow this code: Shop cmd/1 calls System.cmd/2, … (shop.ex:9); 2 more findings" */
static int refuse(const struct guard_profile *profile, const struct scan_report *report, struct error *reterr) {
    const json_t *first = json_array_get(report->findings, 0);
    const char *file = text_of(first, "file"), *slash = strrchr(file, '/');
    unsigned long long others = report->finding_count - 1;
    char more[64] = "";
    if (others > 0) snprintf(more, sizeof more, "; %llu more finding%s", others, others == 1 ? "" : "s");
    return error_set(reterr, E_POLICY, "the profile %s does not allow this code: %.200s %.200s %.300s (%.100s:%lld)%s",
                     profile->jail.name, text_of(first, "module"), text_of(first, "function"), text_of(first, "detail"),
                     slash ? slash + 1 : file, (long long)json_integer_value(json_object_get(first, "line")), more);
}

static int conclude(const struct guard_profile *profile, const struct scan_report *report, json_t **ret_summary,
                    struct error *reterr) {
    *ret_summary = summary_of(profile, report);
    if (profile->scan != GUARD_SCAN_REFUSE || report->finding_count == 0) return 0;
    return refuse(profile, report, reterr);
}

struct guard_profile containment_profile(const struct sandbox *sandbox) {
    struct guard_profile profile = *sandbox->config.profile;
    operation_set network;
    if (!sandbox->config.ports.has_loopback ||
        guard_operations_parse("network_server, network_client", &network, NULL) < 0)
        return profile;
    profile.operations |= network;
    snprintf(profile.jail.name, sizeof profile.jail.name, "%.40s with ports", sandbox->config.profile->jail.name);
    return profile;
}

int containment_scan_build(const struct guard_profile *profile, const char *build, atomic_bool *call_off,
                           json_t **ret_summary, struct error *reterr) {
    CLEANUP(scan_free) struct scan_report report = {0};
    size_t modules;
    int result = scan_begin(profile->operations, &report, reterr);
    if (result == 0) result = scan_build(&report, build, call_off, &modules, reterr);
    return result < 0 ? result : conclude(profile, &report, ret_summary, reterr);
}

static const char *scan_name(const struct guard_profile *profile, const char *digest, char ret[SCAN_NAME_BYTES]) {
    snprintf(ret, SCAN_NAME_BYTES, "%s %s", digest, profile->jail.name);
    return ret;
}

json_t *containment_known_scan(const struct engine *engine, const struct guard_profile *profile, const char *digest) {
    char name[SCAN_NAME_BYTES];
    return json_incref(json_object_get(engine->scans, scan_name(profile, digest, name)));
}

void containment_remember_scan(struct engine *engine, const struct guard_profile *profile, const char *digest,
                               json_t *summary) {
    char name[SCAN_NAME_BYTES];
    if (!engine->scans) engine->scans = json_object();
    if (json_object_size(engine->scans) >= SCANS_KEPT) json_object_clear(engine->scans);
    json_object_set(engine->scans, scan_name(profile, digest, name), summary);
}

static int scan_change(struct scan_report *report, const struct change *change, struct error *reterr) {
    CLEANUP_BEAM struct beam *beam = NULL;
    if (change->is_deletion || !change->beam) return 0;
    int result = beam_read(change->beam, change->beam_size, &beam_default_options, &beam, reterr);
    if (result == 0) result = scan_beam(report, beam, reterr);
    return result < 0 ? error_prefix(reterr, "%s", change->module) : 0;
}

int containment_scan_changes(const struct guard_profile *profile, const struct change_set *changes,
                             json_t **ret_summary, struct error *reterr) {
    CLEANUP(scan_free) struct scan_report report = {0};
    int result = scan_begin(profile->operations, &report, reterr);
    for (size_t i = 0; result == 0 && i < changes->count; i++)
        result = scan_change(&report, &changes->items[i], reterr);
    return result < 0 ? result : conclude(profile, &report, ret_summary, reterr);
}
