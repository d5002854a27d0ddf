/* Prints what is learnt from the BEAM files named, a line each: path, module, checksum, interface hash, then exports,
   imports, runtime, compile and optional dependencies, separated by tabs. For tests that compare with the VM's own
   answers. */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <fcntl.h>

#include "beam/beam.h"

static void print_text(struct beam_text text) {
    fwrite(text.data, 1, text.size, stdout);
}

static void print_names(int (*get)(const struct beam *, struct beam_names *, struct error *), const struct beam *beam) {
    CLEANUP(beam_names_free) struct beam_names names = {0};
    struct error error = {0};
    if (get(beam, &names, &error) < 0) printf("%s", error.detail);
    for (size_t i = 0; i < names.count; i++) {
        if (i > 0) putchar(' ');
        print_text(names.items[i]);
    }
}

static void print_functions(const struct beam *beam) {
    size_t count;
    const struct beam_function *functions = beam_exports(beam, &count);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) putchar(' ');
        print_text(functions[i].name);
        printf("/%u", functions[i].arity);
    }
    putchar('\t');
    const struct beam_import *imports = beam_imports(beam, &count);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) putchar(' ');
        print_text(imports[i].module);
        putchar(':');
        print_text(imports[i].function);
        printf("/%u", imports[i].arity);
    }
}

static void print_facts(const char *path, const struct beam *beam) {
    char checksum[BEAM_DIGEST_BYTES] = "", interface[BEAM_DIGEST_BYTES] = "";
    beam_checksum(beam, checksum, NULL);
    beam_interface_hash(beam, interface, NULL);
    printf("%s\t", path);
    print_text(beam_module(beam));
    printf("\t%s\t%s\t", checksum, interface);
    print_functions(beam);
    putchar('\t');
    print_names(beam_runtime_dependencies, beam);
    putchar('\t');
    print_names(beam_compile_dependencies, beam);
    putchar('\t');
    print_names(beam_optional_dependencies, beam);
    putchar('\n');
}

static int print_file(const char *path) {
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0) return 1;
    void *data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return 1;
    struct error error = {0};
    struct beam *beam = NULL;
    int result = beam_read(data, (size_t)status.st_size, &beam_default_options, &beam, &error);
    if (result == 0) print_facts(path, beam);
    if (result < 0) fprintf(stderr, "%s: %s\n", path, error.detail);
    beam_free(beam);
    munmap(data, (size_t)status.st_size);
    return result < 0;
}

int main(int argc, char **argv) {
    int status = 0;
    for (int i = 1; i < argc; i++) status |= print_file(argv[i]);
    return status;
}
