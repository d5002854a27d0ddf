/* Tests the ELF reader on programs of this machine, and on crafted and damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>

#include "node/node.h"

/* A tiny program: one loaded segment that is the whole file, an interpreter, and a dynamic section. */
struct program {
    Elf64_Ehdr header;
    Elf64_Phdr segments[3];
    Elf64_Dyn dynamic[3];
    char strings[32];
    char interpreter[32];
};

static const struct elf_tree host = {.root = "", .own_fd = -1};

static struct program make_program(void) {
    struct program program = {
        .header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                   .e_phoff = offsetof(struct program, segments),
                   .e_phnum = 3},
        .segments = {{.p_type = PT_LOAD, .p_filesz = sizeof(struct program)},
                     {.p_type = PT_INTERP, .p_offset = offsetof(struct program, interpreter), .p_filesz = 32},
                     {.p_type = PT_DYNAMIC,
                      .p_offset = offsetof(struct program, dynamic),
                      .p_filesz = 3 * sizeof(Elf64_Dyn)}},
        .dynamic = {{.d_tag = DT_STRTAB, .d_un.d_ptr = offsetof(struct program, strings)},
                    {.d_tag = DT_NEEDED, .d_un.d_val = 1},
                    {.d_tag = DT_NULL}},
        .strings = "\0libc.so.6",
        .interpreter = "/lib64/ld-linux-x86-64.so.2",
    };
    return program;
}

static int libraries_of_bytes(const void *data, size_t size, struct toolchain_library **ret, size_t *ret_count,
                              struct error *reterr) {
    char path[] = "/tmp/test-elf-XXXXXX";
    CLEANUP_FD int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), size);
    int result = elf_libraries(&host, (const char *[]){path, NULL}, ret, ret_count, reterr);
    unlink(path);
    return result;
}

static void free_libraries(struct toolchain_library *libraries, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(libraries[i].place);
        free(libraries[i].source);
    }
    free(libraries);
}

static void assert_damaged(const struct program *program, size_t size) {
    struct toolchain_library *libraries = NULL;
    size_t count = 0;
    struct error error = {0};
    if (libraries_of_bytes(program, size, &libraries, &count, &error) == 0) fail_msg("damage was not noticed");
    assert_int_equal(error.code, E_TOOLCHAIN);
    assert_null(libraries);
}

static void test_a_program_of_this_machine(void **state) {
    (void)state;
    struct toolchain_library *libraries;
    size_t count;
    struct error error;
    char self[PATH_MAX];
    assert_non_null(realpath("/proc/self/exe", self));
    if (elf_libraries(&host, (const char *[]){self, NULL}, &libraries, &count, &error) < 0)
        fail_msg("%s", error.detail);
    assert_true(count >= 2);
    bool has_libc = false;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(access(libraries[i].source, R_OK), 0);
        has_libc = has_libc || strstr(libraries[i].place, "/libc.so");
        for (size_t j = 0; j < i; j++) assert_string_not_equal(libraries[i].place, libraries[j].place);
    }
    assert_true(has_libc);
    free_libraries(libraries, count);
}

static void test_a_crafted_program(void **state) {
    (void)state;
    struct program program = make_program();
    struct toolchain_library *libraries;
    size_t count;
    struct error error;
    if (access(program.interpreter, R_OK) < 0) skip();
    if (libraries_of_bytes(&program, sizeof program, &libraries, &count, &error) < 0) fail_msg("%s", error.detail);
    assert_string_equal(libraries[0].place, program.interpreter);
    assert_true(count >= 2);
    free_libraries(libraries, count);
}

/* ---- a user's own program, which may ask for anything ---- */

static void own_program(const struct program *program, const char *library, const char *why) {
    char folder[] = "/tmp/test-elf-XXXXXX", path[64];
    struct toolchain_library *libraries = NULL;
    size_t count = 0;
    struct error error = {0};
    assert_non_null(mkdtemp(folder));
    CLEANUP_FD int folder_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *const names[] = {"program", library};
    for (size_t i = 0; i < ARRAY_SIZE(names) && names[i]; i++) {
        CLEANUP_FD int fd = openat(folder_fd, names[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
        assert_int_equal(write(fd, program, sizeof *program), sizeof *program);
    }
    const struct elf_tree tree = {.root = "", .own_place = "/own", .own_fd = folder_fd};
    int result = elf_libraries(&tree, (const char *[]){"/own/program", NULL}, &libraries, &count, &error);
    for (size_t i = 0; i < ARRAY_SIZE(names) && names[i]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
    if (why) {
        assert_true(result < 0);
        if (!strstr(error.detail, why)) fail_msg("'%s' does not say '%s'", error.detail, why);
        return;
    }
    if (result < 0) fail_msg("%s", error.detail);
    bool has_own = false;
    for (size_t i = 0; i < count; i++) has_own |= !libraries[i].source && strstr(libraries[i].place, "/own/");
    assert_int_equal(has_own, library != NULL);
    free_libraries(libraries, count);
}

static void test_own_gets_loaders_and_libraries_of_the_system_alone(void **state) {
    (void)state;
    struct program program = make_program();
    if (access(program.interpreter, R_OK) < 0) skip();
    own_program(&program, NULL, NULL);
    strcpy(program.interpreter, "/etc/shadow");
    own_program(&program, NULL, "in no folder of the system's");
    strcpy(program.interpreter, "/lib64/../etc/passwd");
    own_program(&program, NULL, "in no folder of the system's");
    program = make_program();
    strcpy(program.strings + 1, "../../etc/passwd");
    own_program(&program, NULL, "by its path");
    strcpy(program.strings + 1, "/etc/passwd");
    own_program(&program, NULL, "by its path");
}

static void test_own_libraries_by_the_run_path(void **state) {
    (void)state;
    struct program program = make_program();
    if (access(program.interpreter, R_OK) < 0) skip();
    strcpy(program.strings + 1, "libown.so.1");
    own_program(&program, "libown.so.1", "libown.so.1, which is not installed");
    static const char *const good[] = {"$ORIGIN", "/a:$ORIGIN/.", "/own", "$ORIGIN/x/..", "${ORIGIN}"};
    static const char *const bad[] = {"/tmp", "$ORIGIN/../..", "$ORIGIN/..", "", "own"};
    program.dynamic[2] = (Elf64_Dyn){.d_tag = DT_RUNPATH, .d_un.d_val = 14};
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        strcpy(program.strings + 14, good[i]);
        own_program(&program, "libown.so.1", NULL);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        strcpy(program.strings + 14, bad[i]);
        own_program(&program, "libown.so.1", "which is not installed");
    }
}

static void test_a_library_that_is_not_there(void **state) {
    (void)state;
    struct program program = make_program();
    struct toolchain_library *libraries = NULL;
    size_t count;
    struct error error = {0};
    strcpy(program.strings + 1, "libnot-there.so.9");
    assert_true(libraries_of_bytes(&program, sizeof program, &libraries, &count, &error) < 0);
    assert_int_equal(error.code, E_TOOLCHAIN);
    assert_non_null(strstr(error.detail, "libnot-there.so.9"));
}

static void test_no_program(void **state) {
    (void)state;
    struct program program = make_program();
    assert_damaged(&program, 0);
    assert_damaged(&program, sizeof program.header - 1);
    program.header.e_ident[0] = 'x';
    assert_damaged(&program, sizeof program);
    program = make_program();
    program.header.e_ident[EI_CLASS] = ELFCLASS32;
    assert_damaged(&program, sizeof program);
}

static void test_cut_anywhere(void **state) {
    (void)state;
    struct program program = make_program();
    for (size_t size = 0; size < offsetof(struct program, strings); size += 8) assert_damaged(&program, size);
}

static void test_offsets_outside_the_file(void **state) {
    (void)state;
    static const uint64_t offsets[] = {sizeof(struct program), sizeof(struct program) - 8, UINT64_MAX, UINT64_MAX - 7,
                                       1ULL << 63};
    for (size_t i = 0; i < ARRAY_SIZE(offsets); i++) {
        struct program program = make_program();
        program.header.e_phoff = offsets[i];
        assert_damaged(&program, sizeof program);
        program = make_program();
        program.segments[2].p_offset = offsets[i];
        assert_damaged(&program, sizeof program);
        program = make_program();
        program.segments[2].p_filesz = offsets[i] | 1ULL << 40;
        assert_damaged(&program, sizeof program);
        program = make_program();
        program.dynamic[0].d_un.d_ptr = offsets[i] | 1ULL << 40;
        assert_damaged(&program, sizeof program);
        program = make_program();
        program.dynamic[1].d_un.d_val = sizeof program;
        assert_damaged(&program, sizeof program);
    }
    struct program program = make_program();
    program.segments[1].p_offset = sizeof program;
    assert_damaged(&program, sizeof program);
}

static void test_odd_offsets(void **state) {
    (void)state;
    struct program program = make_program();
    program.header.e_phoff++;
    assert_damaged(&program, sizeof program);
    program = make_program();
    program.segments[2].p_offset += 4;
    assert_damaged(&program, sizeof program);
}

static void test_strings_that_never_end(void **state) {
    (void)state;
    struct program program = make_program();
    memset(program.interpreter, '/', sizeof program.interpreter);
    assert_damaged(&program, sizeof program);
}

static void test_a_file_that_is_not_there(void **state) {
    (void)state;
    struct toolchain_library *libraries;
    size_t count;
    struct error error;
    assert_true(elf_libraries(&host, (const char *[]){"/nonexistent", NULL}, &libraries, &count, &error) < 0);
    assert_int_equal(error.code, E_TOOLCHAIN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program_of_this_machine),
        cmocka_unit_test(test_a_crafted_program),
        cmocka_unit_test(test_own_gets_loaders_and_libraries_of_the_system_alone),
        cmocka_unit_test(test_own_libraries_by_the_run_path),
        cmocka_unit_test(test_a_library_that_is_not_there),
        cmocka_unit_test(test_no_program),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_offsets_outside_the_file),
        cmocka_unit_test(test_odd_offsets),
        cmocka_unit_test(test_strings_that_never_end),
        cmocka_unit_test(test_a_file_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
