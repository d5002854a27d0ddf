/* Tests how the OTP and Elixir installations are found, in folders made to look like them. */
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "scratch.h"

#include "node/node.h"

static void copy_program(const struct scratch *scratch, const char *path) {
    char target[256];
    snprintf(target, sizeof target, "%s/%s", scratch->path, path);
    char self[PATH_MAX];
    assert_non_null(realpath("/proc/self/exe", self));
    assert_int_equal(symlink(self, target), 0);
}

/* An OTP and an Elixir installation, side by side, with programs that PATH could name. */
static void make_trees(const struct scratch *scratch) {
    static const char *const folders[] = {"otp",
                                          "otp/bin",
                                          "otp/lib",
                                          "otp/lib/compiler-8.2.3",
                                          "otp/erts-9.3",
                                          "otp/erts-13.1",
                                          "otp/erts-13.1/bin",
                                          "otp/erts-9.3/bin",
                                          "ex",
                                          "ex/bin",
                                          "ex/lib",
                                          "ex/lib/elixir",
                                          "ex/lib/elixir/ebin",
                                          "path",
                                          "agent",
                                          "agent/ebin"};
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) scratch_folder(scratch, folders[i]);
    static const char *const programs[] = {"otp/erts-13.1/bin/beam.smp", "otp/erts-13.1/bin/erl_child_setup",
                                           "otp/erts-9.3/bin/beam.smp", "otp/bin/erl", "ex/bin/elixir"};
    for (size_t i = 0; i < ARRAY_SIZE(programs); i++) copy_program(scratch, programs[i]);
    scratch_file(scratch, "ex/lib/elixir/ebin/elixir.app", "");
}

static const char *below(const struct scratch *scratch, const char *name) {
    static char paths[4][256];
    static size_t next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", scratch->path, name);
    return path;
}

static int find_toolchain(const char *otp, const char *elixir, const char *agent_dir, struct toolchain *ret,
                          struct error *reterr) {
    return toolchain_find(&(struct toolchain_place){.otp = otp, .elixir = elixir}, agent_dir, 1, ret, reterr);
}

static void test_given(void **state) {
    struct toolchain toolchain;
    struct error error;
    make_trees(*state);
    if (find_toolchain(below(*state, "otp"), below(*state, "ex"), below(*state, "agent"), &toolchain, &error) < 0)
        fail_msg("%s", error.detail);
    assert_string_equal(toolchain.otp_root, below(*state, "otp"));
    assert_string_equal(toolchain.erts_bin, below(*state, "otp/erts-13.1/bin")); /* newer than 9.3 */
    assert_string_equal(toolchain.elixir_lib, below(*state, "ex/lib"));
    assert_string_equal(toolchain.boot_dir, "");
    assert_int_equal(strlen(toolchain.digest), 16);
    assert_true(toolchain.library_count >= 2);
    assert_int_equal(toolchain_check_files(&toolchain, &error), 0);
    assert_int_equal(unlink(below(*state, "ex/lib/elixir/ebin/elixir.app")), 0);
    assert_int_equal(toolchain_check_files(&toolchain, &error), -E_TOOLCHAIN);
    if (!strstr(error.detail, "ex/lib/elixir/ebin/elixir.app: No such file")) fail_msg("%s", error.detail);
    toolchain_free(&toolchain);
}

static void digest_of(const struct scratch *scratch, char ret[17]) {
    struct toolchain toolchain;
    assert_int_equal(
        find_toolchain(below(scratch, "otp"), below(scratch, "ex"), below(scratch, "agent"), &toolchain, NULL), 0);
    strcpy(ret, toolchain.digest);
    toolchain_free(&toolchain);
}

static void test_another_agent_is_another_digest(void **state) {
    char before[17], same[17], after[17];
    make_trees(*state);
    digest_of(*state, before);
    digest_of(*state, same);
    scratch_file(*state, "agent/ebin/sbx_boot.beam", "x");
    digest_of(*state, after);
    assert_string_equal(before, same);
    assert_string_not_equal(before, after);
}

static void assert_missing(const char *otp, const char *elixir, const char *part_of_detail) {
    struct toolchain toolchain;
    struct error error = {0};
    memset(&toolchain, 0x5a, sizeof toolchain);
    assert_true(find_toolchain(otp, elixir, "/agent", &toolchain, &error) < 0);
    assert_int_equal(error.code, E_TOOLCHAIN);
    if (!strstr(error.detail, part_of_detail)) fail_msg("'%s' does not say '%s'", error.detail, part_of_detail);
    assert_int_equal(toolchain.otp_root[0], 0x5a);
}

static void test_wrong_places(void **state) {
    make_trees(*state);
    assert_missing(below(*state, "nothing"), NULL, "nothing");
    assert_missing(below(*state, "ex"), NULL, "not the root of an OTP installation");
    assert_missing(below(*state, "otp"), below(*state, "otp"), "elixir.app");
    assert_missing(below(*state, "otp"), below(*state, "nothing"), "nothing");
    assert_int_equal(unlink(below(*state, "otp/erts-13.1/bin/beam.smp")), 0);
    assert_missing(below(*state, "otp"), NULL, "beam.smp");
}

static void test_without_a_compiler(void **state) {
    make_trees(*state);
    assert_int_equal(rmdir(below(*state, "otp/lib/compiler-8.2.3")), 0);
    assert_missing(below(*state, "otp"), NULL, "no 'compiler' application");
}

/* What others can write there would run in every sandbox of it. */
static void test_folders_that_others_can_write(void **state) {
    struct scratch *scratch = *state;
    struct error error;
    CLEANUP_FREE char *otp = strdup(below(scratch, "otp"));
    make_trees(scratch);
    if (toolchain_check_folder(otp, &error) < 0) fail_msg("%s", error.detail);
    static const mode_t modes[] = {0775, 0757};
    for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
        assert_int_equal(fchmodat(scratch->fd, "otp", modes[i], 0), 0);
        assert_true(toolchain_check_folder(otp, &error) < 0);
        assert_non_null(strstr(error.detail, "other users can write"));
    }
    assert_int_equal(fchmodat(scratch->fd, "otp", 0755, 0), 0);
    assert_int_equal(fchmod(scratch->fd, 0777), 0); /* above it */
    assert_true(toolchain_check_folder(otp, &error) < 0);
    assert_non_null(strstr(error.detail, scratch->path));
    assert_int_equal(fchmod(scratch->fd, 01777), 0); /* none can take the place of what lies in it */
    assert_int_equal(toolchain_check_folder(otp, &error), 0);
    if (geteuid() != 0) return;
    assert_int_equal(fchownat(scratch->fd, "otp", 4444, (gid_t)-1, 0), 0);
    assert_true(toolchain_check_folder(otp, &error) < 0);
    assert_non_null(strstr(error.detail, "uid 4444"));
}

static void test_places_that_nodes_have_for_themselves(void **state) {
    (void)state;
    struct error error;
    assert_int_equal(toolchain_check_place("/usr/lib/erlang", &error), 0);
    assert_int_equal(toolchain_check_place("/tmpfiles/otp", &error), 0);
    assert_true(toolchain_check_place("/tmp/otp", &error) < 0);
    assert_non_null(strstr(error.detail, "/tmp of their own"));
    assert_true(toolchain_check_place("/data", &error) < 0);
}

static void test_an_elixir_that_does_not_fit(void **state) {
    (void)state;
    struct error error;
    assert_int_equal(toolchain_check_fit(25, "1.14.0", &error), 0);
    assert_int_equal(toolchain_check_fit(25, "1.18.4", &error), 0);
    assert_int_equal(toolchain_check_fit(27, "1.20.4", &error), 0);
    assert_int_equal(toolchain_check_fit(29, "1.21.0", &error), 0);
    assert_int_equal(toolchain_check_fit(25, "nonsense", &error), 0);
    assert_true(toolchain_check_fit(26, "1.20.4", &error) < 0);
    assert_string_equal(error.detail, "Elixir 1.20.4 needs OTP 27 or newer, and this is OTP 26");
}

/* ---- a user's own: folders that the launcher opened ---- */

static int find_own(const struct scratch *scratch, const char *otp, const char *elixir, struct toolchain *ret,
                    struct error *reterr) {
    CLEANUP_FD int otp_fd = openat(scratch->fd, otp, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEANUP_FD int elixir_fd = elixir ? openat(scratch->fd, elixir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    struct toolchain_folders folders = {.otp_fd = otp_fd,
                                        .elixir_fd = elixir_fd,
                                        .owner = 1000,
                                        .otp_signature = 1,
                                        .elixir_signature = 2,
                                        .otp_grant = "u1000-a",
                                        .elixir_grant = elixir ? "u1000-b" : ""};
    return toolchain_find_own(&folders, 1, ret, reterr);
}

static void own_fails(const struct scratch *scratch, const char *otp, const char *elixir, const char *why) {
    struct toolchain toolchain;
    struct error error = {0};
    assert_true(find_own(scratch, otp, elixir, &toolchain, &error) < 0);
    assert_int_equal(error.code, E_TOOLCHAIN);
    if (!strstr(error.detail, why)) fail_msg("'%s' does not say '%s'", error.detail, why);
}

/* Its programs are files of its own: links that lead out are not followed. */
static void copy_bytes(const struct scratch *scratch, const char *path) {
    CLEANUP_FD int from_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CLEANUP_FD int fd = openat(scratch->fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    struct stat status;
    assert_int_equal(fstat(from_fd, &status), 0);
    for (off_t left = status.st_size; left > 0;) { /* a signal may end a call early */
        ssize_t sent = sendfile(fd, from_fd, NULL, (size_t)left);
        assert_true(sent > 0);
        left -= sent;
    }
}

static void make_own(const struct scratch *scratch) {
    make_trees(scratch);
    static const char *const programs[] = {"otp/erts-13.1/bin/beam.smp", "otp/erts-13.1/bin/erl_child_setup"};
    for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
        assert_int_equal(unlink(below(scratch, programs[i])), 0);
        copy_bytes(scratch, programs[i]);
    }
}

static void test_own(void **state) {
    struct toolchain toolchain;
    struct error error;
    make_own(*state);
    if (find_own(*state, "otp", "ex", &toolchain, &error) < 0) fail_msg("%s", error.detail);
    assert_true(toolchain.is_own && toolchain.owner == 1000);
    assert_string_equal(toolchain.otp_root, "/toolchain/otp");
    assert_string_equal(toolchain.erts_bin, "/toolchain/otp/erts-13.1/bin");
    assert_string_equal(toolchain.elixir_lib, "/toolchain/elixir/lib");
    assert_true(string_starts(toolchain.digest, "u1000-")); /* no other user's, nor the system's */
    assert_true(toolchain.library_count >= 2);
    toolchain_free(&toolchain);
    assert_int_equal(find_own(*state, "otp", NULL, &toolchain, &error), 0);
    assert_string_equal(toolchain.elixir_lib, "");
    toolchain_free(&toolchain);
}

/* What `make install` makes. */
static void test_own_below_a_prefix(void **state) {
    struct scratch *scratch = *state;
    struct toolchain toolchain;
    struct error error;
    make_own(scratch);
    scratch_folder(scratch, "prefix");
    scratch_folder(scratch, "prefix/lib");
    assert_int_equal(renameat(scratch->fd, "otp", scratch->fd, "prefix/lib/erlang"), 0);
    if (find_own(scratch, "prefix", NULL, &toolchain, &error) < 0) fail_msg("%s", error.detail);
    assert_string_equal(toolchain.erts_bin, "/toolchain/otp/lib/erlang/erts-13.1/bin");
    toolchain_free(&toolchain);
}

static void test_own_that_is_broken(void **state) {
    struct scratch *scratch = *state;
    make_own(scratch);
    own_fails(scratch, "ex", NULL, "no erts-VERSION folder");
    own_fails(scratch, "otp", "path", "elixir.app");
    assert_int_equal(unlink(below(scratch, "otp/erts-13.1/bin/beam.smp")), 0);
    scratch_file(scratch, "otp/erts-13.1/bin/beam.smp",
                 "#!/bin/sh\necho a script of more than sixty-four bytes, which no header of a program is\n");
    own_fails(scratch, "otp", NULL, "is not a 64-bit ELF file");
    assert_int_equal(unlink(below(scratch, "otp/erts-13.1/bin/beam.smp")), 0);
    scratch_link(scratch, "/proc/self/exe", "otp/erts-13.1/bin/beam.smp");
    own_fails(scratch, "otp", NULL, "beam.smp");
    assert_int_equal(unlink(below(scratch, "otp/erts-13.1/bin/beam.smp")), 0);
    assert_int_equal(mkfifoat(scratch->fd, "otp/erts-13.1/bin/beam.smp", 0644), 0);
    own_fails(scratch, "otp", NULL, "is not a program");
    assert_int_equal(rmdir(below(scratch, "otp/lib/compiler-8.2.3")), 0);
    own_fails(scratch, "otp", NULL, "no 'compiler' application");
}

static void test_own_digests(void **state) {
    (void)state;
    char one[TOOLCHAIN_DIGEST_TEXT], other[TOOLCHAIN_DIGEST_TEXT];
    struct toolchain_folders folders = {
        .owner = 1000, .otp_signature = 1, .elixir_signature = 2, .otp_grant = "a", .elixir_grant = "b"};
    assert_int_equal(toolchain_own_digest(&folders, 1, one, NULL), 0);
    folders.elixir_signature = 3;
    assert_int_equal(toolchain_own_digest(&folders, 1, other, NULL), 0);
    assert_string_not_equal(one, other);
    folders.elixir_signature = 2;
    folders.owner = 1001; /* the same files */
    assert_int_equal(toolchain_own_digest(&folders, 1, other, NULL), 0);
    assert_string_not_equal(one, other);
}

static void test_a_vm_that_is_no_program(void **state) {
    make_trees(*state);
    assert_int_equal(unlink(below(*state, "otp/erts-13.1/bin/beam.smp")), 0);
    scratch_file(*state, "otp/erts-13.1/bin/beam.smp", "#!/bin/sh\n");
    assert_missing(below(*state, "otp"), NULL, "is not a program");
}

/* PATH names scripts that are links to where the installation is. */
static void test_found_through_path(void **state) {
    struct scratch *scratch = *state;
    struct toolchain toolchain;
    struct error error;
    make_trees(scratch);
    assert_int_equal(unlink(below(scratch, "otp/bin/erl")), 0);
    assert_int_equal(unlink(below(scratch, "ex/bin/elixir")), 0);
    static const char *const scripts[] = {"otp/bin/erl", "ex/bin/elixir"};
    for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
        scratch_file(scratch, scripts[i], "#!/bin/sh\n");
        assert_int_equal(fchmodat(scratch->fd, scripts[i], 0755, 0), 0);
    }
    scratch_link(scratch, "../otp/bin/erl", "path/erl");
    CLEANUP_FREE char *saved = strdup(getenv("PATH"));
    CLEANUP_FREE char *path = string_print("::/nonexistent:%s", below(scratch, "path"));
    setenv("PATH", path, 1);
    int without = find_toolchain(NULL, NULL, below(scratch, "agent"), &toolchain, &error);
    setenv("PATH", saved, 1);
    assert_int_equal(without, 0);
    assert_string_equal(toolchain.otp_root, below(scratch, "otp"));
    assert_string_equal(toolchain.elixir_lib, ""); /* optional unless asked for */
    toolchain_free(&toolchain);
    scratch_link(scratch, "../ex/bin/elixir", "path/elixir");
    setenv("PATH", path, 1);
    int with = find_toolchain(NULL, NULL, below(scratch, "agent"), &toolchain, &error);
    setenv("PATH", saved, 1);
    assert_int_equal(with, 0);
    assert_string_equal(toolchain.elixir_lib, below(scratch, "ex/lib"));
    toolchain_free(&toolchain);
    setenv("PATH", "/nonexistent", 1);
    assert_missing(NULL, NULL, "no 'erl' in PATH");
    setenv("PATH", saved, 1);
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

/* A root's links lead to places within it, however absolute they are. */
static void test_in_a_root(void **state) {
    struct scratch *scratch = *state;
    struct toolchain toolchain;
    struct error error = {0};
    char found[PATH_MAX];
    static const char *const folders[] = {
        "root", "root/opt", "root/usr", "root/usr/lib", "root/usr/lib/erlang", "root/usr/lib/erlang/bin"};
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) scratch_folder(scratch, folders[i]);
    scratch_file(scratch, "root/usr/lib/erlang/bin/erl", "#!/bin/sh\n");
    scratch_link(scratch, "/usr/lib/erlang", "root/opt/otp");
    assert_int_equal(toolchain_resolve(below(scratch, "root"), "/opt/otp/bin/erl", found, &error), 0);
    assert_string_equal(found, below(scratch, "root/usr/lib/erlang/bin/erl"));
    scratch_link(scratch, "/etc/passwd", "root/opt/out");
    assert_true(toolchain_resolve(below(scratch, "root"), "/opt/out", found, &error) < 0);
    assert_true(toolchain_resolve(below(scratch, "root"), "/../../../../etc/passwd", found, &error) < 0);
    struct toolchain_place place = {.root = below(scratch, "root")};
    assert_true(toolchain_find(&place, "/agent", 1, &toolchain, &error) < 0);
    if (!strstr(error.detail, "has no 'erl'")) fail_msg("'%s'", error.detail);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_without_a_compiler),
        IN_SCRATCH(test_folders_that_others_can_write),
        cmocka_unit_test(test_places_that_nodes_have_for_themselves),
        cmocka_unit_test(test_an_elixir_that_does_not_fit),
        IN_SCRATCH(test_own),
        IN_SCRATCH(test_own_below_a_prefix),
        IN_SCRATCH(test_own_that_is_broken),
        cmocka_unit_test(test_own_digests),
        IN_SCRATCH(test_given),
        IN_SCRATCH(test_another_agent_is_another_digest),
        IN_SCRATCH(test_wrong_places),
        IN_SCRATCH(test_a_vm_that_is_no_program),
        IN_SCRATCH(test_found_through_path),
        IN_SCRATCH(test_in_a_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
