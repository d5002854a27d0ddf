/* tree: the files of a project and the digests of what is in them, read again only where something changed. */
#ifndef COMPILE_PROJECT_TREE_H
#define COMPILE_PROJECT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGEST_BYTES = 32 }; /* SHA-256 */

struct tree_file {
    char *path;                   /* from the project's folder */
    uint8_t digest[DIGEST_BYTES]; /* of its content, or of a link's target */
    uint32_t mode;                /* its kind */
    /* If all of these are the same again, so is the content, unless it was written while it was read. */
    uint64_t device, inode, size;
    int64_t changed_ns, modified_ns;
};

struct tree {
    struct tree_file *files; /* by path; files, links and folders, without what is built anew or is history */
    size_t count, capacity;
    size_t total_bytes;
    int64_t scanned_ns;           /* when reading began */
    uint8_t digest[DIGEST_BYTES]; /* of everything */
};

struct tree_folder {
    int fd;
    const char *seen; /* what the paths of its files begin with; "" */
};
/* Read folders as one tree; before, an earlier reading of them or NULL, saves reading what has not changed. False when
   something can't be read or there is too much of it. Blocking. */
bool tree_scan(const struct tree_folder *folders, size_t count, const struct tree *before, struct tree *ret);
void tree_free(struct tree *tree);
const struct tree_file *tree_find(const struct tree *tree, const char *path); /* NULL when there is no such file */

/* Whether the file is still as it was when it was read; path is its own from that folder. */
bool tree_file_is_same(int folder, const char *path, const struct tree_file *file);

/* The digest of one file below a folder, reached through folders only. Blocking. */
bool tree_digest_file(int folder, const char *path, uint8_t ret[DIGEST_BYTES]);

/* The digest of the file that a link leads to; false when that lies elsewhere than below the folder. Blocking. */
bool tree_digest_target(int folder, const char *path, uint8_t ret[DIGEST_BYTES]);

#endif
