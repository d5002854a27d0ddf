/* cp: files and folders to and from a sandbox, made of file-list, file-read, file-write and file-mkdir. What a sandbox
   says is a stranger's: its names never lead out of the destination, and how much it sends is bounded. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli_internal.h"

#define COPY_BYTES_MAX (UINT64_C(64) << 30)

enum { PIECE_BYTES = 256 * 1024, DEPTH_MAX = 64, COPY_ENTRIES_MAX = 1000000 };

struct copy {
    struct cli *cli;
    const char *id;
    uint64_t files, bytes, skipped;
    struct sbx_error sbx_error; /* of the service */
    struct error error;         /* or our own */
    bool is_services;           /* which of them */
};

static int fail_own(struct copy *copy, const char *what) {
    copy->is_services = false;
    return error_errno(&copy->error, errno, "%s", what);
}

static int refuse(struct copy *copy, enum error_code code, const char *what, const char *why) {
    copy->is_services = false;
    return error_set(&copy->error, code, "%s: %s", what, why);
}

/* Takes the parameters over, all but id and path. */
static int ask(struct copy *copy, const char *op, const char *path, json_t *params, json_t **ret) {
    json_object_set_new(params, "id", json_string(copy->id));
    if (json_object_set_new(params, "path", json_string(path)) < 0) {
        json_decref(params);
        return refuse(copy, E_INVALID, "a name", "it is not UTF-8");
    }
    int result = session_call(copy->cli, ops_find(op), params, ret, &copy->sbx_error);
    json_decref(params);
    copy->is_services = result < 0;
    return result;
}

static int do_ask(struct copy *copy, const char *op, const char *path, json_t *params) {
    json_t *answer = NULL;
    int result = ask(copy, op, path, params, &answer);
    json_decref(answer);
    return result;
}

static int join(struct copy *copy, const char *path, const char *name, char ret[PATH_MAX]) {
    copy->is_services = false;
    return string_format(ret, PATH_MAX, &copy->error, "%s/%s", path, name);
}

static int count_entry(struct copy *copy, const char *path, int depth) {
    if (depth > DEPTH_MAX) return refuse(copy, E_TOO_LARGE, path, "folders lie too deep in one another");
    if (++copy->files > COPY_ENTRIES_MAX) return refuse(copy, E_TOO_LARGE, path, "there is too much to copy");
    return 0;
}

static int count_bytes(struct copy *copy, const char *path, uint64_t size) {
    copy->bytes += size;
    return copy->bytes > COPY_BYTES_MAX ? refuse(copy, E_TOO_LARGE, path, "there is too much to copy") : 0;
}

static void skip(struct copy *copy, const char *path, const char *why) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    escape_text(&text, path, strlen(path));
    fprintf(stderr, "sandbox: %s is left out: %s\n", buf_string(&text), why);
    copy->skipped++;
}

/* ---- out of a sandbox ---- */

/* One part of a path, and nothing that a terminal would take for a command. */
bool cp_name_is_safe(const char *name) {
    if (!name || !*name || strlen(name) > NAME_MAX || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return false;
    for (const unsigned char *at = (const unsigned char *)name; *at; at++)
        if (*at < ' ' || *at == 0x7F || *at == '/' || (at[0] == 0xC2 && at[1] < 0xA0)) return false;
    return true;
}

static int fetch_piece(struct copy *copy, const char *path, uint64_t offset, int fd, size_t *ret_size) {
    json_t *answer = NULL;
    CLEANUP(buf_free) struct buf bytes = BUF_INIT;
    if (ask(copy, "file-read", path, json_pack("{s:I}", "offset", (json_int_t)offset), &answer) < 0) return -1;
    const char *text = json_string_value(json_object_get(answer, "data"));
    bool is_good = text && base64_decode(text, strlen(text), &bytes) && bytes.size <= PIECE_BYTES;
    json_decref(answer);
    if (!is_good) return refuse(copy, E_FORMAT, path, "the service's answer is none");
    if (file_write_all(fd, bytes.data, bytes.size) < 0) return fail_own(copy, path);
    *ret_size = bytes.size;
    return count_bytes(copy, path, bytes.size);
}

/* Never through a link that is there already, nor into a pipe or a device. */
static int open_target(struct copy *copy, int folder_fd, const char *name, mode_t mode) {
    struct stat status;
    CLEANUP_FD int fd =
        openat(folder_fd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode & 0777);
    if (fd < 0 || fstat(fd, &status) < 0) return fail_own(copy, name);
    if (!S_ISREG(status.st_mode)) return refuse(copy, E_CONFLICT, name, "it is there, and is no regular file");
    if (ftruncate(fd, 0) < 0) return fail_own(copy, name);
    return take_fd(&fd);
}

static int fetch_file(struct copy *copy, const char *path, json_t *entry, int folder_fd, const char *name) {
    mode_t mode = (mode_t)json_integer_value(json_object_get(entry, "mode"));
    CLEANUP_FD int fd = open_target(copy, folder_fd, name, mode);
    size_t size = PIECE_BYTES;
    if (fd < 0) return -1;
    for (uint64_t offset = 0; size == PIECE_BYTES; offset += size)
        if (fetch_piece(copy, path, offset, fd, &size) < 0) return -1;
    return 0;
}

static int fetch(struct copy *copy, const char *path, json_t *entry, int folder_fd, const char *name, int depth);

static int fetch_entries(struct copy *copy, const char *path, json_t *entries, int folder_fd, int depth) {
    size_t index;
    json_t *entry;
    json_array_foreach(entries, index, entry) {
        char below[PATH_MAX];
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (!cp_name_is_safe(name)) {
            skip(copy, path, "one of its entries has a name that could do harm");
            continue;
        }
        if (join(copy, path, name, below) < 0 || fetch(copy, below, entry, folder_fd, name, depth + 1) < 0) return -1;
    }
    return 0;
}

static int fetch_folder(struct copy *copy, const char *path, int folder_fd, const char *name, int depth) {
    json_t *listing = NULL;
    if (ask(copy, "file-list", path, json_object(), &listing) < 0) return -1;
    if (json_integer_value(json_object_get(listing, "skipped")) > 0) skip(copy, path, "names that are not UTF-8");
    if (mkdirat(folder_fd, name, 0777) < 0 && errno != EEXIST) {
        json_decref(listing);
        return fail_own(copy, name);
    }
    CLEANUP_FD int fd = openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int result =
        fd < 0 ? fail_own(copy, name) : fetch_entries(copy, path, json_object_get(listing, "entries"), fd, depth);
    json_decref(listing);
    return result;
}

static int fetch(struct copy *copy, const char *path, json_t *entry, int folder_fd, const char *name, int depth) {
    const char *type = json_string_value(json_object_get(entry, "type"));
    if (count_entry(copy, path, depth) < 0) return -1;
    if (string_equal(type, "file")) return fetch_file(copy, path, entry, folder_fd, name);
    if (string_equal(type, "folder")) return fetch_folder(copy, path, folder_fd, name, depth);
    skip(copy, path, "it is neither a folder nor a regular file");
    return 0;
}

/* The folder to put it in, and its name there. */
static int open_destination(struct copy *copy, const char *path, const char *source, char ret_name[NAME_MAX + 1]) {
    char parent[PATH_MAX];
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *last = strrchr(fd >= 0 ? source : path, '/');
    const char *name = last ? last + 1 : path;
    if (!cp_name_is_safe(name)) {
        fd_close(fd);
        return refuse(copy, E_INVALID, path, "what would the copy be called?");
    }
    snprintf(ret_name, NAME_MAX + 1, "%s", name);
    if (fd >= 0) return fd;
    snprintf(parent, sizeof parent, "%.*s", last ? (int)(last - path) + (last == path) : 1, last ? path : ".");
    fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? fail_own(copy, parent) : fd;
}

static int copy_out(struct copy *copy, const char *source, const char *destination) {
    char name[NAME_MAX + 1];
    json_t *listing = NULL;
    if (ask(copy, "file-list", source, json_object(), &listing) < 0) return -1;
    CLEANUP_FD int fd = open_destination(copy, destination, source, name);
    int result = fd < 0 ? -1 : fetch(copy, source, listing, fd, name, 0);
    json_decref(listing);
    return result;
}

/* ---- into a sandbox ---- */

static int send_piece(struct copy *copy, const char *path, uint64_t offset, mode_t mode, const uint8_t *bytes,
                      size_t size) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    base64_encode(bytes, size, &text);
    return do_ask(copy, "file-write", path,
                  json_pack("{s:I, s:i, s:s}", "offset", (json_int_t)offset, "mode", (int)(mode & 0777), "data",
                            buf_string(&text)));
}

static int send_file(struct copy *copy, int fd, mode_t mode, const char *path) {
    CLEANUP_FREE uint8_t *bytes = malloc(PIECE_BYTES);
    if (!bytes) return refuse(copy, E_NO_MEMORY, path, "no memory");
    for (uint64_t offset = 0;;) {
        ssize_t size = pread(fd, bytes, PIECE_BYTES, (off_t)offset);
        if (size < 0) return fail_own(copy, path);
        if (size == 0 && offset > 0) return 0;
        if (send_piece(copy, path, offset, mode, bytes, (size_t)size) < 0) return -1;
        offset += (uint64_t)size;
        if (size == 0) return 0;
    }
}

static int send_any(struct copy *copy, int folder_fd, const char *name, const char *path, bool follows, int depth);

static int send_folder(struct copy *copy, int *fd, const char *path, int depth) {
    DIR *listing = fdopendir(*fd);
    int result = do_ask(copy, "file-mkdir", path, json_object());
    if (!listing) return fail_own(copy, path);
    take_fd(fd);
    for (struct dirent *entry; result == 0 && (entry = readdir(listing));) {
        char below[PATH_MAX];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        result = join(copy, path, entry->d_name, below);
        if (result == 0) result = send_any(copy, dirfd(listing), entry->d_name, below, false, depth + 1);
    }
    closedir(listing);
    return result;
}

/* A link that a person names is followed; those in a folder are left out. */
static int send_any(struct copy *copy, int folder_fd, const char *name, const char *path, bool follows, int depth) {
    struct stat status;
    if (count_entry(copy, name, depth) < 0) return -1;
    if (fstatat(folder_fd, name, &status, follows ? 0 : AT_SYMLINK_NOFOLLOW) < 0) return fail_own(copy, name);
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
        skip(copy, name, "it is neither a folder nor a regular file");
        return 0;
    }
    CLEANUP_FD int fd = openat(folder_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | (follows ? 0 : O_NOFOLLOW));
    if (fd < 0 || fstat(fd, &status) < 0) return fail_own(copy, name);
    if (S_ISDIR(status.st_mode)) return send_folder(copy, &fd, path, depth);
    return S_ISREG(status.st_mode) ? send_file(copy, fd, status.st_mode, path) : 0;
}

static int copy_in(struct copy *copy, const char *source, const char *destination) {
    char real[PATH_MAX], path[PATH_MAX];
    json_t *listing = NULL;
    if (!realpath(source, real)) return fail_own(copy, source);
    bool is_there = ask(copy, "file-list", destination, json_object(), &listing) == 0;
    if (!is_there && !string_equal(copy->sbx_error.code, "not_found")) return -1;
    if (!is_there) sbx_error_clear(&copy->sbx_error);
    bool is_folder = is_there && string_equal(json_string_value(json_object_get(listing, "type")), "folder");
    json_decref(listing);
    copy->is_services = false;
    int result = is_folder ? join(copy, destination, strrchr(real, '/') + 1, path)
                           : string_format(path, sizeof path, &copy->error, "%s", destination);
    return result < 0 ? result : send_any(copy, AT_FDCWD, real, path, true, 0);
}

/* ---- the command ---- */

/* "ID:/PATH": NULL when the word is a path here. */
static const char *inside_of(const char *word, char ret_id[OP_ID_MAX_BYTES + 1]) {
    size_t length = strcspn(word, ":/");
    if (word[length] != ':' || word[length + 1] != '/' || length == 0 || length > OP_ID_MAX_BYTES) return NULL;
    memcpy(ret_id, word, length);
    ret_id[length] = '\0';
    return ops_id_valid(ret_id) ? word + length + 1 : NULL;
}

/* "a/" is "a", as for other programs. */
static void cut_slashes(char *word) {
    for (size_t length = strlen(word); length > 1 && word[length - 1] == '/' && word[length - 2] != ':'; length--)
        word[length - 1] = '\0';
}

static int copy_words(struct copy *copy, char **words) {
    char from_id[OP_ID_MAX_BYTES + 1], to_id[OP_ID_MAX_BYTES + 1];
    for (int i = 0; i < 2; i++) cut_slashes(words[i]);
    const char *from = inside_of(words[0], from_id), *to = inside_of(words[1], to_id);
    copy->id = from ? from_id : to_id;
    if (!from == !to)
        return refuse(copy, E_INVALID, "cp", "one of the two is ID:PATH, a place in a sandbox, and the other is here");
    return from ? copy_out(copy, from, words[1]) : copy_in(copy, words[0], to);
}

static int take_flags(struct cli *cli, int *count, char **words, struct error *reterr) {
    int kept = 0;
    for (int i = 0; i < *count;) {
        int taken = words[i][0] == '-' && words[i][1] ? args_take_global(cli, *count - i, words + i, reterr) : 0;
        if (taken < 0) return -1;
        if (taken == 0 && words[i][0] == '-' && words[i][1])
            return error_set(reterr, E_INVALID, "there is no flag %.40s", words[i]);
        if (taken == 0) words[kept++] = words[i++];
        i += taken;
    }
    *count = kept;
    return 0;
}

static int say_done(const struct copy *copy) {
    if (copy->cli->json)
        printf("{\"files\": %llu, \"bytes\": %llu, \"skipped\": %llu}\n", (unsigned long long)copy->files,
               (unsigned long long)copy->bytes, (unsigned long long)copy->skipped);
    return copy->skipped ? 1 : 0;
}

int command_cp(struct cli *cli, int count, char **words) {
    struct copy copy = {.cli = cli};
    if (take_flags(cli, &count, words, &copy.error) < 0) return fail_usage(cli, NULL, &copy.error);
    if (cli->wants_help) return command_help(cli, 1, (char *[]){(char *)"cp"});
    if (count != 2) {
        error_set(&copy.error, E_INVALID, "cp SRC DST, of which one is ID:PATH");
        return fail_usage(cli, NULL, &copy.error);
    }
    if (copy_words(&copy, words) == 0) return say_done(&copy);
    return copy.is_services ? fail_call(cli, &copy.sbx_error) : fail_local(cli, &copy.error);
}
