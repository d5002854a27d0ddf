/* Files of a running node, read and written for its owner. */
#ifndef LAUNCHER_NODES_FILES_H
#define LAUNCHER_NODES_FILES_H

#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"

struct jailed_node;
struct launcher;

enum file_kind { FILE_READ, FILE_WRITE, FILE_MAKE_FOLDER, FILE_LIST, FILE_TASKS };

struct file_task {
    enum file_kind kind;
    const char *path;
    uint64_t offset; /* 0 of what is written: the file is made, or made empty */
    size_t length;
    mode_t mode; /* of what is made */
};

bool file_task_find(const char *word, enum file_kind *ret);
/* data_fd has what is to be written, else -1. *ret_fd is a memory file with what was read, else -1. E_INVALID for a
   path that is not below /data or /mnt, leads through a link, or is neither folder nor regular file. */
int jailed_file(const struct launcher *launcher, const struct jailed_node *node, const struct file_task *task,
                int data_fd, int *ret_fd, struct error *reterr);

#endif
