/* Which shared libraries a program needs, read from its ELF headers: a jail holds these and no others. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "node/node.h"

enum {
    LIBRARIES_MAX = 64,
    NAME_MAX_BYTES = 256,
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
    const uint8_t *data;
    size_t size;
};

struct search {
    const char *root;
    struct toolchain_library found[LIBRARIES_MAX];
    size_t count;
};

static void image_close(struct image *image) {
    if (image->data) munmap((void *)image->data, image->size);
}

static int image_open(const char *path, struct image *ret, struct error *reterr) {
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return error_set(reterr, E_TOOLCHAIN, "%s can't be read: %s", path, strerror(errno));
    if (status.st_size < (off_t)sizeof(Elf64_Ehdr)) return error_set(reterr, E_TOOLCHAIN, "%s is not a program", path);
    void *data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return error_errno(reterr, errno, "reading %s", path);
    *ret = (struct image){data, (size_t)status.st_size};
    return 0;
}

/* A pointer to count items at offset, or NULL when they are not all inside the file, or not where the format has them.
 */
static const void *image_at(const struct image *image, uint64_t offset, uint64_t count, size_t item_size) {
    uint64_t bytes;
    if (__builtin_mul_overflow(count, item_size, &bytes) || offset > image->size || bytes > image->size - offset ||
        offset % _Alignof(uint64_t) != 0)
        return NULL;
    return image->data + offset;
}

/* A terminated string at offset, or NULL. */
static const char *image_string(const struct image *image, uint64_t offset) {
    if (offset >= image->size) return NULL;
    const char *text = (const char *)image->data + offset;
    return memchr(text, '\0', image->size - offset) ? text : NULL;
}

static const Elf64_Phdr *image_segments(const struct image *image, size_t *ret_count) {
    const Elf64_Ehdr *header = (const void *)image->data;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64) return NULL;
    *ret_count = header->e_phnum;
    return image_at(image, header->e_phoff, header->e_phnum, sizeof(Elf64_Phdr));
}

static bool offset_of_address(const Elf64_Phdr *segments, size_t count, uint64_t address, uint64_t *ret) {
    for (size_t i = 0; i < count; i++) {
        const Elf64_Phdr *segment = &segments[i];
        if (segment->p_type != PT_LOAD || address < segment->p_vaddr || address - segment->p_vaddr >= segment->p_filesz)
            continue;
        *ret = address - segment->p_vaddr + segment->p_offset;
        return true;
    }
    return false;
}

static int add_found(struct search *search, const char *place, const char *source, struct error *reterr) {
    for (size_t i = 0; i < search->count; i++)
        if (strcmp(search->found[i].place, place) == 0) return 0;
    if (search->count == LIBRARIES_MAX)
        return error_set(reterr, E_TOOLCHAIN, "the VM needs more than %d libraries", LIBRARIES_MAX);
    struct toolchain_library library = {strdup(place), strdup(source)};
    search->found[search->count++] = library;
    return library.place && library.source ? 0 : error_set(reterr, E_NO_MEMORY, "no memory for a library's path");
}

static int add_interpreter(struct search *search, const char *place, struct error *reterr) {
    char source[PATH_MAX];
    int result = toolchain_resolve(search->root, place, source, reterr);
    return result < 0 ? result : add_found(search, place, source, reterr);
}

static int add_library(struct search *search, const char *needed_by, const char *name, struct error *reterr) {
    char place[PATH_MAX], source[PATH_MAX];
    struct error absent;
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
        if (string_format(place, sizeof place, reterr, "%s/%.*s", folders[i], NAME_MAX_BYTES, name) < 0)
            return -E_TOOLCHAIN;
        if (toolchain_resolve(search->root, place, source, &absent) == 0 && access(source, R_OK) == 0)
            return add_found(search, place, source, reterr);
    }
    return error_set(reterr, E_TOOLCHAIN, "%s needs the library %.100s, which is not installed", needed_by, name);
}

static int add_dynamic(struct search *search, const char *path, const struct image *image, const Elf64_Phdr *segments,
                       size_t segment_count, const Elf64_Phdr *dynamic, struct error *reterr) {
    size_t count = dynamic->p_filesz / sizeof(Elf64_Dyn);
    const Elf64_Dyn *entries = image_at(image, dynamic->p_offset, count, sizeof *entries);
    uint64_t strings = 0;
    if (!entries) return error_set(reterr, E_TOOLCHAIN, "%s is damaged", path);
    for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++)
        if (entries[i].d_tag == DT_STRTAB &&
            !offset_of_address(segments, segment_count, entries[i].d_un.d_ptr, &strings))
            return error_set(reterr, E_TOOLCHAIN, "%s is damaged", path);
    for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
        if (entries[i].d_tag != DT_NEEDED) continue;
        const char *name = image_string(image, strings + entries[i].d_un.d_val);
        if (!name) return error_set(reterr, E_TOOLCHAIN, "%s is damaged", path);
        int result = add_library(search, path, name, reterr);
        if (result < 0) return result;
    }
    return 0;
}

static int add_needs(struct search *search, const char *path, struct error *reterr) {
    CLEANUP(image_close) struct image image = {0};
    int result = image_open(path, &image, reterr);
    if (result < 0) return result;
    size_t count;
    const Elf64_Phdr *segments = image_segments(&image, &count);
    if (!segments) return error_set(reterr, E_TOOLCHAIN, "%s is not a 64-bit ELF file", path);
    for (size_t i = 0; i < count && result == 0; i++) {
        if (segments[i].p_type == PT_INTERP) {
            const char *interpreter = image_string(&image, segments[i].p_offset);
            result = interpreter ? add_interpreter(search, interpreter, reterr)
                                 : error_set(reterr, E_TOOLCHAIN, "%s is damaged", path);
        } else if (segments[i].p_type == PT_DYNAMIC) {
            result = add_dynamic(search, path, &image, segments, count, &segments[i], reterr);
        }
    }
    return result;
}

static void search_free(struct search *search) {
    for (size_t i = 0; i < search->count; i++) {
        free(search->found[i].place);
        free(search->found[i].source);
    }
}

int elf_libraries(const char *root, const char *const *files, struct toolchain_library **ret, size_t *ret_count,
                  struct error *reterr) {
    CLEANUP(search_free) struct search search = {.root = root};
    char path[PATH_MAX];
    int result = 0;
    for (; *files && result == 0; files++) {
        result = toolchain_resolve(root, *files, path, reterr);
        if (result == 0) result = add_needs(&search, path, reterr);
    }
    for (size_t i = 0; i < search.count && result == 0; i++)
        result = add_needs(&search, search.found[i].source, reterr);
    if (result < 0) return result;
    struct toolchain_library *libraries = calloc(search.count + 1, sizeof *libraries);
    if (!libraries) return error_set(reterr, E_NO_MEMORY, "no memory for the list of libraries");
    memcpy(libraries, search.found, search.count * sizeof *libraries);
    *ret = libraries;
    *ret_count = search.count;
    search.count = 0;
    return 0;
}
