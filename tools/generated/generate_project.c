/* generate_project FOLDER MODULES: the project that tests and benchmarks compile, for trying things out by hand. */
#include <stdio.h>
#include <stdlib.h>

#include "generated.h"

int main(int argc, char **argv) {
    unsigned long modules = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    if (modules == 0 || modules > 100000) {
        fprintf(stderr, "usage: generate_project FOLDER MODULES\n");
        return 2;
    }
    generated_write(argv[1], (unsigned)modules);
    return 0;
}
