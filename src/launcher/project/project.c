/* Projects, opened with their owner's rights and handed on as mounts that show the owner's files as the reader's own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "jail/wire.h"
#include "launcher/launcher.h"
#include "launcher/project/helper.h"
#include "launcher/project/project.h"
#include "launcher/server.h"
#include "launcher/start/userns.h"

/* The helper's own alarms are not enough, and a little shorter: it runs with the caller's uid, so the caller may stop
   it. */
enum { OPEN_PATIENCE_MS = (OPEN_TIMEOUT_S + 1) * 1000, STREAM_PATIENCE_MS = (STREAM_TIMEOUT_S + 1) * 1000 };

struct opening {
    const struct launcher *launcher;
    const struct launcher_project *project;
};

struct launcher_project *project_find(struct launcher *launcher, const char *token) {
    for (size_t i = 0; i < JAIL_PROJECTS_MAX; i++)
        if (launcher->projects[i].state == PROJECT_OPEN && strcmp(launcher->projects[i].token, token) == 0)
            return &launcher->projects[i];
    return NULL;
}

void project_release(struct launcher *launcher, struct launcher_project *project) {
    launcher_unwatch(launcher, project->helper_fd);
    helper_end_of(launcher, project->caller.uid, project->helper_pidfd);
    fd_close(project->helper_fd);
    fd_close(project->file_fd);
    fd_close(project->source_fd);
    *project = (struct launcher_project){.helper_pidfd = -1, .helper_fd = -1, .file_fd = -1, .source_fd = -1};
    opener_used(launcher);
}

void project_release_all(struct launcher *launcher) {
    if (!launcher->projects) return;
    for (size_t i = 0; i < JAIL_PROJECTS_MAX; i++)
        if (launcher->projects[i].state != PROJECT_FREE) project_release(launcher, &launcher->projects[i]);
}

static const char *file_name(const struct launcher_project *project) {
    return strrchr(project->path, '/') + 1;
}

/* With the entry at hand, which is in the table already. */
static struct share share_of(const struct launcher *launcher, uid_t uid) { /* a principal's */
    const struct principals *principals = &launcher->principals;
    struct share share = {.all = JAIL_PROJECTS_MAX};
    for (size_t i = 0; i < JAIL_PROJECTS_MAX; i++) {
        bool is_taken = launcher->projects[i].state != PROJECT_FREE;
        share.used += is_taken;
        share.own += is_taken && principals_of(principals, launcher->projects[i].caller.uid) == uid;
    }
    return share;
}

/* Root and the service's own user are not bound, and have entries kept for them. */
static int check_share(struct launcher *launcher, uid_t uid, struct error *reterr) {
    uid_t principal = principals_of(&launcher->principals, uid);
    struct share share = share_of(launcher, principal);
    if (uid == 0 || uid == launcher->daemon_uid) return 0;
    if (helper_check_dying(launcher, principal, reterr) < 0) return -1;
    if (share_is_fair(&share, true)) return 0;
    return error_set(reterr, E_LIMIT, "%d projects are open, %d of them of uid %u, and no more are opened for it",
                     (int)share.used - 1, (int)share.own - 1, uid);
}

static int start_opening(struct launcher *launcher, struct launcher_project *project, struct error *reterr) {
    if (check_share(launcher, project->caller.uid, reterr) < 0) return -1;
    if (opener_begin(launcher, project, reterr) < 0) return -1;
    return launcher_watch(launcher, project->helper_fd, SOURCE_PROJECT, (size_t)(project - launcher->projects), reterr);
}

/* A free entry, with a token of its own; NULL, and the request is answered. */
static struct launcher_project *take_entry(struct launcher *launcher, struct request request) {
    struct error error;
    struct launcher_project *project = NULL;
    for (size_t i = 0; i < JAIL_PROJECTS_MAX && !project; i++)
        if (launcher->projects[i].state == PROJECT_FREE) project = &launcher->projects[i];
    if (!project) {
        error_set(&error, E_LIMIT, "%d projects are open already", JAIL_PROJECTS_MAX);
        server_fail(launcher, request, &error);
        return NULL;
    }
    *project = (struct launcher_project){.state = PROJECT_OPENING,
                                         .request = request,
                                         .deadline_ms = clock_monotonic_ms() + OPEN_PATIENCE_MS,
                                         .helper_pidfd = -1,
                                         .helper_fd = -1,
                                         .file_fd = -1,
                                         .source_fd = -1};
    launcher_due_at(launcher, project->deadline_ms);
    snprintf(project->token, sizeof project->token, "p%llu", (unsigned long long)++launcher->project_serial);
    return project;
}

static void end_failed(struct launcher *launcher, struct launcher_project *project, const struct error *error) {
    struct request request = project->request;
    project_release(launcher, project);
    server_fail(launcher, request, error);
}

int project_caller(const struct launcher *launcher, int peer_fd, struct caller *ret, struct error *reterr) {
    if (caller_of(peer_fd, ret, reterr) < 0) return -1;
    if (!launcher->root && ret->uid != launcher->daemon_uid)
        return error_set(reterr, E_FORBIDDEN, "only uid %u may bring projects here", launcher->daemon_uid);
    return 0;
}

bool project_is_below(const char *path, const char *below) {
    size_t length = strlen(below);
    return strncmp(path, below, length) == 0 && path[length] == '/';
}

void project_open(struct launcher *launcher, struct request request, int peer_fd, const char *path, const char *below) {
    struct error error;
    struct launcher_project *project = take_entry(launcher, request);
    if (!project) return;
    snprintf(project->path, sizeof project->path, "%s", path);
    snprintf(project->below, sizeof project->below, "%s", below ? below : "");
    if (project_caller(launcher, peer_fd, &project->caller, &error) < 0 || start_opening(launcher, project, &error) < 0)
        end_failed(launcher, project, &error);
}

/* What the home holds is the service's: its sockets and records are in no sandbox. */
static int check_apart(const struct launcher *launcher, const char *path, struct error *reterr) {
    const char *home = launcher->home.path;
    bool is_apart = strcmp(path, home) != 0 && !project_is_below(path, home) && !project_is_below(home, path);
    return is_apart ? 0 : error_set(reterr, E_INVALID, "%s holds the service's own files, or is among them", path);
}

void project_grant_folder(struct launcher *launcher, struct request request, int peer_fd, const char *name,
                          const char *path, enum folder_access access) {
    struct error error;
    struct launcher_project *project = take_entry(launcher, request);
    if (!project) return;
    project->folder = access;
    snprintf(project->path, sizeof project->path, "%s", path);
    snprintf(project->grant_name, sizeof project->grant_name, "%s", name);
    if (check_apart(launcher, path, &error) < 0 || project_caller(launcher, peer_fd, &project->caller, &error) < 0 ||
        start_opening(launcher, project, &error) < 0)
        end_failed(launcher, project, &error);
}

void project_open_granted(struct launcher *launcher, struct request request, const char *name, enum grant_kind kind,
                          bool wants_signature) {
    struct error error;
    struct grant grant;
    struct launcher_project *project = take_entry(launcher, request);
    if (!project) return;
    project->wants_signature = wants_signature;
    int failed = grant_read(launcher, name, kind, &grant, &error);
    if (!failed) {
        project->caller = grant.caller;
        memcpy(project->path, grant.path, sizeof project->path);
        memcpy(project->below, grant.below, sizeof project->below);
        project->folder = grant.folder;
        failed = start_opening(launcher, project, &error);
    }
    if (failed) end_failed(launcher, project, &error);
}

static void give_up(struct launcher *launcher, struct launcher_project *project) {
    struct error error;
    error_set(&error, E_TIMEOUT, "%s was not opened within %d s", project->path, OPEN_TIMEOUT_S);
    end_failed(launcher, project, &error);
}

/* An open project stays open, but sends no more of its files: the reader sees that they ended early. */
static void run_out_of_time(struct launcher *launcher, struct launcher_project *project) {
    if (project->state == PROJECT_OPENING) {
        give_up(launcher, project);
        return;
    }
    project->helper_pidfd = helper_end_of(launcher, project->caller.uid, project->helper_pidfd);
    project->deadline_ms = UINT64_MAX;
}

uint64_t project_check(struct launcher *launcher, uint64_t now_ms) {
    uint64_t next_ms = UINT64_MAX;
    for (size_t i = 0; i < JAIL_PROJECTS_MAX; i++) {
        struct launcher_project *project = &launcher->projects[i];
        if (project->state == PROJECT_FREE) continue;
        if (now_ms >= project->deadline_ms)
            run_out_of_time(launcher, project);
        else if (project->deadline_ms < next_ms)
            next_ms = project->deadline_ms;
    }
    return next_ms;
}

struct userns_map project_map(const struct launcher_project *project, uid_t uid, gid_t gid) {
    return (struct userns_map){project->caller.uid, uid, project->caller.gid, gid};
}

/* What is mounted below comes along, with the same attributes: without it the files that it covers would be seen. Where
   one of them has no idmapped mounts it fails, and the project is streamed. */
int project_mount(const struct launcher_project *project, int userns_fd, bool is_executable, int *ret_fd,
                  struct error *reterr) {
    CLEANUP_FD int fd =
        open_tree(project->source_fd, "", AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (fd < 0) return error_errno(reterr, errno, "bind %s", project->path);
    struct mount_attr change = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
                                .propagation = MS_PRIVATE};
    if (!is_executable) change.attr_set |= MOUNT_ATTR_NOEXEC;
    if (userns_fd >= 0) {
        change.attr_set |= MOUNT_ATTR_IDMAP;
        change.userns_fd = (unsigned)userns_fd;
    }
    if (mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &change, sizeof change) < 0)
        return error_errno(reterr, errno, "map the owner of %s", project->path);
    *ret_fd = take_fd(&fd);
    return 0;
}

static int receive_opened(struct launcher_project *project, struct opened *ret, struct error *reterr) {
    struct opened opened = {0};
    CLEANUP_FD int fd = -1;
    ssize_t size = fd_receive(project->helper_fd, &opened, sizeof opened, &fd, 1, MSG_DONTWAIT);
    if (size != sizeof opened)
        return error_set(reterr, E_TIMEOUT, "%s was not opened within %d s", project->path, OPEN_TIMEOUT_S);
    if (helper_error(&opened.error, reterr) < 0) return -1;
    *ret = opened;
    if (project->wants_signature || opened.is_file) return 0;
    if (fd < 0) return error_set(reterr, E_SYSTEM, "%s was opened without a descriptor", project->path);
    project->source_fd = take_fd(&fd);
    return 0;
}

/* A tree that can't be bound. */
static void help_stream(const void *data) {
    const struct opening *opening = data;
    if (caller_become(&opening->project->caller, opening->launcher->root, NULL) == 0)
        opener_write_stream(opening->launcher, opening->project->path, HELPER_FD, NULL);
}

static int start_stream(struct launcher *launcher, struct launcher_project *project, int *ret_fd,
                        struct error *reterr) {
    int fds[2];
    struct opening opening = {launcher, project};
    if (pipe2(fds, O_CLOEXEC) < 0) return error_errno(reterr, errno, "make a pipe");
    CLEANUP_FD int read_fd = fds[0];
    CLEANUP_FD int write_fd = fds[1];
    project->helper_pidfd = helper_end(project->helper_pidfd);
    launcher_log_follow(launcher);
    if (helper_start(help_stream, &opening, (int[]){project->source_fd, write_fd}, 2, &project->helper_pidfd, reterr) <
        0)
        return -1;
    *ret_fd = take_fd(&read_fd);
    return 0;
}

/* The directory outlives the mount's own descriptor, whose end makes the mount unchangeable. As long as it is detached
   but alive, a process that holds it may make it writable, from a user namespace of its own. */
static int open_unchangeable(struct launcher *launcher, const struct launcher_project *project) {
    CLEANUP_FD int mount_fd = -1;
    struct userns_map map = project_map(project, launcher->daemon_uid, launcher->daemon_gid);
    int userns_fd = userns_get(&launcher->user_namespaces, &map, NULL);
    bool is_mapped = userns_fd >= 0 && project_mount(project, userns_fd, false, &mount_fd, NULL) == 0;
    /* Where owners can't be mapped, a toolchain is seen by what all users may read. */
    if (!is_mapped && (!project->below[0] || project_mount(project, -1, false, &mount_fd, NULL) < 0)) return -1;
    return openat(mount_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int refuse_stream(const struct launcher_project *project, struct error *reterr) {
    return error_set(reterr, E_TOOLCHAIN, "%s lies on a file system that can't be mounted into sandboxes",
                     project->path);
}

/* A directory the daemon can read, if it can be had; else its files as a stream. */
static int hand_on(struct launcher *launcher, struct launcher_project *project, const struct opened *opened,
                   int *ret_fd, struct error *reterr) {
    if (opened->is_file) {
        *ret_fd = take_fd(&project->file_fd);
        return 0;
    }
    if (launcher->root)
        *ret_fd = opened->must_be_streamed ? -1 : open_unchangeable(launcher, project);
    else
        *ret_fd = fcntl(project->source_fd, F_DUPFD_CLOEXEC, 0);
    project->bindable = *ret_fd >= 0;
    if (project->bindable) return 0;
    return project->below[0] ? refuse_stream(project, reterr) : start_stream(launcher, project, ret_fd, reterr);
}

/* That it can be mounted is found out before a sandbox is made for it. */
static int check_folder(struct launcher *launcher, struct launcher_project *project, struct error *reterr) {
    CLEANUP_FD int fd = -1;
    struct userns_map map = project_map(project, launcher->daemon_uid, launcher->daemon_gid);
    project->bindable = true;
    if (!launcher->root) return 0;
    int userns_fd = userns_get(&launcher->user_namespaces, &map, reterr);
    return userns_fd < 0 ? -1 : folder_mount(project, userns_fd, false, &fd, reterr);
}

static int write_grant(const struct launcher *launcher, const struct launcher_project *project, struct error *reterr) {
    struct grant grant = {.caller = project->caller, .folder = project->folder};
    memcpy(grant.path, project->path, sizeof grant.path);
    return grant_write(launcher, project->grant_name, &grant, reterr);
}

static void answer_granted(struct launcher *launcher, struct launcher_project *project) {
    struct request request = project->request;
    project_release(launcher, project);
    server_ok(launcher, request, "", NULL, 0);
}

static void answer_signature(struct launcher *launcher, struct launcher_project *project, uint64_t signature) {
    struct request request = project->request;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    project_release(launcher, project);
    wire_put_number(&text, "signature", signature);
    server_ok(launcher, request, buf_string(&text), NULL, 0);
}

/* A helper that opened a folder to bind has finished. */
static void expect_files(struct launcher *launcher, struct launcher_project *project) {
    if (project->bindable) project->helper_pidfd = helper_end(project->helper_pidfd);
    project->deadline_ms = project->bindable ? UINT64_MAX : clock_monotonic_ms() + STREAM_PATIENCE_MS;
    launcher_due_at(launcher, project->deadline_ms);
}

static void answer_opened(struct launcher *launcher, struct launcher_project *project, bool is_file, int fd) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    launcher_unwatch(launcher, project->helper_fd);
    project->helper_fd = fd_close(project->helper_fd);
    project->file_fd = fd_close(project->file_fd);
    project->state = PROJECT_OPEN;
    expect_files(launcher, project);
    wire_put_pair(&text, "token", project->token);
    wire_put_pair(&text, "kind", project->folder ? "folder" : project->bindable ? "mount" : "stream");
    wire_put_pair(&text, "file", is_file ? file_name(project) : "");
    server_ok(launcher, project->request, buf_string(&text), &fd, fd >= 0);
}

void project_advance(struct launcher *launcher, struct launcher_project *project) {
    struct error error;
    struct opened opened = {0};
    CLEANUP_FD int fd = -1;
    int failed = receive_opened(project, &opened, &error);
    bool is_folder = project->folder != FOLDER_NONE, is_for_grant = project->grant_name[0] != '\0';
    if (!failed && is_folder)
        failed = check_folder(launcher, project, &error);
    else if (!failed && !project->wants_signature)
        failed = hand_on(launcher, project, &opened, &fd, &error);
    if (!failed && is_for_grant) failed = write_grant(launcher, project, &error);
    if (failed)
        end_failed(launcher, project, &error);
    else if (is_for_grant)
        answer_granted(launcher, project);
    else if (project->wants_signature)
        answer_signature(launcher, project, opened.signature);
    else
        answer_opened(launcher, project, opened.is_file, fd);
}
