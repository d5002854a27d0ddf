/* Between the compiler's own files: bounds, and what is carried to and from the thread pool. */
#ifndef COMPILE_COMPILE_INTERNAL_H
#define COMPILE_COMPILE_INTERNAL_H

#include "compile/answer_budget.h"
#include "compile/compile.h"

enum {
    PROJECT_ENTRIES_MAX = 20000,
    PROJECT_FILE_MAX_BYTES = 64 << 20,
    PROJECT_TOTAL_MAX_BYTES = 512 << 20,
    COLLECTED_TOTAL_MAX_BYTES = 128 << 20, /* of a build, with the files that are taken as they are */
    FILES_MAX = 40000,
    BUILD_MAX_BYTES = PROJECT_TOTAL_MAX_BYTES + COLLECTED_TOTAL_MAX_BYTES, /* of all its files */
    PROJECT_DEPTH_MAX = 64, /* folders inside one another; each is held open while it is walked */
    TEXT_MAX_BYTES = 8192,  /* of one text in a report */
};

/* The files of a build, owned, growing. */
struct file_list {
    struct store_file *files;
    size_t count, capacity;
    size_t total_bytes;
    struct room_part *room; /* that they are counted in; NULL: in none */
};

bool is_one_of(const char *name, const char *const *names); /* which end with NULL */
/* Takes data over (freed on failure too). */
int file_list_add(struct file_list *list, const char *path, void *data, size_t size, struct error *reterr);
int file_list_add_copy(struct file_list *list, const char *path, const void *data, size_t size, struct error *reterr);
void file_list_free(struct file_list *list);

/* Blocking; for the thread pool. */
int receive_project(int source, const char *folder,
                    struct error *reterr); /* unpack the launcher's stream into an empty folder */
int receive_file(int source, struct buf *content, struct error *reterr); /* the same of a single file, into memory */
/* The files of a folder of an application's, such as "priv", if it has one. */
int collect_below(int project, const char *app_dir, const char *name, const char *app, struct file_list *list,
                  struct error *reterr);
/* What is taken of a folder: paths are those below it. */
struct collect_choice {
    bool (*is_wanted)(const void *data, const char *path, bool is_folder);
    const void *data;
    const char *what; /* that would be too large */
};
/* The files of a folder that are chosen, at a place of the build. */
int collect_chosen(int folder, const char *target, const struct collect_choice *choice, struct file_list *list,
                   struct error *reterr);
void remove_tree(const char *path);
void empty_tree(const char *path); /* the same, but the folder itself stays */
/* A folder below another, reached through folders only: a link on the way is ELOOP or ENOTDIR, never followed, since
   it would be followed with the daemon's rights. path "" is the folder itself. Returns a descriptor, or -1 and errno.
 */
int open_below(int folder, const char *path);

/* ---- diagnostics.c ---- */

bool text_at(const struct term *map, const char *key, char **ret); /* false for nil too; to be freed */
/* As many as there is room for; *ret_left_out is how many more there are. */
json_t *diagnostics_to_json(const struct term *list, const struct diagnostics_budget *budget, size_t *ret_left_out);
/* Keep as many as there is room for, which is taken; how many went. */
size_t diagnostics_cut(json_t *list, struct diagnostics_budget *budget);

/* ---- cache.c: which build a digest of what it was made from gave ---- */

bool cache_find(const char *home, const struct store *store, const char *key, char ret_digest[STORE_DIGEST_BYTES]);

#endif
