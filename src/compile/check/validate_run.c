/* Validating a caller's BEAM files on all processors. */
#include "compile/check/validate.h"
#include "compile/compile_internal.h"

/* All files of one request; each round of the loop has an object of its own. */
struct validation {
    unsigned otp;
    struct beam_files *files;
    json_t **objects;
    atomic_llong names_left;
};

/* What can't be read is no valid file, whatever its content. */
static int unreadable(const char *path, const struct error *why, json_t **ret, struct error *reterr) {
    atomic_llong no_names = 0;
    if (why->code == E_NO_MEMORY) return error_set(reterr, E_NO_MEMORY, "%s", why->detail);
    int result = validate_bytes(path, NULL, 0, 0, &no_names, ret, reterr);
    if (result == 0)
        json_object_set_new(*ret, "error",
                            json_pack("{s:s, s:s}", "code", error_kind(why->code)->slug, "detail", why->detail));
    return result;
}

static int validate_file(void *context, size_t index, struct error *reterr) {
    struct validation *validation = context;
    json_t **object = &validation->objects[index];
    char path[BEAM_FILE_NAME_BYTES];
    CLEANUP(buf_free) struct buf content = BUF_INIT;
    struct error error;
    beam_files_name(validation->files, index, path);
    bool is_read = beam_files_read(validation->files, index, &content, &error) == 0;
    int result = beam_files_count(validation->files, content.size, reterr);
    if (result < 0) return result;
    if (!is_read) return unreadable(path, &error, object, reterr);
    return validate_bytes(path, content.data, content.size, validation->otp, &validation->names_left, object, reterr);
}

/* Takes the objects over. */
static json_t *answer(json_t **objects, size_t count) {
    json_t *files = json_array();
    bool all_valid = true;
    for (size_t i = 0; i < count; i++) {
        if (!json_is_true(json_object_get(objects[i], "valid"))) all_valid = false;
        json_array_append_new(files, objects[i]);
    }
    return json_pack("{s:b, s:o}", "valid", all_valid, "files", files);
}

static int validate_all(struct validation *validation, size_t count, json_t **ret, struct error *reterr) {
    CLEANUP_FREE json_t **objects = validation->objects = calloc(count, sizeof *objects);
    if (!objects) return error_set(reterr, E_NO_MEMORY, "no memory for a list of files");
    int result = parallel_each(count, validate_file, validation, reterr);
    if (result == 0)
        *ret = answer(objects, count);
    else
        for (size_t i = 0; i < count; i++) json_decref(objects[i]);
    return result;
}

int validate_run(const struct validate_request *request, json_t **ret, struct error *reterr) {
    CLEANUP(beam_files_close) struct beam_files files;
    int result = beam_files_open(&request->source, &files, reterr);
    struct validation validation = {.otp = request->otp, .files = &files, .names_left = VALIDATE_NAMES_MAX_BYTES};
    return result < 0 ? result : validate_all(&validation, files.count, ret, reterr);
}
