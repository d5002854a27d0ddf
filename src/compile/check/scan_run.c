/* A scan of a build or a folder, on the pool: every BEAM file, and sources where there are no BEAM files. */
#include "compile/check/scan_run.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define PROJECT_MOUNT "/src/project/" /* where a compiler sees the project */

/* A single file that came as a stream has no path below a folder: it is named as the user did. */
static const char *path_of(const struct beam_files *files, size_t index) {
    const char *path = files->paths[index] ? files->paths[index] : files->source->path;
    return files->source->is_file && strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
}

/* ---- BEAM files ---- */

static int scan_beam_file(struct scan_report *report, struct beam_files *files, size_t index, struct error *reterr) {
    CLEANUP(buf_free) struct buf content = BUF_INIT;
    CLEANUP_BEAM struct beam *beam = NULL;
    int result = beam_files_read(files, index, &content, reterr);
    if (result == 0) result = beam_files_count(files, content.size, reterr);
    if (result == 0) result = beam_read(content.data, content.size, &beam_default_options, &beam, reterr);
    if (result == 0) result = scan_beam(report, beam, reterr);
    return result < 0 ? error_prefix(reterr, "%s", path_of(files, index)) : 0;
}

static int scan_beams(struct scan_report *report, const struct beam_source *source, size_t *ret_count,
                      struct error *reterr) {
    CLEANUP(beam_files_close) struct beam_files files;
    int result = beam_files_open(source, &files, reterr);
    for (size_t i = 0; result == 0 && i < files.count; i++) result = scan_beam_file(report, &files, i, reterr);
    if (result == 0) *ret_count = files.count;
    return result;
}

/* Protocols put together are Elixir's own code around the project's, which is scanned where it was written. */
static bool is_own_code(const char *name) {
    return strcmp(name, "consolidated") != 0;
}

int scan_build(struct scan_report *report, const char *build, atomic_bool *call_off, size_t *ret_modules,
               struct error *reterr) {
    CLEANUP_FD int folder = open(build, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct beam_source source = {.fd = folder, .path = build, .call_off = call_off, .enters = is_own_code};
    if (folder < 0) return error_errno(reterr, errno, "opening %s", build);
    return scan_beams(report, &source, ret_modules, reterr);
}

/* ---- sources ---- */

static bool language_of(const char *path, enum scan_language *ret) {
    static const struct {
        const char *suffix;
        enum scan_language language;
    } suffixes[] = {{".erl", SCAN_ERLANG}, {".hrl", SCAN_ERLANG}, {".ex", SCAN_ELIXIR}, {"mix.exs", SCAN_ELIXIR}};
    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
        if (!string_ends(path, suffixes[i].suffix)) continue;
        *ret = suffixes[i].language;
        return true;
    }
    return false;
}

static bool is_source(const char *path) {
    enum scan_language language;
    return language_of(path, &language);
}

/* What is compiled elsewhere, or not at all. */
static bool is_own_folder(const char *name) {
    static const char *const others[] = {"_build", "deps", "test", "node_modules"};
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (strcmp(name, others[i]) == 0) return false;
    return name[0] != '.';
}

/* A file that can't be read was not compiled either. */
static int scan_source_file(struct scan_report *report, struct beam_files *files, size_t index, struct error *reterr) {
    CLEANUP(buf_free) struct buf content = BUF_INIT;
    enum scan_language language;
    const char *path = path_of(files, index);
    bool is_read = language_of(path, &language) && beam_files_read(files, index, &content, NULL) == 0;
    int result = beam_files_count(files, content.size, reterr);
    if (result < 0 || !is_read || content.size > SCAN_SOURCE_MAX_BYTES) return result;
    return scan_source(report, path, (const char *)content.data, content.size, language, reterr);
}

static int scan_sources(struct scan_report *report, const struct beam_source *project, struct error *reterr) {
    CLEANUP(beam_files_close) struct beam_files files;
    struct beam_source source = *project;
    source.wants = is_source;
    source.enters = is_own_folder;
    int result = beam_files_open(&source, &files, reterr);
    for (size_t i = 0; result == 0 && i < files.count; i++) result = scan_source_file(report, &files, i, reterr);
    return result;
}

/* ---- both ---- */

/* Paths as a compiler saw them become those of the project. */
static void shorten_paths(json_t *list) {
    size_t index;
    json_t *entry;
    json_array_foreach(list, index, entry) {
        const char *file = json_string_value(json_object_get(entry, "file"));
        if (file && string_starts(file, PROJECT_MOUNT))
            json_object_set_new(entry, "file", json_string(file + strlen(PROJECT_MOUNT)));
    }
}

static json_t *answer(const struct scan_report *report, size_t modules) {
    json_t *lists[] = {report->findings, report->dynamic, report->notes};
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) shorten_paths(lists[i]);
    json_t *result = scan_to_json(report);
    json_object_set_new(result, "modules", json_integer((json_int_t)modules));
    return result;
}

int scan_run(const struct scan_request *request, json_t **ret, struct error *reterr) {
    CLEANUP(scan_free) struct scan_report report = {0};
    size_t modules = 0;
    int result = scan_begin(request->allowed, &report, reterr);
    if (result < 0) return result;
    if (!request->build) {
        result = scan_beams(&report, &request->source, &modules, reterr);
    } else {
        result = scan_build(&report, request->build, request->source.call_off, &modules, reterr);
        if (result == 0) result = scan_sources(&report, &request->source, reterr);
    }
    if (result == 0) *ret = answer(&report, modules);
    return result;
}
