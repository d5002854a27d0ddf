/* Checks builds in a world's store: which files were compiled, that two builds are equal, and that no working folder is
   left. */
#include "builds.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "processes.h"

json_t *build_compile(struct world *world, const char *path) {
    json_t *report = world_op(world, "compile", "{s:s}", "source", path);
    assert_string_equal(json_string_value(json_object_get(report, "status")), "ok");
    return report;
}

static bool is_newer(const struct timespec *left, const struct timespec *right) {
    return left->tv_sec != right->tv_sec ? left->tv_sec > right->tv_sec : left->tv_nsec > right->tv_nsec;
}

void build_last(struct world *world, char ret[PATH_MAX]) {
    char path[PATH_MAX], newest[NAME_MAX + 1] = "";
    struct timespec newest_time = {0};
    struct dirent *entry;
    snprintf(path, sizeof path, "%s/store/cache", world_home(world));
    DIR *directory = opendir(path);
    assert_non_null(directory);
    while ((entry = readdir(directory))) {
        struct stat status;
        if (fstatat(dirfd(directory), entry->d_name, &status, 0) < 0 || !S_ISREG(status.st_mode)) continue;
        if (!is_newer(&status.st_mtim, &newest_time)) continue;
        newest_time = status.st_mtim;
        snprintf(newest, sizeof newest, "%s", entry->d_name);
    }
    closedir(directory);
    assert_int_equal(string_format(path, sizeof path, NULL, "%s/store/cache/%s", world_home(world), newest), 0);
    CLEANUP_FREE char *digest = read_whole(path);
    assert_non_null(digest);
    assert_int_equal(string_format(ret, PATH_MAX, NULL, "%s/store/builds/%.64s", world_home(world), digest), 0);
}

json_t *build_facts(const char *build) {
    char path[PATH_MAX];
    assert_int_equal(string_format(path, sizeof path, NULL, "%s/build.json", build), 0);
    json_t *facts = json_load_file(path, 0, NULL);
    assert_non_null(facts);
    return facts;
}

/* Reports leave Elixir's prefix out. */
static bool names_module(const json_t *names, const char *module) {
    const char *shown = string_starts(module, "Elixir.") ? module + strlen("Elixir.") : module;
    size_t i;
    json_t *name;
    json_array_foreach(names, i, name) if (strcmp(json_string_value(name), shown) == 0) return true;
    return false;
}

char *build_compiled_files(const char *build, const json_t *report) {
    json_t *facts = build_facts(build), *source, *module;
    size_t i, k;
    struct buf files = BUF_INIT;
    json_array_foreach(json_object_get(facts, "sources"), i, source) {
        bool was_compiled = false;
        json_array_foreach(json_object_get(source, "modules"), k, module) was_compiled |=
            names_module(json_object_get(report, "compiled"), json_string_value(json_object_get(module, "module")));
        if (was_compiled) buf_printf(&files, "%s\n", json_string_value(json_object_get(source, "file")));
    }
    json_decref(facts);
    char *text = buf_take_string(&files);
    assert_non_null(text);
    return text;
}

void build_assert_same(const char *build, const char *other) {
    char command[2 * PATH_MAX + 64], text[2048];
    snprintf(command, sizeof command, "diff -rq --exclude=build.json --exclude=brief.json '%s' '%s' 2>&1", build,
             other);
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    size_t size = fread(text, 1, sizeof text - 1, pipe);
    text[size] = '\0';
    if (pclose(pipe) != 0) fail_msg("the builds are not the same:\n%s", text);
}

void build_assert_compiled(const json_t *report, const char *const *modules) {
    json_t *compiled = json_object_get(report, "compiled");
    CLEANUP_FREE char *text = json_dumps(compiled, JSON_COMPACT);
    size_t count = 0;
    for (; modules[count]; count++)
        if (!names_module(compiled, modules[count])) fail_msg("%s is not in %s", modules[count], text);
    if (json_array_size(compiled) != count) fail_msg("not %zu modules but %s were compiled", count, text);
}

static bool is_empty(int parent, const char *name) {
    unsigned entries = 0;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    while (directory && readdir(directory)) entries++;
    if (directory) closedir(directory);
    return entries == 2;
}

/* The folder of the daemon that runs, the only one in there; -1 when there are more. */
static int open_scratch(struct world *world) {
    char path[256];
    glob_t folders;
    snprintf(path, sizeof path, "%s/store/tmp/*", world_home(world));
    int fd = glob(path, 0, NULL, &folders) == 0 && folders.gl_pathc == 1
                 ? open(folders.gl_pathv[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                 : -1;
    globfree(&folders);
    return fd;
}

/* An empty folder is the place of a warm compiler's next copy. */
static bool nothing_is_left(void *data) {
    struct dirent *entry;
    int fd = open_scratch(data);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    bool is_clean = directory != NULL;
    while (directory && (entry = readdir(directory)))
        is_clean &= entry->d_name[0] == '.' ||
                    (string_starts(entry->d_name, "project-") && is_empty(dirfd(directory), entry->d_name));
    if (directory) closedir(directory);
    return is_clean;
}

void build_assert_no_leftovers(struct world *world) {
    assert_true(wait_until(nothing_is_left, world, WORLD_DEADLINE_MS));
}

static bool no_folder_is_left(void *data) {
    CLEANUP_FD int fd = open_scratch(data);
    return fd >= 0 && is_empty(fd, ".");
}

void build_assert_no_folders(struct world *world) {
    assert_true(wait_until(no_folder_is_left, world, WORLD_DEADLINE_MS));
}
