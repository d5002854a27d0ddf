/* Named volumes, and sandboxes' own: ext4 images on loop devices. The images are root's, in a folder of the home that
   the daemon can't look into: nothing but mkfs and the kernel's own ext4 ever writes one, so that the kernel reads no
   image of a stranger's.

   A file's name tells whose it is and what it is called, and its size is the volume's: there are no further records.
   A loop device ends by itself with its last mount, which ends with the last node that has it. */
#ifndef LAUNCHER_VOLUMES_VOLUMES_H
#define LAUNCHER_VOLUMES_VOLUMES_H

#include <stdint.h>
#include <sys/types.h>

#include "jail/jail.h"
#include "launcher/server.h"

enum {
    VOLUME_FILE_BYTES = JAIL_NAME_BYTES + 16,
    VOLUME_UNFINISHED_BYTES = VOLUME_FILE_BYTES + 64,
    VOLUME_WORKS_MAX = 1024,
    VOLUME_OWNER_INSIDE = 1000, /* what all files of a volume belong to, on its own disk */
};

#define VOLUME_SPARE_PREFIX ".spare-"

struct launcher;
struct jailed_node;

struct volume {
    char name[JAIL_NAME_BYTES];
    uid_t owner;
    uint64_t size_bytes;
    char file[VOLUME_FILE_BYTES];
};

enum volume_deed { VOLUME_MAKE, VOLUME_OPEN, VOLUME_REMOVE, VOLUME_SPARE };

struct volume_work;

struct volumes {
    int folder_fd;        /* -1: there are none, without root */
    struct volume *known; /* what is in the folder: nothing else changes it */
    size_t known_count, known_room;
    struct volume_work *works[VOLUME_WORKS_MAX]; /* NULL: a free place */
    uint64_t works_begun;
};

void volumes_init(struct volumes *volumes);
/* Open or make the folder; what was not finished is removed. */
int volumes_open(struct launcher *launcher, struct error *reterr);
void volumes_close(struct launcher *launcher);
bool volumes_are_possible(void);

/* ---- store.c ---- */

/* "uid-name", and back. */
void volume_name_file(const char *name, uid_t owner, char ret[VOLUME_FILE_BYTES]);
bool volume_read_file_name(const char *file, struct volume *ret);
/* NULL: there is none. Until the next one is added or forgotten. */
const struct volume *volume_find(const struct launcher *launcher, const char *name);
/* A line for each: name, uid=, size=. Those that are a sandbox's own are too many for one answer: of them, those alone
   whose names go on with this digit; NUL: the others. */
int volumes_print(const struct launcher *launcher, char digit, struct buf *text, struct error *reterr);
/* One that is a sandbox's /data, and goes with it. */
bool volume_is_private(const char *name);
bool volume_name_is_listed(const char *name); /* a private one's is hexadecimal */
/* E_LIMIT: there is no room for one more, or its owner has its share of it. */
int volumes_check_room(const struct launcher *launcher, const struct volume *wanted, struct error *reterr);
int volume_add(struct launcher *launcher, const struct volume *volume, struct error *reterr);
void volume_forget(struct launcher *launcher, const char *name);

/* ---- image.c, in a process of its own: HELPER_FD is the folder ---- */

/* In this file, which the launcher gives its name: a process that outlives its launcher makes no volume. */
int image_make(const struct volume *volume, const char *unfinished, struct error *reterr);
int image_mount(const struct volume *volume, const char *file, int *ret_fd, struct error *reterr);
int image_remove(const struct volume *volume, struct error *reterr);
bool image_may_be_copied(uint64_t size_bytes); /* from an empty one of this size, in no time */
/* What an empty one is called until it is made, by a process that makes this one. */
void image_name_blank(const char *unfinished, char ret[VOLUME_UNFINISHED_BYTES]);

/* ---- loop.c, in a process of its own ---- */

/* A loop device with this image; that which has it already, since two of them would destroy it. The device stays as
   long as it is open, or mounted. */
int loop_attach(int image_fd, char ret_path[32], int *ret_fd, struct error *reterr);
/* A detached mount of the image. */
int volume_mount_image(int image_fd, const char *name, uint64_t attributes, int *ret_fd, struct error *reterr);
/* What was opened, as this node may see it: a mount that is to be attached. */
int volume_dress(int mount_fd, const char *name, const struct jailed_node *node, bool is_read_only, bool is_executable,
                 int *ret_fd, struct error *reterr);

/* ---- work.c ---- */

void volume_make(struct launcher *launcher, struct request request, int peer_fd, const char *name, uint64_t size_bytes);
/* By its owner or root; a private one by the daemon alone, with peer_fd -1. A sandbox that has it mounted keeps what it
   has until its end. */
void volume_remove(struct launcher *launcher, struct request request, int peer_fd, const char *name);
/* Have a volume opened; *message, a request, is taken over and carried out again with it (requests_go_on). E_LIMIT,
   E_NOT_FOUND. */
int volume_open(struct launcher *launcher, struct request request, const char *name, char **message,
                struct error *reterr);
void volume_work_done(struct launcher *launcher, size_t index); /* its process said something, or ended */
/* The daemon that had them made has gone: the next one would not know of them. */
void volumes_call_off(struct launcher *launcher);
uint64_t volumes_check(struct launcher *launcher, uint64_t now_ms); /* deadlines; returns the next */

#endif
