/* A user's own toolchain, found in folders that the launcher opened with that user's rights. Every file is a
   stranger's: no link is followed out of a folder, and nothing is read but directories and headers of programs. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "node/node_internal.h"

enum { ENTRIES_MAX = 4096 }; /* of a folder that are looked at */

static int open_inside(int folder_fd, const char *path, uint64_t flags) {
    struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    return file_open_how(folder_fd, path, &how);
}

static bool is_there(int folder_fd, const char *path) {
    CLEANUP_FD int fd = open_inside(folder_fd, path, O_PATH);
    return fd >= 0;
}

/* The newest entry of a folder whose name is the prefix and a version; "" when there is none. */
static void find_newest(int folder_fd, const char *folder, const char *prefix, char ret[NAME_MAX + 1]) {
    int fd = open_inside(folder_fd, folder, O_RDONLY | O_DIRECTORY);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    ret[0] = '\0';
    if (!directory) fd_close(fd);
    struct dirent *entry;
    for (size_t i = 0; directory && i < ENTRIES_MAX && (entry = readdir(directory)); i++)
        if (string_starts(entry->d_name, prefix) && toolchain_version_is_plain(entry->d_name) &&
            strverscmp(entry->d_name, ret) > 0)
            snprintf(ret, NAME_MAX + 1, "%s", entry->d_name);
    if (directory) closedir(directory);
}

/* The installation itself, or that of `make install`: *ret_below is where it is in the folder. */
static int find_erts(int otp_fd, const char **ret_below, char ret_erts[NAME_MAX + 1], struct error *reterr) {
    static const char *const places[] = {".", "lib/erlang"};
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        find_newest(otp_fd, places[i], "erts-", ret_erts);
        if (!ret_erts[0]) continue;
        *ret_below = i == 0 ? "" : "/lib/erlang";
        return 0;
    }
    return error_set(reterr, E_TOOLCHAIN, "it holds no erts-VERSION folder: it is not the root of an OTP installation");
}

static int check_parts(int otp_fd, const struct toolchain *toolchain, struct error *reterr) {
    char path[PATH_MAX], found[NAME_MAX + 1];
    snprintf(path, sizeof path, "%.*s/beam.smp", PATH_MAX - 16, toolchain->erts_bin + strlen(TOOLCHAIN_OTP_PLACE) + 1);
    if (!is_there(otp_fd, path)) return error_set(reterr, E_TOOLCHAIN, "%s: %s", path, strerror(errno));
    const char *below = toolchain->otp_root + strlen(TOOLCHAIN_OTP_PLACE);
    snprintf(path, sizeof path, "%s%slib", below[0] ? below + 1 : "", below[0] ? "/" : "");
    find_newest(otp_fd, path, "compiler-", found);
    if (!found[0])
        return error_set(reterr, E_TOOLCHAIN, "its %s has no 'compiler' application: install all of OTP", path);
    return 0;
}

static int find_libraries(int otp_fd, struct toolchain *toolchain, struct error *reterr) {
    char vm[PATH_MAX + 16], helper[PATH_MAX + 32], folder[PATH_MAX], name[NAME_MAX + 1],
        crypto[PATH_MAX + NAME_MAX + 64];
    snprintf(vm, sizeof vm, "%s/beam.smp", toolchain->erts_bin);
    snprintf(helper, sizeof helper, "%s/erl_child_setup", toolchain->erts_bin);
    const char *below = toolchain->otp_root + strlen(TOOLCHAIN_OTP_PLACE);
    snprintf(folder, sizeof folder, "%s%slib", below[0] ? below + 1 : "", below[0] ? "/" : "");
    find_newest(otp_fd, folder, "crypto-", name);
    snprintf(crypto, sizeof crypto, "%s/lib/%s/priv/lib/crypto.so", toolchain->otp_root, name);
    bool has_crypto = name[0] && is_there(otp_fd, crypto + strlen(TOOLCHAIN_OTP_PLACE) + 1);
    const char *files[] = {vm, helper, has_crypto ? crypto : NULL, NULL};
    const struct elf_tree tree = {.root = "", .own_place = TOOLCHAIN_OTP_PLACE, .own_fd = otp_fd};
    return elf_libraries(&tree, files, &toolchain->libraries, &toolchain->library_count, reterr);
}

/* A user's has a name of its own before the digest: no content that a user chooses makes it that of another's. */
int toolchain_own_digest(const struct toolchain_folders *folders, uint32_t agent_stamp, char ret[TOOLCHAIN_DIGEST_TEXT],
                         struct error *reterr) {
    char line[256], hex[2 * TOOLCHAIN_DIGEST_BYTES + 1];
    uint8_t digest[EVP_MAX_MD_SIZE];
    int length = snprintf(line, sizeof line, "%s %llx %s %llx %u", folders->otp_grant,
                          (unsigned long long)folders->otp_signature, folders->elixir_grant,
                          (unsigned long long)folders->elixir_signature, agent_stamp);
    if (EVP_Digest(line, (size_t)length, digest, NULL, EVP_sha256(), NULL) != 1)
        return error_set(reterr, E_NO_MEMORY, "no memory for a digest");
    hex_encode(digest, TOOLCHAIN_DIGEST_BYTES, hex);
    return string_format(ret, TOOLCHAIN_DIGEST_TEXT, reterr, "u%u-%s", folders->owner, hex);
}

static int find_elixir(int elixir_fd, struct toolchain *toolchain, struct error *reterr) {
    if (elixir_fd < 0) return 0;
    if (!is_there(elixir_fd, "lib/elixir/ebin/elixir.app"))
        return error_set(reterr, E_TOOLCHAIN, "its Elixir has no lib/elixir/ebin/elixir.app");
    snprintf(toolchain->elixir_lib, sizeof toolchain->elixir_lib, "%s/lib", TOOLCHAIN_ELIXIR_PLACE);
    return 0;
}

int toolchain_find_own(const struct toolchain_folders *folders, uint32_t agent_stamp, struct toolchain *ret,
                       struct error *reterr) {
    struct toolchain found = {.is_own = true, .owner = folders->owner};
    const char *below;
    char erts[NAME_MAX + 1];
    snprintf(found.otp_grant, sizeof found.otp_grant, "%s", folders->otp_grant);
    if (folders->elixir_fd >= 0) snprintf(found.elixir_grant, sizeof found.elixir_grant, "%s", folders->elixir_grant);
    int result = find_erts(folders->otp_fd, &below, erts, reterr);
    if (result < 0) return result;
    snprintf(found.otp_root, sizeof found.otp_root, "%s%s", TOOLCHAIN_OTP_PLACE, below);
    snprintf(found.erts_bin, sizeof found.erts_bin, "%s%s/%s/bin", TOOLCHAIN_OTP_PLACE, below, erts);
    result = check_parts(folders->otp_fd, &found, reterr);
    if (result == 0) result = find_elixir(folders->elixir_fd, &found, reterr);
    if (result == 0) result = toolchain_own_digest(folders, agent_stamp, found.digest, reterr);
    if (result == 0) result = find_libraries(folders->otp_fd, &found, reterr);
    if (result == 0) *ret = found;
    return result;
}
