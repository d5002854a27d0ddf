/* Plays the launcher's end of the link, and records in a story what the link reports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "folder.h"
#include "link_stage.h"

enum { DEADLINE_MS = 10000 };

static size_t count_descriptors(void) {
    DIR *directory = opendir("/proc/self/fd");
    size_t count = 0;
    assert_non_null(directory);
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

/* ---- what the link tells ---- */

static void on_up(void *data, const struct jail_features *features) {
    struct link_stage *stage = data;
    buf_printf(&stage->story, "up 0x%x cgroup %d landlock %d root %d\n", features->guarantees, features->cgroup_version,
               features->landlock_abi, features->root);
}

static void on_down(void *data) {
    struct link_stage *stage = data;
    buf_append_string(&stage->story, "down\n");
}

static void on_node(void *data, const struct link_node *node) {
    struct link_stage *stage = data;
    buf_printf(&stage->story, "node %s pid %d start %llu uid %u memory '%s' cpu '%s' frozen %d fds %d %d\n", node->name,
               node->pid, (unsigned long long)node->start_time, node->uid, node->memory_cgroup, node->cpu_cgroup,
               node->frozen, fcntl(node->pidfd, F_GETFD), node->output_fd);
    close(node->pidfd);
}

static void on_violation(void *data, const struct link_violation *violation) {
    struct link_stage *stage = data;
    buf_printf(&stage->story, "violation %s %s '%s' x%llu\n", violation->node, violation->syscall, violation->detail,
               (unsigned long long)violation->count);
}

static void record_error(struct link_stage *stage, const struct error *error) {
    buf_printf(&stage->story, "%s: %s\n", error_kind(error->code)->slug, error->detail);
}

void on_done(void *data, const struct error *error) {
    struct link_stage *stage = data;
    if (error)
        record_error(stage, error);
    else
        buf_append_string(&stage->story, "done\n");
}

void on_spawned(void *data, const struct link_node *node, const struct error *error) {
    struct link_stage *stage = data;
    if (error) {
        record_error(stage, error);
        return;
    }
    buf_printf(&stage->story, "spawned %s pid %d uid %u fds %d %d\n", node->name, node->pid, node->uid,
               fcntl(node->pidfd, F_GETFD), fcntl(node->output_fd, F_GETFD));
    close(node->pidfd), close(node->output_fd);
}

void on_buried(void *data, const struct jail_death *death, const struct error *error) {
    struct link_stage *stage = data;
    if (error)
        record_error(stage, error);
    else
        buf_printf(&stage->story, "buried cause %d status %d oom %llu\n", (int)death->cause, death->status,
                   (unsigned long long)death->oom_kills);
}

void on_disks(void *data, const int fds[JAIL_DISKS], const struct error *error) {
    struct link_stage *stage = data;
    if (error)
        record_error(stage, error);
    else
        buf_printf(&stage->story, "disks %d %d\n", fds[0] >= 0, fds[1] >= 0);
    for (size_t i = 0; i < JAIL_DISKS; i++) fd_close(fds[i]);
}

void on_project(void *data, const struct link_project *project, const struct error *error) {
    struct link_stage *stage = data;
    if (error) {
        record_error(stage, error);
        return;
    }
    char text[64] = "";
    ssize_t size = project->is_stream ? read(project->fd, text, sizeof text - 1) : 0;
    buf_printf(&stage->story, "project %s stream %d file %d '%s' fd %d", project->token, project->is_stream,
               project->is_file, project->name, fcntl(project->fd, F_GETFD));
    buf_printf(&stage->story, size > 0 ? " holds '%s'\n" : "\n", text);
    close(project->fd);
}

void assert_story(struct link_stage *stage, const char *expected) {
    assert_string_equal(buf_string(&stage->story), expected);
    buf_clear(&stage->story);
}

/* ---- the stage ---- */

void listen_at(struct link_stage *stage) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/launcher.sock", stage->home);
    unlink(address.sun_path);
    stage->server_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(stage->server_fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(stage->server_fd, 4), 0);
}

const struct link_handler link_stage_handler = {
    .up = on_up, .down = on_down, .node = on_node, .violation = on_violation};

int link_stage_set_up(void **state) {
    struct link_stage *stage = calloc(1, sizeof *stage);
    struct error error;
    stage->descriptors_before = count_descriptors();
    stage->launcher_fd = -1;
    if (!test_folder_make(stage->home) || uv_loop_init(&stage->loop) < 0) return -1;
    listen_at(stage);
    if (link_open(&stage->loop, stage->home, &link_stage_handler, stage, &stage->link, &error) < 0) return -1;
    *state = stage;
    return 0;
}

void on_closed(void *data) {
    struct link_stage *stage = data;
    stage->closed = true;
}

void close_link(struct link_stage *stage) {
    link_close(stage->link, on_closed, stage);
    uv_run(&stage->loop, UV_RUN_DEFAULT);
    assert_true(stage->closed);
}

int link_stage_tear_down(void **state) {
    struct link_stage *stage = *state;
    char path[128];
    if (!stage->closed) close_link(stage);
    int failed = uv_loop_close(&stage->loop);
    fd_close(stage->server_fd), fd_close(stage->launcher_fd);
    snprintf(path, sizeof path, "%s/launcher.sock", stage->home);
    unlink(path);
    failed |= rmdir(stage->home);
    buf_free(&stage->story);
    if (count_descriptors() != stage->descriptors_before) failed = -1;
    free(stage);
    return failed;
}

void run_until_readable(struct link_stage *stage, int fd) {
    uint64_t deadline_ms = clock_monotonic_ms() + DEADLINE_MS;
    size_t told = stage->story.size;
    for (;;) {
        struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = uv_backend_fd(&stage->loop), .events = POLLIN}};
        uv_run(&stage->loop, UV_RUN_NOWAIT);
        if (fd < 0 && stage->story.size > told) return;
        if (clock_monotonic_ms() >= deadline_ms) fail_msg("nothing happened");
        int timeout_ms = uv_backend_timeout(&stage->loop);
        poll(fds, 2, timeout_ms >= 0 && timeout_ms < DEADLINE_MS ? timeout_ms : DEADLINE_MS);
        if (fds[0].revents) return;
    }
}

void run_until_told(struct link_stage *stage) {
    run_until_readable(stage, -1);
}

const char *hear(struct link_stage *stage, int *ret_fd) {
    char control[CMSG_SPACE(sizeof(int))];
    struct msghdr message = {.msg_iov = &(struct iovec){stage->message, JAIL_MESSAGE_BYTES},
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    run_until_readable(stage, stage->launcher_fd);
    ssize_t size = recvmsg(stage->launcher_fd, &message, MSG_CMSG_CLOEXEC);
    assert_true(size > 0);
    stage->message[size] = '\0';
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int fd = -1;
    if (header) memcpy(&fd, CMSG_DATA(header), sizeof fd);
    if (ret_fd)
        *ret_fd = fd;
    else
        assert_int_equal(fd, -1);
    return stage->message;
}

void assert_heard(struct link_stage *stage, const char *expected) {
    assert_string_equal(hear(stage, NULL), expected);
}

static void say_with_these(struct link_stage *stage, const char *text, size_t size, const int *fds, size_t fd_count) {
    char control[CMSG_SPACE(4 * sizeof *fds)] = {0};
    struct msghdr message = {.msg_iov = &(struct iovec){(char *)text, size}, .msg_iovlen = 1};
    if (fd_count) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
    }
    assert_int_equal(sendmsg(stage->launcher_fd, &message, MSG_NOSIGNAL), size);
}

void say_with(struct link_stage *stage, const char *text, size_t size, size_t fd_count) {
    int fds[4] = {-1, -1, -1, -1};
    for (size_t i = 0; i < fd_count; i++) fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    say_with_these(stage, text, size, fds, fd_count);
    for (size_t i = 0; i < fd_count; i++) close(fds[i]);
}

int say_with_pipe(struct link_stage *stage, const char *text) {
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    say_with_these(stage, text, strlen(text), fds, 1);
    close(fds[0]);
    return fds[1];
}

void say(struct link_stage *stage, const char *text) {
    say_with(stage, text, strlen(text), 0);
}

void accept_dial(struct link_stage *stage) {
    run_until_readable(stage, stage->server_fd);
    fd_close(stage->launcher_fd);
    stage->launcher_fd = accept4(stage->server_fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(stage->launcher_fd >= 0);
    assert_heard(stage, "hello 0 version=2");
}

void come_up(struct link_stage *stage) {
    accept_dial(stage);
    say(stage, "ok 0 version=2 guarantees=0x3fff cgroup=1 landlock=7 root=1");
    say(stage, "ready");
    run_until_told(stage);
    assert_story(stage, "up 0x3fff cgroup 1 landlock 7 root 1\n");
    assert_true(link_is_up(stage->link));
}

/* The first loop of a process opens descriptors that stay. */
int link_stage_open_group(void **state) {
    (void)state;
    uv_loop_t loop = {0};
    return uv_loop_init(&loop) == 0 ? uv_loop_close(&loop) : -1;
}
