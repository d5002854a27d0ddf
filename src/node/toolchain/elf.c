/* Which shared libraries a program needs, read from its ELF headers: a jail holds these and no others. The program may
   be a stranger's, who changes it meanwhile: it is read in small pieces, and never mapped. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>

#include "node/node.h"

enum {
    LIBRARIES_MAX = 64,
    NAME_MAX_BYTES = 256,
    RUN_PATH_MAX_BYTES = 1024,
    SEGMENTS_MAX = 64,
    DYNAMIC_MAX = 512,
};

static const char *const folders[] = {
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
};

struct image {
    const char *path; /* for people */
    int fd;
    uint64_t size;
    size_t segment_count, dynamic_count;
    Elf64_Phdr segments[SEGMENTS_MAX];
    Elf64_Dyn dynamic[DYNAMIC_MAX];
    uint64_t strings; /* where its names are */
};

struct search {
    const struct elf_tree *tree;
    struct toolchain_library found[LIBRARIES_MAX];
    size_t count;
};

/* ---- reading ---- */

static void image_close(struct image *image) {
    fd_close(image->fd);
}

/* A path below the user's own folder, as seen from there; NULL: it lies elsewhere. */
static const char *own_part(const struct elf_tree *tree, const char *path) {
    size_t length = tree->own_place ? strlen(tree->own_place) : 0;
    return length > 0 && strncmp(path, tree->own_place, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

/* O_NONBLOCK: a stranger's file may be a pipe. */
static int open_own(const struct elf_tree *tree, const char *path) {
    struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    return file_open_how(tree->own_fd, path, &how);
}

static int image_damaged(const struct image *image, struct error *reterr) {
    return error_set(reterr, E_TOOLCHAIN, "%s is damaged", image->path);
}

static bool image_read(const struct image *image, uint64_t offset, void *ret, size_t size) {
    if (offset > image->size || size > image->size - offset) return false;
    return pread(image->fd, ret, size, (off_t)offset) == (ssize_t)size;
}

/* A terminated string; false when it is not all there, or longer than size. */
static bool image_string(const struct image *image, uint64_t offset, char *ret, size_t size) {
    if (offset >= image->size) return false;
    size_t most = image->size - offset < size ? (size_t)(image->size - offset) : size;
    return image_read(image, offset, ret, most) && memchr(ret, '\0', most);
}

static int read_header(struct image *image, struct error *reterr) {
    Elf64_Ehdr header;
    if (!image_read(image, 0, &header, sizeof header))
        return error_set(reterr, E_TOOLCHAIN, "%s is not a program", image->path);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
        return error_set(reterr, E_TOOLCHAIN, "%s is not a 64-bit ELF file", image->path);
    image->segment_count = header.e_phnum;
    if (image->segment_count > SEGMENTS_MAX || header.e_phoff % _Alignof(Elf64_Phdr) != 0 ||
        !image_read(image, header.e_phoff, image->segments, image->segment_count * sizeof *image->segments))
        return image_damaged(image, reterr);
    return 0;
}

static int image_open(const struct search *search, const char *path, struct image *ret, struct error *reterr) {
    struct stat status;
    const char *own = own_part(search->tree, path);
    *ret = (struct image){.path = path,
                          .fd = own ? open_own(search->tree, own) : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
    if (ret->fd < 0 || fstat(ret->fd, &status) < 0)
        return error_set(reterr, E_TOOLCHAIN, "%s can't be read: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode)) return error_set(reterr, E_TOOLCHAIN, "%s is not a program", path);
    ret->size = (uint64_t)status.st_size;
    return read_header(ret, reterr);
}

static bool offset_of_address(const struct image *image, uint64_t address, uint64_t *ret) {
    for (size_t i = 0; i < image->segment_count; i++) {
        const Elf64_Phdr *segment = &image->segments[i];
        if (segment->p_type != PT_LOAD || address < segment->p_vaddr || address - segment->p_vaddr >= segment->p_filesz)
            continue;
        *ret = address - segment->p_vaddr + segment->p_offset;
        return true;
    }
    return false;
}

static int read_dynamic(struct image *image, const Elf64_Phdr *segment, struct error *reterr) {
    uint64_t count = segment->p_filesz / sizeof *image->dynamic;
    if (count > DYNAMIC_MAX || segment->p_offset % _Alignof(Elf64_Dyn) != 0 ||
        !image_read(image, segment->p_offset, image->dynamic, count * sizeof *image->dynamic))
        return image_damaged(image, reterr);
    image->dynamic_count = 0;
    while (image->dynamic_count < count && image->dynamic[image->dynamic_count].d_tag != DT_NULL)
        image->dynamic_count++;
    for (size_t i = 0; i < image->dynamic_count; i++)
        if (image->dynamic[i].d_tag == DT_STRTAB &&
            !offset_of_address(image, image->dynamic[i].d_un.d_ptr, &image->strings))
            return image_damaged(image, reterr);
    return 0;
}

/* ---- finding ---- */

/* source NULL: it lies in the user's own folder. */
static int add_found(struct search *search, const char *place, const char *source, struct error *reterr) {
    for (size_t i = 0; i < search->count; i++)
        if (strcmp(search->found[i].place, place) == 0) return 0;
    if (search->count == LIBRARIES_MAX)
        return error_set(reterr, E_TOOLCHAIN, "the VM needs more than %d libraries", LIBRARIES_MAX);
    struct toolchain_library library = {strdup(place), source ? strdup(source) : NULL};
    search->found[search->count++] = library;
    return library.place && (!source || library.source)
               ? 0
               : error_set(reterr, E_NO_MEMORY, "no memory for a library's path");
}

static bool is_in_system_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    for (size_t i = 0; slash && i < ARRAY_SIZE(folders); i++)
        if (strlen(folders[i]) == (size_t)(slash - path) && strncmp(folders[i], path, (size_t)(slash - path)) == 0)
            return true;
    return false;
}

/* A user's program may name any file of the host here: it gets loaders only. */
static int add_interpreter(struct search *search, const struct image *image, const char *place, struct error *reterr) {
    char source[PATH_MAX];
    if (own_part(search->tree, place)) return 0;
    if (place[0] != '/')
        return error_set(reterr, E_TOOLCHAIN, "%s asks for the loader '%.200s', which is no whole path", image->path,
                         place);
    if (search->tree->own_place && !is_in_system_folder(place))
        return error_set(reterr, E_TOOLCHAIN, "%s asks for the loader %.200s, which is in no folder of the system's",
                         image->path, place);
    int result = toolchain_resolve(search->tree->root, place, source, reterr);
    return result < 0 ? result : add_found(search, place, source, reterr);
}

static int add_system_library(struct search *search, const struct image *image, const char *name,
                              struct error *reterr) {
    char place[PATH_MAX], source[PATH_MAX];
    struct error absent;
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
        if (string_format(place, sizeof place, reterr, "%s/%s", folders[i], name) < 0) return -E_TOOLCHAIN;
        if (toolchain_resolve(search->tree->root, place, source, &absent) == 0 && access(source, R_OK) == 0)
            return add_found(search, place, source, reterr);
    }
    return error_set(reterr, E_TOOLCHAIN, "%s needs the library %.100s, which is not installed", image->path, name);
}

/* "a/b/../c" as "a/c", by the names alone; false when it leads above the root. */
static bool fold(char *path) {
    char *to = path;
    for (const char *at = path; *at;) {
        size_t length = strcspn(at + 1, "/") + 1; /* with the slash before it */
        bool is_up = length == 3 && at[1] == '.' && at[2] == '.',
             is_here = length == 1 || (length == 2 && at[1] == '.');
        if (is_up) {
            if (to == path) return false;
            while (*--to != '/') continue;
        } else if (!is_here) {
            memmove(to, at, length);
            to += length;
        }
        at += length;
    }
    *to = '\0';
    return true;
}

/* One folder of a run path, "$ORIGIN/../lib", as a path. */
static bool expand_folder(const struct image *image, const char *text, size_t length, char ret[PATH_MAX]) {
    static const char *const origins[] = {"$ORIGIN", "${ORIGIN}"};
    size_t above = (size_t)(strrchr(image->path, '/') - image->path), skipped = 0;
    for (size_t i = 0; i < ARRAY_SIZE(origins); i++)
        if (length >= strlen(origins[i]) && strncmp(text, origins[i], strlen(origins[i])) == 0)
            skipped = strlen(origins[i]);
    struct error ignored;
    return string_format(ret, PATH_MAX, &ignored, "%.*s%.*s", skipped ? (int)above : 0, image->path,
                         (int)(length - skipped), text + skipped) == 0 &&
           ret[0] == '/' && fold(ret);
}

/* In a folder of the run path that is the toolchain's own. */
static bool find_own_library(const struct search *search, const struct image *image, const char *run_path,
                             const char *name, char ret[PATH_MAX]) {
    struct error ignored;
    char folder[PATH_MAX];
    for (const char *at = run_path; *at;) {
        size_t length = strcspn(at, ":");
        if (expand_folder(image, at, length, folder) &&
            string_format(ret, PATH_MAX, &ignored, "%s/%s", folder, name) == 0 && own_part(search->tree, ret)) {
            CLEANUP_FD int fd = open_own(search->tree, own_part(search->tree, ret));
            if (fd >= 0) return true;
        }
        at += length + (at[length] == ':');
    }
    return false;
}

static int add_library(struct search *search, const struct image *image, const char *run_path, const char *name,
                       struct error *reterr) {
    char place[PATH_MAX];
    if (search->tree->own_place && strchr(name, '/'))
        return error_set(reterr, E_TOOLCHAIN, "%s needs the library %.100s by its path", image->path, name);
    if (search->tree->own_place && find_own_library(search, image, run_path, name, place))
        return add_found(search, place, NULL, reterr);
    return add_system_library(search, image, name, reterr);
}

static int add_dynamic(struct search *search, const struct image *image, struct error *reterr) {
    char run_path[RUN_PATH_MAX_BYTES] = "", name[NAME_MAX_BYTES];
    for (size_t i = 0; i < image->dynamic_count; i++) {
        const Elf64_Dyn *entry = &image->dynamic[i];
        if ((entry->d_tag == DT_RUNPATH || entry->d_tag == DT_RPATH) &&
            !image_string(image, image->strings + entry->d_un.d_val, run_path, sizeof run_path))
            return image_damaged(image, reterr);
    }
    for (size_t i = 0; i < image->dynamic_count; i++) {
        if (image->dynamic[i].d_tag != DT_NEEDED) continue;
        if (!image_string(image, image->strings + image->dynamic[i].d_un.d_val, name, sizeof name))
            return image_damaged(image, reterr);
        int result = add_library(search, image, run_path, name, reterr);
        if (result < 0) return result;
    }
    return 0;
}

static int add_segment(struct search *search, struct image *image, const Elf64_Phdr *segment, struct error *reterr) {
    char interpreter[PATH_MAX];
    if (segment->p_type == PT_INTERP) {
        if (!image_string(image, segment->p_offset, interpreter, sizeof interpreter))
            return image_damaged(image, reterr);
        return add_interpreter(search, image, interpreter, reterr);
    }
    if (segment->p_type != PT_DYNAMIC) return 0;
    int result = read_dynamic(image, segment, reterr);
    return result < 0 ? result : add_dynamic(search, image, reterr);
}

static int add_needs(struct search *search, const char *path, struct error *reterr) {
    CLEANUP(image_close) struct image image = {.fd = -1};
    int result = image_open(search, path, &image, reterr);
    for (size_t i = 0; i < image.segment_count && result == 0; i++)
        result = add_segment(search, &image, &image.segments[i], reterr);
    return result;
}

static void search_free(struct search *search) {
    for (size_t i = 0; i < search->count; i++) {
        free(search->found[i].place);
        free(search->found[i].source);
    }
}

static int add_file(struct search *search, const char *file, struct error *reterr) {
    char path[PATH_MAX];
    if (own_part(search->tree, file)) return add_needs(search, file, reterr);
    int result = toolchain_resolve(search->tree->root, file, path, reterr);
    return result < 0 ? result : add_needs(search, path, reterr);
}

int elf_libraries(const struct elf_tree *tree, const char *const *files, struct toolchain_library **ret,
                  size_t *ret_count, struct error *reterr) {
    CLEANUP(search_free) struct search search = {.tree = tree};
    int result = 0;
    for (; *files && result == 0; files++) result = add_file(&search, *files, reterr);
    for (size_t i = 0; i < search.count && result == 0; i++)
        result = add_needs(&search, search.found[i].source ? search.found[i].source : search.found[i].place, reterr);
    if (result < 0) return result;
    struct toolchain_library *libraries = calloc(search.count + 1, sizeof *libraries);
    if (!libraries) return error_set(reterr, E_NO_MEMORY, "no memory for the list of libraries");
    memcpy(libraries, search.found, search.count * sizeof *libraries);
    *ret = libraries;
    *ret_count = search.count;
    search.count = 0;
    return 0;
}
