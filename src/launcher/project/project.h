/* Projects: opened with the rights of the caller who brought them, then bound into nodes or sent as a stream. */
#ifndef LAUNCHER_PROJECT_PROJECT_H
#define LAUNCHER_PROJECT_PROJECT_H

#include <limits.h>
#include <sys/stat.h>

#include "jail/jail.h"
#include "launcher/server.h"
#include "launcher/start/userns.h"

enum {
    OPEN_TIMEOUT_S = 10,    /* for a project */
    STREAM_TIMEOUT_S = 120, /* for its files, where they come as a stream */
    PROJECT_TOKEN_BYTES = 32,
    CALLER_GROUPS_MAX = 256,
};

struct launcher;
struct wire_message;

struct caller {
    pid_t pid; /* of the process that dialled; 0: not known, as of a standing permission */
    uid_t uid;
    gid_t gid;
    gid_t groups[CALLER_GROUPS_MAX];
    size_t group_count;
};

enum project_state { PROJECT_FREE, PROJECT_OPENING, PROJECT_OPEN };

/* A folder that its caller hands to a sandbox for as long as that lives: not copied or compiled but mounted, and by
   the daemon never seen. */
enum folder_access { FOLDER_NONE, FOLDER_READ, FOLDER_WRITE };

/* What a standing permission is for. Each kind has names of its own: a sandbox's id is never one of another kind's. */
enum grant_kind { GRANT_SOURCE, GRANT_TOOLCHAIN, GRANT_FOLDER, GRANT_KINDS };

struct launcher_project {
    enum project_state state;
    char token[PROJECT_TOKEN_BYTES];
    char path[PATH_MAX];
    char below[PATH_MAX]; /* of a toolchain: the folder of its owner's that it must lie in; "" for a project */
    enum folder_access folder;
    char grant_name[JAIL_NAME_BYTES]; /* of the permission that is all that is wanted; "": it is to be opened */
    struct request request;
    struct caller caller;
    uint64_t deadline_ms; /* of the helper: to open it, then to send its files; UINT64_MAX: there is none */
    int helper_pidfd;     /* the process that opens it, or sends its files; -1: there is none */
    int helper_fd;        /* while opening: where the helper's answer comes from */
    int file_fd;          /* and where the content comes from, should it be a single file */
    int source_fd;        /* opened with the caller's rights */
    bool wants_signature; /* and nothing else: it is not kept open */
    bool bindable;        /* else its files went out as a stream */
};

/* What the process that opens a project says, with the descriptor when it is a success. */
struct opened {
    struct error error;
    bool is_file;
    bool must_be_streamed; /* a folder that is not to be bound, whether it can be or not */
    uint64_t signature;    /* when that is all that is wanted: then no descriptor comes with it */
};

/* The process that waits for the next project to open. */
struct opener {
    int socket_fd; /* -1: none waits */
    int pidfd;
    int file_fd; /* where the content comes from, should it be a single file */
    uint64_t refill_due_ms;
};

/* What a caller lets the service open again. */
struct grant {
    struct caller caller;
    char path[PATH_MAX];
    char below[PATH_MAX]; /* as in struct launcher_project */
    enum folder_access folder;
};

/* below is NULL for a project. */
void project_open(struct launcher *launcher, struct request request, int peer_fd, const char *path, const char *below);
/* By a standing permission; or just find out whether it is as it was. */
void project_open_granted(struct launcher *launcher, struct request request, const char *name, enum grant_kind kind,
                          bool wants_signature);
/* Open a folder as its caller, check all that a sandbox needs of it, and write a permission to open it again. */
void project_grant_folder(struct launcher *launcher, struct request request, int peer_fd, const char *name,
                          const char *path, enum folder_access access);
bool project_is_below(const char *path, const char *below); /* by its name; both are clean */
/* The caller at the other end, if it may bring projects. */
int project_caller(const struct launcher *launcher, int peer_fd, struct caller *ret, struct error *reterr);
uint64_t project_sign(int source_fd, bool is_file);
/* The same of all files of a toolchain. E_TOOLCHAIN: another user may write one of them. */
int toolchain_sign(int source_fd, uid_t owner, uint64_t *ret, struct error *reterr);
/* E_TOOLCHAIN: another user than the owner and root may write the folder, or one that it lies in. */
int toolchain_check_owners(int folder_fd, uid_t owner, struct error *reterr);
bool toolchain_is_safe(const struct stat *status, uid_t owner); /* that no other user may write it */
/* By the process that opens it: this may wait for a file system. */
bool project_must_be_streamed(int source_fd);
bool project_mount_forbids_binding(char *line, const char *folder); /* one line of mountinfo, which is changed */
bool project_mount_is_below(char *line, const char *folder);        /* the same: it is of anything below the folder */
bool folder_has_mounts(const char *folder);                         /* also when that can't be told */
/* "ro", "rw"; FOLDER_NONE for anything else, and for NULL. */
enum folder_access folder_access_find(const char *word);
int grant_write(const struct launcher *launcher, const char *name, const struct grant *grant, struct error *reterr);
int grant_read(const struct launcher *launcher, const char *name, enum grant_kind kind, struct grant *ret,
               struct error *reterr); /* E_FORBIDDEN: there is none */
void grant_remove(const struct launcher *launcher, const char *name, enum grant_kind kind);
/* Withdraw all of a kind but those that the lines name. */
void grant_keep(const struct launcher *launcher, enum grant_kind kind, const char *lines);
void project_advance(struct launcher *launcher, struct launcher_project *project);
uint64_t project_check(struct launcher *launcher, uint64_t now_ms); /* deadlines; returns the next */
struct launcher_project *project_find(struct launcher *launcher, const char *token);
void project_release(struct launcher *launcher, struct launcher_project *project);
void project_release_all(struct launcher *launcher);
/* What is the project's owner's belongs to uid and gid. */
struct userns_map project_map(const struct launcher_project *project, uid_t uid, gid_t gid);
/* A detached read-only mount of the project, with its owners as the user namespace maps them; -1: as they are. */
int project_mount(const struct launcher_project *project, int userns_fd, bool is_executable, int *ret_fd,
                  struct error *reterr);
/* The same of a folder, writable where that was agreed to, and of itself alone: what is mounted below stays outside. */
int folder_mount(const struct launcher_project *folder, int userns_fd, bool is_executable, int *ret_fd,
                 struct error *reterr);
/* Which attributes every mount of it has, whatever the host's has besides. */
uint64_t folder_attributes(const struct launcher_project *folder, bool is_executable);
/* folder.c, in the process that opens: the folder at path, by no link, with no mount below it. */
int folder_open(const struct caller *caller, const char *path, enum folder_access access, bool root,
                struct error *reterr);
/* What a process agrees to by a folder that it has open: to be written when it can be read by that descriptor, to
   connect to services in it when not (O_PATH). */
enum folder_hold { HOLD_TO_WRITE, HOLD_TO_CONNECT };
/* Whether the process that dialled has it open so; asked by a process that has become the caller. */
bool folder_is_held_open(const struct caller *caller, const struct stat *folder, enum folder_hold hold);
/* The caller at the other end of an accepted connection. */
int caller_of(int peer_fd, struct caller *ret, struct error *reterr);
/* Become the caller, for good, in a process of one's own. */
int caller_become(const struct caller *caller, bool root, struct error *reterr);
/* " uid= gid= groups=", for a record; false: the message has no caller. ret is zeroed before. */
void caller_put(const struct caller *caller, struct buf *text);
bool caller_take(const struct wire_message *message, struct caller *ret);
/* Have a project opened by a process that becomes its caller: its answer comes to helper_fd. */
int opener_begin(struct launcher *launcher, struct launcher_project *project, struct error *reterr);
void opener_used(struct launcher *launcher); /* a project is not used any more */
uint64_t opener_check(struct launcher *launcher,
                      uint64_t now_ms); /* whether another is to wait; returns when to look */
void opener_end(struct launcher *launcher);
/* In such a process; name is the file's, NULL for a tree. */
void opener_write_stream(const struct launcher *launcher, const char *path, int source_fd, const char *name);
/* Write the tree or file at source_fd to out_fd as docs/protocols/launcher.md says; name is the file's, NULL for a
   tree. */
int project_stream_write(int source_fd, const char *name, int out_fd, struct error *reterr);

#endif
