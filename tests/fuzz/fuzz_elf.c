/* Any bytes as a program: the libraries that it needs are found, or it is refused with a reason. */
#include <stdlib.h>

#include "fuzz/harness/fuzz.h"
#include "fuzz/harness/place.h"
#include "node/node.h"

static void check(bool holds) {
    if (!holds) abort();
}

void fuzz_one(const uint8_t *data, size_t size) {
    char path[64];
    struct toolchain_library *libraries = NULL;
    size_t count = 0;
    struct error error = {0};
    place_write("program", data, size);
    snprintf(path, sizeof path, "%s/program", place_path());
    if (elf_libraries("", (const char *const[]){path, NULL}, &libraries, &count, &error) < 0) {
        check(error.code != E_NONE && error.detail[0] && !libraries);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        check(libraries[i].place[0] == '/' && libraries[i].source[0] == '/');
        free(libraries[i].place);
        free(libraries[i].source);
    }
    check(!libraries[count].place);
    free(libraries);
}
