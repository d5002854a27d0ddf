/* Named volumes: ext4 images on loop devices. The images are root's, in a folder of the home that the daemon can't look
   into: nothing but mkfs and the kernel's own ext4 ever writes one, so that the kernel reads no image of a stranger's.

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
    VOLUMES_OPENING_MAX = 1024,
    VOLUME_OWNER_INSIDE = 1000, /* what all files of a volume belong to, on its own disk */
};

struct launcher;
struct jailed_node;

struct volume {
    char name[JAIL_NAME_BYTES];
    uid_t owner;
    uint64_t size_bytes;
    char file[VOLUME_FILE_BYTES];
};

/* One that is being made. */
struct volume_making {
    bool under_way;
    struct request request;
    struct volume volume;
    int report_fd; /* what its helper says; -1 */
    int pidfd;
    uint64_t deadline_ms;
};

struct volume_opening;

struct volumes {
    int folder_fd; /* -1: there are none, without root */
    struct volume_making making[JAIL_VOLUMES_MAKING_MAX];
    struct volume_opening *openings[VOLUMES_OPENING_MAX]; /* NULL: a free place */
};

void volumes_init(struct volumes *volumes);
/* Open or make the folder; images that were not finished are removed. */
int volumes_open(struct launcher *launcher, struct error *reterr);
void volumes_close(struct launcher *launcher);
bool volumes_are_possible(void);

/* ---- store.c ---- */

/* "uid-name", and back. */
void volume_name_file(const char *name, uid_t owner, char ret[VOLUME_FILE_BYTES]);
bool volume_read_file_name(const char *file, struct volume *ret);
/* E_NOT_FOUND. */
int volume_find(const struct launcher *launcher, const char *name, struct volume *ret, struct error *reterr);
/* A line for each: name, uid=, size=. */
int volumes_print(const struct launcher *launcher, struct buf *text, struct error *reterr);
/* One that is a sandbox's /data, and goes with it. */
bool volume_is_private(const char *name);
/* By its owner or root; a private one by the daemon alone, with peer_fd -1. A sandbox that has it mounted keeps what it
   has until its end. */
int volume_remove(const struct launcher *launcher, int peer_fd, const char *name, struct error *reterr);

/* ---- make.c ---- */

void volume_make(struct launcher *launcher, struct request request, int peer_fd, const char *name, uint64_t size_bytes);
void volume_made(struct launcher *launcher, size_t index); /* its helper said something, or ended */
/* The daemon that asked for them has gone: the next one would not know of them. */
void volumes_call_off(struct launcher *launcher);
uint64_t volumes_check(struct launcher *launcher, uint64_t now_ms); /* deadlines; returns the next */

/* ---- loop.c, in a process of its own ---- */

/* A loop device with this image; that which has it already, since two of them would destroy it. The device stays as
   long as it is open, or mounted. */
int loop_attach(int image_fd, char ret_path[32], int *ret_fd, struct error *reterr);
/* A detached mount of the image. */
int volume_mount_image(int image_fd, const char *name, uint64_t attributes, int *ret_fd, struct error *reterr);
/* What was opened, as this node may see it: a mount that is to be attached. */
int volume_dress(int mount_fd, const char *name, const struct jailed_node *node, bool is_read_only, bool is_executable,
                 int *ret_fd, struct error *reterr);

/* ---- open.c ---- */

/* Have a volume opened; *message, a request, is taken over and carried out again with it (requests_go_on). E_LIMIT,
   E_NOT_FOUND. */
int volume_open(struct launcher *launcher, struct request request, const char *name, char **message,
                struct error *reterr);
void volume_opened(struct launcher *launcher, size_t index);                /* its helper said something, or ended */
uint64_t volumes_opening_check(struct launcher *launcher, uint64_t now_ms); /* deadlines; returns the next */
void volumes_opening_close(struct launcher *launcher);

#endif
