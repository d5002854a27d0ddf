/* Any bytes as a program: the libraries that it needs are found, or it is refused with a reason. As a user's own
   program it gets nothing of the host but files of the system's folders. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/harness/fuzz.h"
#include "fuzz/harness/place.h"
#include "node/node.h"

static void check(bool holds) {
    if (!holds) abort();
}

static bool is_in_system_folder(const char *path) {
    return string_starts(path, "/lib/") || string_starts(path, "/lib64/") || string_starts(path, "/usr/lib/") ||
           string_starts(path, "/usr/lib64/");
}

static void try_tree(const struct elf_tree *tree, const char *path) {
    struct toolchain_library *libraries = NULL;
    size_t count = 0;
    struct error error = {0};
    if (elf_libraries(tree, (const char *const[]){path, NULL}, &libraries, &count, &error) < 0) {
        check(error.code != E_NONE && error.detail[0] && !libraries);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        check(libraries[i].place[0] == '/' && (tree->own_place || libraries[i].source[0] == '/'));
        if (tree->own_place)
            check(libraries[i].source ? is_in_system_folder(libraries[i].place) && !strstr(libraries[i].place, "/../")
                                      : string_starts(libraries[i].place, "/own/"));
        free(libraries[i].place);
        free(libraries[i].source);
    }
    check(!libraries[count].place);
    free(libraries);
}

void fuzz_one(const uint8_t *data, size_t size) {
    char path[64];
    place_write("program", data, size);
    snprintf(path, sizeof path, "%s/program", place_path());
    try_tree(&(struct elf_tree){.root = "", .own_fd = -1}, path);
    CLEANUP_FD int fd = open(place_path(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    try_tree(&(struct elf_tree){.root = "", .own_place = "/own", .own_fd = fd}, "/own/program");
}
