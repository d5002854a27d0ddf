/* The answer of `validate` for one BEAM file: what is in it, or what is wrong with it. */
#include "compile/check/validate.h"

#include <stdio.h>
#include <string.h>

#include "beam/beam.h"

/* The object being filled, and what becomes of it. */
struct entry {
    json_t *object;
    atomic_llong *names_left; /* bytes */
    struct error *reterr;
    int result;
};

static json_t *no_memory(struct entry *entry) {
    entry->result = error_set(entry->reterr, E_NO_MEMORY, "no memory for what is known of a file");
    return NULL;
}

static void set(struct entry *entry, const char *name, json_t *value) {
    if (json_object_set_new(entry->object, name, value) < 0 && entry->result == 0) no_memory(entry);
}

/* Names are strangers' text: what JSON can't hold, or not every terminal shows, is written as an escape. */
static json_t *name_json(struct entry *entry, const char *text, size_t size) {
    CLEANUP(buf_free) struct buf name = BUF_INIT;
    if (atomic_fetch_sub(entry->names_left, (long long)size) < (long long)size) {
        entry->result = error_set(entry->reterr, E_TOO_LARGE,
                                  "the names in these files are longer than %d MiB all told; validate fewer at once",
                                  VALIDATE_NAMES_MAX_BYTES >> 20);
        return NULL;
    }
    if (memchr(text, '\0', size) || !utf8_valid((const uint8_t *)text, size))
        escape_text(&name, text, size);
    else
        buf_append(&name, text, size);
    json_t *value = json_string(buf_string(&name));
    return value ? value : no_memory(entry);
}

static json_t *module_json(struct entry *entry, struct beam_text text) {
    json_t *name = name_json(entry, text.data, text.size);
    if (!name) return NULL;
    const char *written = term_module_name(json_string_value(name));
    if (written == json_string_value(name)) return name;
    json_t *shorter = json_string(written);
    json_decref(name);
    return shorter;
}

typedef int names_fn(const struct beam *beam, struct beam_names *ret, struct error *reterr);

static json_t *modules_json(struct entry *entry, const struct beam *beam, names_fn *find) {
    CLEANUP(beam_names_free) struct beam_names names = {0};
    if (entry->result < 0) return NULL;
    entry->result = find(beam, &names, entry->reterr);
    json_t *list = json_array();
    for (size_t i = 0; entry->result == 0 && i < names.count; i++)
        json_array_append_new(list, module_json(entry, names.items[i]));
    return list;
}

/* "init/1" */
static json_t *exports_json(struct entry *entry, const struct beam *beam) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    size_t count;
    const struct beam_function *exports = beam_exports(beam, &count);
    json_t *list = json_array();
    for (size_t i = 0; entry->result == 0 && i < count; i++) {
        buf_clear(&text);
        buf_append(&text, exports[i].name.data, exports[i].name.size);
        buf_printf(&text, "/%u", exports[i].arity);
        json_array_append_new(list, name_json(entry, (const char *)text.data, text.size));
    }
    return list;
}

static void set_digests(struct entry *entry, const struct beam *beam) {
    char digest[BEAM_DIGEST_BYTES];
    if (entry->result == 0) entry->result = beam_checksum(beam, digest, entry->reterr);
    if (entry->result == 0) set(entry, "checksum", json_string(digest));
    if (entry->result == 0) entry->result = beam_interface_hash(beam, digest, entry->reterr);
    if (entry->result == 0) set(entry, "interface", json_string(digest));
}

static void set_facts(struct entry *entry, const struct beam *beam) {
    CLEANUP_FREE char *source = beam_source(beam);
    set(entry, "module", module_json(entry, beam_module(beam)));
    set_digests(entry, beam);
    set(entry, "min_otp", json_integer(beam_min_otp(beam)));
    set(entry, "exports", exports_json(entry, beam));
    set(entry, "behaviours", modules_json(entry, beam, beam_behaviours));
    json_t *needs = json_object();
    json_object_set_new(needs, "compile", modules_json(entry, beam, beam_compile_dependencies));
    json_object_set_new(needs, "runtime", modules_json(entry, beam, beam_runtime_dependencies));
    set(entry, "dependencies", needs);
    if (source && entry->result == 0) set(entry, "source", name_json(entry, source, strlen(source)));
}

static json_t *blank(const char *path, size_t size) {
    json_t *name = json_string(path);
    if (!name) {
        CLEANUP(buf_free) struct buf escaped = BUF_INIT;
        escape_text(&escaped, path, strlen(path));
        name = json_string(buf_string(&escaped));
    }
    return json_pack("{s:o, s:b, s:I, s:n, s:n, s:n, s:n, s:[], s:[], s:{s:[], s:[]}, s:n, s:n}", "file", name, "valid",
                     0, "size_bytes", (json_int_t)size, "module", "checksum", "interface", "min_otp", "exports",
                     "behaviours", "dependencies", "compile", "runtime", "source", "error");
}

static void set_error(json_t *object, const struct error *error) {
    CLEANUP(buf_free) struct buf detail = BUF_INIT;
    escape_text(&detail, error->detail, strlen(error->detail));
    bool plain = utf8_valid((const uint8_t *)error->detail, strlen(error->detail));
    json_object_set_new(object, "error",
                        json_pack("{s:s, s:s}", "code", error_kind(error->code)->slug, "detail",
                                  plain ? error->detail : buf_string(&detail)));
}

int validate_bytes(const char *path, const uint8_t *data, size_t size, unsigned otp, atomic_llong *names_left,
                   json_t **ret, struct error *reterr) {
    struct beam_options options = beam_default_options;
    CLEANUP_BEAM struct beam *beam = NULL;
    struct error error;
    struct entry entry = {.object = blank(path, size), .names_left = names_left, .reterr = reterr};
    if (!entry.object) return error_set(reterr, E_NO_MEMORY, "no memory for what is known of a file");
    options.otp = otp;
    options.check_unloaded = true;
    int outcome = beam_read(data, size, &options, &beam, &error);
    if (outcome == 0) {
        set(&entry, "valid", json_true());
        set_facts(&entry, beam);
    } else if (error.code == E_NO_MEMORY) {
        entry.result = error_set(reterr, E_NO_MEMORY, "%s", error.detail);
    } else {
        set_error(entry.object, &error);
    }
    if (entry.result < 0)
        json_decref(entry.object);
    else
        *ret = entry.object;
    return entry.result;
}
