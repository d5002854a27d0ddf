/* Any bytes as what compiling keeps on the disk: an object, a manifest, and what a build says of itself. What is read
   is written the same, and whatever it is, a file is found or compiled again. */
#include <dirent.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "code/code.h"
#include "compile/cache/objects.h"
#include "fuzz/harness/fuzz.h"
#include "fuzz/harness/place.h"

static struct objects objects;
static char object_name[PATH_MAX]; /* of the one that is looked for, below the place */

static void check(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "fuzz_objects: %s\n", what);
    abort();
}

/* ---- JSON ---- */

static void read_manifest(const json_t *json) {
    struct manifest manifest = {0}, again = {0};
    if (manifest_from_json(json, &manifest)) {
        json_t *written = manifest_to_json(&manifest);
        check(manifest_from_json(written, &again), "a manifest that does not read back");
        json_t *twice = manifest_to_json(&again);
        check(json_equal(written, twice), "a manifest that reads back as another");
        json_decref(twice);
        json_decref(written);
    }
    manifest_free(&manifest);
    manifest_free(&again);
}

static void read_facts(const json_t *json) {
    struct module_set set = {0};
    struct error error = {0};
    if (module_set_read(place_path(), json, &set, &error) < 0)
        check(error.code != E_NONE && error.detail[0], "no reason");
    module_set_free(&set);
}

static void read_json(const uint8_t *data, size_t size) {
    json_t *json = json_loadb((const char *)data, size, 0, NULL);
    if (!json) return;
    struct record *record = record_from_json(json);
    record_free(record);
    read_manifest(json);
    if (json_is_object(json)) read_facts(json);
    json_decref(json);
}

/* ---- objects ---- */

static struct record *make_record(void) {
    struct record *record = record_new("lib/a.ex", "app");
    check(record != NULL, "memory");
    record->warnings = json_array();
    record->is_compiled = true;
    return record;
}

static void find_name(void) {
    DIR *listing = opendir(objects.folder);
    check(listing != NULL, "the folder");
    for (struct dirent *entry; (entry = readdir(listing));)
        if (entry->d_name[0] != '.') snprintf(object_name, sizeof object_name, "store/objects/%.128s", entry->d_name);
    closedir(listing);
    check(object_name[0], "nothing was kept");
}

void fuzz_prepare(void) {
    check(objects_open(&objects, place_path(), 1 << 30, NULL) == 0, "the objects");
    struct record *record = make_record();
    objects_keep(&objects, "mine", record);
    record_free(record);
    find_name();
}

/* With the digest that it would have. */
static void write_object(const uint8_t *data, size_t size) {
    CLEANUP(buf_free) struct buf content = BUF_INIT;
    uint8_t digest[DIGEST_BYTES];
    check(EVP_Digest(data, size, digest, NULL, EVP_sha256(), NULL) == 1, "the digest");
    buf_append(&content, digest, sizeof digest);
    buf_append(&content, data, size);
    check(!content.failed, "memory");
    place_write(object_name, content.data, content.size);
}

static void read_object(void) {
    struct manifest manifest = {0};
    struct tree tree = {0};
    struct plan plan = {.manifest = &manifest, .tree = &tree};
    check(plan_link(&plan), "memory");
    struct record *record = record_new("lib/a.ex", "app");
    check(record != NULL, "memory");
    if (objects_find(&objects, "mine", &plan, record))
        check(record->is_compiled && strcmp(record->path, "lib/a.ex") == 0, "another file's");
    record_free(record);
    record = make_record();
    objects_keep(&objects, "mine", record); /* beside what was there */
    record_free(record);
    plan_free(&plan);
}

void fuzz_one(const uint8_t *data, size_t size) {
    read_json(data, size);
    write_object(data, size);
    read_object();
}
