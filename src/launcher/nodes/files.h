/* Files of a running node, read and written for its owner. */
#ifndef LAUNCHER_NODES_FILES_H
#define LAUNCHER_NODES_FILES_H

#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"
#include "launcher/server.h"

struct jailed_node;
struct launcher;

enum { FILES_DOING_MAX = 128, FILES_DOING_OF_NODE = 8 };

enum file_kind { FILE_READ, FILE_WRITE, FILE_MAKE_FOLDER, FILE_LIST, FILE_TASKS };

struct file_task {
    enum file_kind kind;
    const char *path;
    uint64_t offset; /* 0 of what is written: the file is made, or made empty */
    size_t length;
    mode_t mode; /* of what is made */
};

bool file_task_find(const char *word, enum file_kind *ret);
/* One that is under way: the disk may be slow. */
struct file_doing {
    bool under_way;
    struct request request;
    uid_t uid;            /* the node's */
    int report_fd, pidfd; /* of its helper */
    int memory_fd;        /* for what is read; -1 */
    uint64_t deadline_ms;
};

struct files {
    struct file_doing doing[FILES_DOING_MAX];
};

/* data_fd has what is to be written, else -1. Answers the request, with a memory file of what was read. E_INVALID for a
   path that is not below /data or /mnt, leads through a link, or is neither folder nor regular file. */
void jailed_file(struct launcher *launcher, struct request request, const struct jailed_node *node,
                 const struct file_task *task, int data_fd);
void jailed_file_done(struct launcher *launcher, size_t index);          /* its helper said something, or ended */
uint64_t jailed_files_check(struct launcher *launcher, uint64_t now_ms); /* deadlines; returns the next */
void jailed_files_close(struct launcher *launcher);

#endif
