/* Where Erlang and Elixir are installed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "node/node_internal.h"

/* The real path of a program that PATH has; "" when it has none. */
static void find_in_path(const char *program, char ret[PATH_MAX]) {
    ret[0] = '\0';
    const char *path = getenv("PATH");
    for (const char *at = path ? path : "/usr/local/bin:/usr/bin:/bin"; *at;) {
        size_t length = strcspn(at, ":");
        char candidate[PATH_MAX];
        int written = snprintf(candidate, sizeof candidate, "%.*s/%s", (int)length, at, program);
        if (length > 0 && written < (int)sizeof candidate && access(candidate, X_OK) == 0 && realpath(candidate, ret))
            return;
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

static int resolve_root(const char *given, const char *program, char ret[PATH_MAX], struct error *reterr) {
    if (given) {
        if (!realpath(given, ret)) return error_set(reterr, E_TOOLCHAIN, "%s: %s", given, strerror(errno));
        return 0;
    }
    find_in_path(program, ret);
    if (!ret[0] || !parent_path(ret, 2)) /* ROOT/bin/erl, ROOT/bin/elixir */
        return error_set(reterr, E_TOOLCHAIN, "there is no '%s' in PATH: install it, or say where it is with --%s",
                         program, strcmp(program, "erl") == 0 ? "otp" : "elixir");
    return 0;
}

static bool is_erts(const char *name) {
    return string_starts(name, "erts-") && name[5] >= '0' && name[5] <= '9';
}

/* The newest erts-VSN below the root. */
static int find_erts(const char *root, char ret[PATH_MAX], struct error *reterr) {
    char best[NAME_MAX + 1] = "";
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
    int result = string_format(ret, PATH_MAX, reterr, "%s/%s/bin", root, best);
    char program[PATH_MAX + 16];
    snprintf(program, sizeof program, "%s/beam.smp", ret);
    if (result == 0 && access(program, R_OK) < 0)
        return error_set(reterr, E_TOOLCHAIN, "%s: %s", program, strerror(errno));
    return result;
}

static int find_elixir(const char *given, char ret[PATH_MAX], struct error *reterr) {
    char root[PATH_MAX];
    struct error absent;
    if (resolve_root(given, "elixir", root, given ? reterr : &absent) < 0) {
        ret[0] = '\0';
        return given ? -E_TOOLCHAIN : 0; /* Elixir is optional unless it was asked for */
    }
    int result = string_format(ret, PATH_MAX, reterr, "%s/lib", root);
    char probe[PATH_MAX + 32];
    snprintf(probe, sizeof probe, "%s/elixir/ebin/elixir.app", ret);
    if (result == 0 && access(probe, R_OK) < 0) {
        ret[0] = '\0';
        return given ? error_set(reterr, E_TOOLCHAIN, "%s: %s", probe, strerror(errno)) : 0;
    }
    return result;
}

/* The crypto library's NIF is outside the VM's own list, and many applications load it. */
static void find_crypto(const char *root, char ret[PATH_MAX]) {
    char lib[PATH_MAX + 8];
    ret[0] = '\0';
    snprintf(lib, sizeof lib, "%s/lib", root);
    DIR *directory = opendir(lib);
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        if (!string_starts(entry->d_name, "crypto-")) continue;
        int written = snprintf(ret, PATH_MAX, "%s/%s/priv/lib/crypto.so", lib, entry->d_name);
        if (written >= PATH_MAX || access(ret, R_OK) < 0) ret[0] = '\0';
    }
    if (directory) closedir(directory);
}

static int find_libraries(struct toolchain *toolchain, struct error *reterr) {
    char vm[PATH_MAX + 16], helper[PATH_MAX + 32], crypto[PATH_MAX];
    snprintf(vm, sizeof vm, "%s/beam.smp", toolchain->erts_bin);
    snprintf(helper, sizeof helper, "%s/erl_child_setup", toolchain->erts_bin);
    find_crypto(toolchain->otp_root, crypto);
    const char *files[] = {vm, helper, crypto[0] ? crypto : NULL, NULL};
    return elf_libraries(files, &toolchain->libraries, &toolchain->library_count, reterr);
}

static void hash_file_identity(EVP_MD_CTX *hash, const char *path) {
    struct stat status;
    if (stat(path, &status) < 0) memset(&status, 0, sizeof status);
    char line[PATH_MAX + 96];
    int length = snprintf(line, sizeof line, "%s %lld %lld.%ld\n", path, (long long)status.st_size,
                          (long long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    EVP_DigestUpdate(hash, line, (size_t)length);
}

/* What a boot file depends on: another VM, another library version, or another agent makes another digest. */
static int make_digest(struct toolchain *toolchain, const char *agent_dir, uint32_t agent_stamp, struct error *reterr) {
    char path[PATH_MAX + 64];
    uint8_t digest[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    if (!hash || EVP_DigestInit_ex(hash, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(hash);
        return error_set(reterr, E_NO_MEMORY, "no memory for a digest");
    }
    snprintf(path, sizeof path, "%s/beam.smp", toolchain->erts_bin);
    hash_file_identity(hash, path);
    snprintf(path, sizeof path, "%s/lib", toolchain->otp_root);
    hash_file_identity(hash, path);
    snprintf(path, sizeof path, "%s/elixir/ebin/elixir.app", toolchain->elixir_lib);
    hash_file_identity(hash, path);
    snprintf(path, sizeof path, "%s/ebin/sbx_boot.beam", agent_dir);
    hash_file_identity(hash, path);
    snprintf(path, sizeof path, "%s/ebin", agent_dir);
    hash_file_identity(hash, path);
    EVP_DigestUpdate(hash, &agent_stamp, sizeof agent_stamp);
    EVP_DigestFinal_ex(hash, digest, NULL);
    EVP_MD_CTX_free(hash);
    hex_encode(digest, (sizeof toolchain->digest - 1) / 2, toolchain->digest);
    return 0;
}

int toolchain_find(const char *otp, const char *elixir, const char *agent_dir, uint32_t agent_stamp,
                   struct toolchain *ret, struct error *reterr) {
    struct toolchain found = {0};
    int result = resolve_root(otp, "erl", found.otp_root, reterr);
    if (result == 0) result = find_erts(found.otp_root, found.erts_bin, reterr);
    if (result == 0) result = find_elixir(elixir, found.elixir_lib, reterr);
    if (result == 0) result = make_digest(&found, agent_dir, agent_stamp, reterr);
    if (result == 0) result = find_libraries(&found, reterr);
    if (result == 0) *ret = found;
    return result;
}

unsigned toolchain_generation(const struct toolchain *toolchain) {
    return (unsigned)strtoul(toolchain->otp_release, NULL, 10);
}

void toolchain_free(struct toolchain *toolchain) {
    for (size_t i = 0; i < toolchain->library_count; i++) free(toolchain->libraries[i]);
    free(toolchain->libraries);
    *toolchain = (struct toolchain){0};
}
