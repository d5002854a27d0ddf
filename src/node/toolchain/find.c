/* Where Erlang and Elixir are installed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "node/node_internal.h"

int toolchain_resolve(const char *root, const char *path, char ret[PATH_MAX], struct error *reterr) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    char link[64], found[PATH_MAX];
    CLEANUP_FD int root_fd = open(root[0] ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEANUP_FD int fd = root_fd < 0 ? -1 : file_open_how(root_fd, path, &how);
    if (fd < 0) return error_set(reterr, E_TOOLCHAIN, "%s%s: %s", root, path, strerror(errno));
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, found, sizeof found - 1);
    if (length < 0 || found[0] != '/') return error_set(reterr, E_TOOLCHAIN, "%s%s can't be found", root, path);
    found[length] = '\0';
    memcpy(ret, found, (size_t)length + 1);
    return 0;
}

/* A path of the host as it is seen from the root. */
static const char *place_of(const char *root, const char *path) {
    size_t length = strlen(root);
    return strncmp(path, root, length) == 0 && path[length] == '/' ? path + length : path;
}

void toolchain_find_in_path(const char *root, const char *program, char ret[PATH_MAX]) {
    static const char usual[] = "/usr/local/bin:/usr/bin:/bin";
    const char *path = root[0] ? NULL : getenv("PATH"); /* what the host's says is not true there */
    struct error absent;
    for (const char *at = path ? path : usual; *at;) {
        size_t length = strcspn(at, ":");
        char candidate[PATH_MAX], found[PATH_MAX];
        int written = snprintf(candidate, sizeof candidate, "%.*s/%s", (int)length, at, program);
        if (length > 0 && written < (int)sizeof candidate && toolchain_resolve(root, candidate, found, &absent) == 0 &&
            access(found, X_OK) == 0) {
            snprintf(ret, PATH_MAX, "%s", place_of(root, found));
            return;
        }
        at += length + (at[length] == ':');
    }
    ret[0] = '\0';
}

/* Cut `levels` names off the end of the path. */
static bool parent_path(char *path, int levels) {
    for (; levels > 0; levels--) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path) return false;
        *slash = '\0';
    }
    return true;
}

static int resolve_root(const char *root, const char *given, const char *program, char ret[PATH_MAX],
                        struct error *reterr) {
    char found[PATH_MAX];
    if (given) {
        int result = toolchain_resolve(root, given, found, reterr);
        if (result == 0) snprintf(ret, PATH_MAX, "%s", place_of(root, found));
        return result;
    }
    toolchain_find_in_path(root, program, ret);
    if (!ret[0] && root[0])
        return error_set(reterr, E_TOOLCHAIN, "the root %s has no '%s': install it there", root, program);
    if (!ret[0] || !parent_path(ret, 2)) /* ROOT/bin/erl, ROOT/bin/elixir */
        return error_set(reterr, E_TOOLCHAIN, "there is no '%s' in PATH: install it, or say where it is with --%s",
                         program, strcmp(program, "erl") == 0 ? "otp" : "elixir");
    return 0;
}

static bool is_erts(const char *name) {
    return string_starts(name, "erts-") && name[5] >= '0' && name[5] <= '9';
}

/* The newest erts-VSN below the root. */
static int find_erts(const struct toolchain *toolchain, char ret[PATH_MAX], struct error *reterr) {
    char best[NAME_MAX + 1] = "", root[2 * PATH_MAX];
    snprintf(root, sizeof root, "%s%s", toolchain->root, toolchain->otp_root);
    DIR *directory = opendir(root);
    if (!directory) return error_set(reterr, E_TOOLCHAIN, "%s: %s", root, strerror(errno));
    struct dirent *entry;
    while ((entry = readdir(directory)))
        if (is_erts(entry->d_name) && strverscmp(entry->d_name, best) > 0)
            snprintf(best, sizeof best, "%s", entry->d_name);
    closedir(directory);
    if (!best[0])
        return error_set(reterr, E_TOOLCHAIN,
                         "%s holds no erts-VERSION folder: it is not the root of an OTP installation", root);
    int result = string_format(ret, PATH_MAX, reterr, "%s/%s/bin", toolchain->otp_root, best);
    char program[2 * PATH_MAX + 16];
    snprintf(program, sizeof program, "%s%s/beam.smp", toolchain->root, ret);
    if (result == 0 && access(program, R_OK) < 0)
        return error_set(reterr, E_TOOLCHAIN, "%s: %s", program, strerror(errno));
    return result;
}

static int find_elixir(const char *tree, const char *given, char ret[PATH_MAX], struct error *reterr) {
    char root[PATH_MAX];
    struct error absent;
    if (resolve_root(tree, given, "elixir", root, given ? reterr : &absent) < 0) {
        ret[0] = '\0';
        return given ? -E_TOOLCHAIN : 0; /* Elixir is optional unless it was asked for */
    }
    int result = string_format(ret, PATH_MAX, reterr, "%s/lib", root);
    char probe[2 * PATH_MAX + 32];
    snprintf(probe, sizeof probe, "%s%s/elixir/ebin/elixir.app", tree, ret);
    if (result == 0 && access(probe, R_OK) < 0) {
        ret[0] = '\0';
        return given ? error_set(reterr, E_TOOLCHAIN, "%s: %s", probe, strerror(errno)) : 0;
    }
    return result;
}

/* The crypto library's NIF is outside the VM's own list, and many applications load it. */
static void find_crypto(const struct toolchain *toolchain, char ret[PATH_MAX]) {
    char lib[2 * PATH_MAX + 8], path[2 * PATH_MAX];
    ret[0] = '\0';
    snprintf(lib, sizeof lib, "%s%s/lib", toolchain->root, toolchain->otp_root);
    DIR *directory = opendir(lib);
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        if (!string_starts(entry->d_name, "crypto-")) continue;
        int written = snprintf(ret, PATH_MAX, "%s/lib/%s/priv/lib/crypto.so", toolchain->otp_root, entry->d_name);
        snprintf(path, sizeof path, "%s%s", toolchain->root, ret);
        if (written >= PATH_MAX || access(path, R_OK) < 0) ret[0] = '\0';
    }
    if (directory) closedir(directory);
}

static int find_libraries(struct toolchain *toolchain, struct error *reterr) {
    char vm[PATH_MAX + 16], helper[PATH_MAX + 32], crypto[PATH_MAX];
    snprintf(vm, sizeof vm, "%s/beam.smp", toolchain->erts_bin);
    snprintf(helper, sizeof helper, "%s/erl_child_setup", toolchain->erts_bin);
    find_crypto(toolchain, crypto);
    const char *files[] = {vm, helper, crypto[0] ? crypto : NULL, NULL};
    const struct elf_tree tree = {.root = toolchain->root, .own_fd = -1};
    return elf_libraries(&tree, files, &toolchain->libraries, &toolchain->library_count, reterr);
}

static bool has_entry(const char *folder, const char *prefix) {
    bool has = false;
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && !has && (entry = readdir(directory));)
        has = string_starts(entry->d_name, prefix);
    if (directory) closedir(directory);
    return has;
}

/* Nothing could be compiled for it. */
static int check_compiler(const struct toolchain *toolchain, struct error *reterr) {
    char lib[2 * PATH_MAX + 8];
    snprintf(lib, sizeof lib, "%s%s/lib", toolchain->root, toolchain->otp_root);
    if (has_entry(lib, "compiler-")) return 0;
    return error_set(reterr, E_TOOLCHAIN, "%s has no 'compiler' application: install all of OTP", lib);
}

static void hash_file_identity(EVP_MD_CTX *hash, const char *path) {
    struct stat status;
    if (stat(path, &status) < 0) memset(&status, 0, sizeof status);
    char line[2 * PATH_MAX + 192];
    int length = snprintf(line, sizeof line, "%s %lld %lld.%ld\n", path, (long long)status.st_size,
                          (long long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    EVP_DigestUpdate(hash, line, (size_t)length);
}

/* What a boot file depends on: another VM, another library version, or another agent makes another digest. */
static int make_digest(struct toolchain *toolchain, const char *agent_dir, uint32_t agent_stamp, struct error *reterr) {
    char path[2 * PATH_MAX + 64];
    uint8_t digest[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    if (!hash || EVP_DigestInit_ex(hash, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(hash);
        return error_set(reterr, E_NO_MEMORY, "no memory for a digest");
    }
    snprintf(path, sizeof path, "%s%s/beam.smp", toolchain->root, toolchain->erts_bin);
    hash_file_identity(hash, path);
    snprintf(path, sizeof path, "%s%s/lib", toolchain->root, toolchain->otp_root);
    hash_file_identity(hash, path);
    snprintf(path, sizeof path, "%s%s/elixir/ebin/elixir.app", toolchain->root, toolchain->elixir_lib);
    hash_file_identity(hash, path);
    snprintf(path, sizeof path, "%s/ebin/sbx_boot.beam", agent_dir);
    hash_file_identity(hash, path);
    snprintf(path, sizeof path, "%s/ebin", agent_dir);
    hash_file_identity(hash, path);
    EVP_DigestUpdate(hash, &agent_stamp, sizeof agent_stamp);
    EVP_DigestFinal_ex(hash, digest, NULL);
    EVP_MD_CTX_free(hash);
    hex_encode(digest, TOOLCHAIN_DIGEST_BYTES, toolchain->digest);
    return 0;
}

/* What another user could write there would run in every sandbox of it. */
static int check_folders(const struct toolchain *toolchain, struct error *reterr) {
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s%s", toolchain->root, toolchain->otp_root);
    int result = toolchain_check_folder(path, reterr);
    snprintf(path, sizeof path, "%s%s", toolchain->root, toolchain->elixir_lib);
    return result < 0 || !toolchain->elixir_lib[0] ? result : toolchain_check_folder(path, reterr);
}

int toolchain_find(const struct toolchain_place *place, const char *agent_dir, uint32_t agent_stamp,
                   struct toolchain *ret, struct error *reterr) {
    struct toolchain found = {0};
    if (place->root && !realpath(place->root, found.root))
        return error_set(reterr, E_TOOLCHAIN, "%s: %s", place->root, strerror(errno));
    if (strcmp(found.root, "/") == 0) found.root[0] = '\0';
    int result = resolve_root(found.root, place->otp, "erl", found.otp_root, reterr);
    if (result == 0 && place->is_checked) result = toolchain_check_place(found.otp_root, reterr);
    if (result == 0) result = find_erts(&found, found.erts_bin, reterr);
    if (result == 0) result = check_compiler(&found, reterr);
    if (result == 0) result = find_elixir(found.root, place->elixir, found.elixir_lib, reterr);
    if (result == 0 && place->is_checked && found.elixir_lib[0])
        result = toolchain_check_place(found.elixir_lib, reterr);
    if (result == 0 && place->is_checked) result = check_folders(&found, reterr);
    if (result == 0) result = make_digest(&found, agent_dir, agent_stamp, reterr);
    if (result == 0) result = find_libraries(&found, reterr);
    if (result == 0) *ret = found;
    return result;
}

static int check_file(const struct toolchain *toolchain, const char *folder, const char *name, struct error *reterr) {
    char path[3 * PATH_MAX];
    snprintf(path, sizeof path, "%s%s/%s", toolchain->root, folder, name);
    if (access(path, F_OK) == 0) return 0;
    return error_set(reterr, E_TOOLCHAIN, "%.300s: %s", path, strerror(errno));
}

int toolchain_check_files(const struct toolchain *toolchain, struct error *reterr) {
    int result = check_file(toolchain, toolchain->erts_bin, "beam.smp", reterr);
    if (result < 0 || !toolchain->elixir_lib[0]) return result;
    return check_file(toolchain, toolchain->elixir_lib, "elixir/ebin/elixir.app", reterr);
}

unsigned toolchain_generation(const struct toolchain *toolchain) {
    return (unsigned)strtoul(toolchain->otp_release, NULL, 10);
}

void toolchain_free(struct toolchain *toolchain) {
    for (size_t i = 0; i < toolchain->library_count; i++) {
        free(toolchain->libraries[i].place);
        free(toolchain->libraries[i].source);
    }
    free(toolchain->libraries);
    *toolchain = (struct toolchain){0};
}
