/* Plays the launcher and the agents around a node on the test's own loop. */
#include "node/stage.h"
#include "folder.h"
#include "terms.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { DEADLINE_MS = 10000, TICK_MS = 5 };

/* ---- waiting ---- */

static void on_deadline(uv_timer_t *timer) {
    ((struct stage *)timer->data)->late = true;
}

static void on_tick(uv_timer_t *timer) {
    (void)timer;
}

void stage_begin_wait(struct stage *stage) {
    stage->late = false;
    uv_timer_start(&stage->deadline, on_deadline, DEADLINE_MS, 0);
    uv_timer_start(&stage->tick, on_tick, TICK_MS, TICK_MS); /* conditions on sockets do not wake the loop */
}

void stage_end_wait(struct stage *stage) {
    uv_timer_stop(&stage->deadline);
    uv_timer_stop(&stage->tick);
}

void stage_expect(struct stage *stage, const char *story) {
    assert_string_equal(buf_string(&stage->story), story);
    buf_clear(&stage->story);
}

const char stage_over[] = "violation:protocol_violation gone:misbehaved/protocol_violation ";

bool stage_heard(struct stage *stage, const char *part) {
    return strstr(buf_string(&stage->story), part) != NULL;
}

/* ---- the launcher ---- */

static void launcher_send(struct stage *stage, const char *text, const int *fds, size_t fd_count) {
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct msghdr message = {.msg_iov = &(struct iovec){(char *)text, strlen(text)}, .msg_iovlen = 1};
    if (fd_count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
    }
    assert_true(sendmsg(stage->launcher_fd, &message, MSG_NOSIGNAL) > 0);
}

static pid_t fork_vm(struct stage *stage) {
    assert_true(stage->child_count < CHILDREN_MAX);
    int forked[2];
    char byte;
    assert_int_equal(pipe2(forked, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(forked[1], STDIN_FILENO);
        close_range(3, ~0U, 0); /* or it would keep agents' connections open */
        if (write(STDIN_FILENO, "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    assert_true(child > 0);
    close(forked[1]);
    assert_int_equal(read(forked[0], &byte, 1), 1); /* they are closed */
    close(forked[0]);
    stage->children[stage->child_count] = child;
    return child;
}

void launcher_answer_spawn(struct stage *stage, uint64_t id) {
    char text[256];
    int output[2];
    pid_t child = fork_vm(stage);
    int pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    assert_true(pidfd >= 0);
    assert_int_equal(pipe2(output, O_CLOEXEC), 0);
    snprintf(text, sizeof text, "ok %llu pid=%d start=1 uid=%u memory= cpu= frozen=0", (unsigned long long)id, child,
             getuid());
    launcher_send(stage, text, (int[]){pidfd, output[0]}, 2);
    close(pidfd);
    close(output[0]);
    stage->output_fds[stage->child_count++] = output[1];
}

static void end_children(struct stage *stage) {
    for (size_t i = 0; i < stage->child_count; i++) {
        kill(stage->children[i], SIGKILL);
        waitpid(stage->children[i], NULL, 0);
        close(stage->output_fds[i]);
    }
    stage->child_count = 0;
}

static void close_launcher_fd(uv_handle_t *handle) {
    struct stage *stage = handle->data;
    close(stage->launcher_fd);
    stage->launcher_polled = false;
}

static void drop_link(struct stage *stage) {
    if (!stage->launcher_polled || uv_is_closing((uv_handle_t *)&stage->launcher_poll)) return;
    shutdown(stage->launcher_fd, SHUT_RDWR);
    uv_close((uv_handle_t *)&stage->launcher_poll, close_launcher_fd);
}

static void answer_spawn(struct stage *stage, uint64_t id) {
    char text[128];
    stage->spawns++;
    if (stage->refuse_spawns) {
        snprintf(text, sizeof text, "error %llu disk_full no%%20room", (unsigned long long)id);
        launcher_send(stage, text, NULL, 0);
    } else if (stage->hold_spawns) {
        stage->held_id = id;
    } else {
        launcher_answer_spawn(stage, id);
    }
}

static void answer_equip(struct stage *stage, uint64_t id, const char *request) {
    char text[128];
    snprintf(stage->equipped, sizeof stage->equipped, "%.1023s", request);
    snprintf(text, sizeof text, stage->refuse_equipping ? "error %llu conflict it%%20is%%20full" : "ok %llu",
             (unsigned long long)id);
    launcher_send(stage, text, NULL, 0);
}

static void answer_yield(struct stage *stage, uint64_t id) {
    char text[64];
    stage->yields++;
    snprintf(text, sizeof text,
             stage->refuse_yielding ? "error %llu guarantee_missing no"
             : stage->fail_yielding ? "error %llu system_error no"
                                    : "ok %llu",
             (unsigned long long)id);
    launcher_send(stage, text, NULL, 0);
}

static void answer_bury(struct stage *stage, uint64_t id) {
    char text[128];
    stage->burials++;
    if (stage->silent_about_bury) {
        drop_link(stage);
        return;
    }
    snprintf(text, sizeof text, "ok %llu %s", (unsigned long long)id,
             stage->death ? stage->death : "cause=killed status=9 oom=0");
    launcher_send(stage, text, NULL, 0);
}

static void answer_plainly(struct stage *stage, uint64_t id, bool refuses) {
    char text[64];
    snprintf(text, sizeof text, refuses ? "error %llu conflict no" : "ok %llu", (unsigned long long)id);
    launcher_send(stage, text, NULL, 0);
}

static void answer_project(struct stage *stage, uint64_t id) {
    char text[128];
    if (stage->project_fd <= 0) {
        snprintf(text, sizeof text, "error %llu not_found no%%20such%%20project", (unsigned long long)id);
        launcher_send(stage, text, NULL, 0);
        return;
    }
    stage->opened++;
    snprintf(text, sizeof text, "ok %llu token=p%u kind=mount file=%s", (unsigned long long)id, stage->opened,
             stage->project_file ? stage->project_file : "");
    launcher_send(stage, text, &stage->project_fd, 1);
}

static void on_launcher_message(uv_poll_t *poll, int status, int events) {
    struct stage *stage = poll->data;
    static char text[JAIL_MESSAGE_BYTES + 1];
    (void)status, (void)events;
    ssize_t size = recv(stage->launcher_fd, text, sizeof text - 1, MSG_DONTWAIT);
    if (size <= 0) {
        drop_link(stage);
        return;
    }
    text[size] = '\0';
    char verb[16];
    unsigned long long id;
    assert_int_equal(sscanf(text, "%15s %llu", verb, &id), 2);
    if (strcmp(verb, "hello") == 0) {
        launcher_send(stage, "ok 0 version=2 guarantees=0x0 cgroup=0 landlock=0 root=0", NULL, 0);
        launcher_send(stage, "ready", NULL, 0);
    } else if (strcmp(verb, "spawn") == 0) {
        answer_spawn(stage, id);
    } else if (strcmp(verb, "bury") == 0) {
        answer_bury(stage, id);
    } else if (strcmp(verb, "equip") == 0) {
        answer_equip(stage, id, text);
    } else if (strcmp(verb, "yield") == 0) {
        answer_yield(stage, id);
    } else if (strcmp(verb, "limit") == 0) {
        stage->limits++;
        snprintf(stage->limited, sizeof stage->limited, "%.255s", text);
        answer_plainly(stage, id, stage->refuse_limits);
    } else if (strcmp(verb, "project") == 0) {
        answer_project(stage, id);
    } else if (strcmp(verb, "release") == 0) {
        stage->released++;
        answer_plainly(stage, id, false);
    } else if (strcmp(verb, "freeze") == 0) {
        answer_plainly(stage, id, stage->refuse_freezing);
    } else {
        answer_plainly(stage, id, false);
    }
}

static void on_launcher_dialled(uv_poll_t *poll, int status, int events) {
    struct stage *stage = poll->data;
    (void)status, (void)events;
    if (stage->launcher_polled) return;
    stage->launcher_fd = accept4(stage->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(stage->launcher_fd >= 0);
    uv_poll_init(&stage->loop, &stage->launcher_poll, stage->launcher_fd);
    stage->launcher_poll.data = stage;
    stage->launcher_polled = true;
    uv_poll_start(&stage->launcher_poll, UV_READABLE, on_launcher_message);
}

static void launcher_listen(struct stage *stage) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/launcher.sock", stage->home);
    unlink(address.sun_path);
    stage->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(stage->listen_fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(stage->listen_fd, 4), 0);
    uv_poll_init(&stage->loop, &stage->listen_poll, stage->listen_fd);
    stage->listen_poll.data = stage;
    uv_poll_start(&stage->listen_poll, UV_READABLE, on_launcher_dialled);
}

static void close_listen_fd(uv_handle_t *handle) {
    struct stage *stage = handle->data;
    close(stage->listen_fd);
    stage->listen_fd = -1;
}

void launcher_hang_up(struct stage *stage) {
    if (stage->listen_fd >= 0) uv_close((uv_handle_t *)&stage->listen_poll, close_listen_fd);
    drop_link(stage);
    RUN_UNTIL(stage, stage->listen_fd < 0 && !stage->launcher_polled && !stage->link_up);
}

void launcher_come_back(struct stage *stage) {
    launcher_listen(stage);
    RUN_UNTIL(stage, stage->link_up);
}

static void on_link_up(void *data, const struct jail_features *features) {
    struct stage *stage = data;
    stage->host.features = *features;
    stage->link_up = true;
}

static void on_link_down(void *data) {
    ((struct stage *)data)->link_up = false;
}

static void on_link_node(void *data, const struct link_node *node) {
    (void)data;
    fd_close(node->pidfd);
}

static void on_link_violation(void *data, const struct link_violation *violation) {
    (void)data, (void)violation;
}

static void on_link_closed(void *data) {
    ((struct stage *)data)->link_closed = true;
}

/* ---- nodes ---- */

static void on_ready(void *data, struct node *node) {
    struct stage *stage = data;
    assert_true(node_is_ready(node));
    buf_append_string(&stage->story, "ready ");
}

/* Of the clock by which the loop tells a full turn. */
static void burn(unsigned us) {
    uint64_t end_ns = uv_hrtime() + us * UINT64_C(1000);
    while (uv_hrtime() < end_ns) {
    }
}

static void on_event(void *data, struct node *node, const char *kind, const struct term *term) {
    struct stage *stage = data;
    (void)term;
    if (stage->charge_bytes > 0) node_charge(node, stage->charge_bytes);
    burn(stage->burn_us);
    if (stage->story.size < 16384) buf_printf(&stage->story, "event:%s ", kind);
}

static void on_output(void *data, struct node *node, const char *bytes, size_t size) {
    struct stage *stage = data;
    (void)node;
    if (stage->story.size < 4096) buf_printf(&stage->story, "output:%.*s ", (int)size, bytes);
}

static void on_violation(void *data, struct node *node, const char *what, const char *detail) {
    struct stage *stage = data;
    (void)node;
    assert_true(detail[0] != '\0');
    buf_printf(&stage->story, "violation:%s ", what);
}

static void on_gone(void *data, struct node *node, const struct node_end *end) {
    struct stage *stage = data;
    (void)node;
    static const char *const causes[] = {"exited", "crashed", "out_of_memory", "host_restarted",
                                         "killed", "silent",  "misbehaved"};
    assert_true(end->error.code != E_NONE && end->error.detail[0] != '\0');
    buf_printf(&stage->story, "gone:%s/%s ", causes[end->cause], error_kind(end->error.code)->slug);
}

const struct toolchain stage_toolchain = {.otp_root = "/otp", .erts_bin = "/otp/erts/bin", .boot_dir = "/b"};

const struct node_handler stage_handler = {
    .ready = on_ready, .event = on_event, .output = on_output, .violation = on_violation, .gone = on_gone};

static struct node *start_unspawned(struct stage *stage) {
    struct error error;
    struct node *node;
    const struct jail_profile *profile = jail_profile_find("high");
    struct node_spec spec = {
        .kind = NODE_APPLICATION, .toolchain = &stage_toolchain, .profile = profile, .limits = profile->limits};
    if (node_start(&stage->host, &spec, &stage_handler, stage, &node, &error) < 0) fail_msg("%s", error.detail);
    return node;
}

struct node *stage_start(struct stage *stage) {
    struct node *node = start_unspawned(stage);
    bool answered = !stage->hold_spawns && !stage->refuse_spawns;
    if (answered) RUN_UNTIL(stage, node_os_pid(node) != 0);
    return node;
}

void stage_greet(struct stage *stage, struct node *node, int *ret_agent) {
    int fd = agent_dial(stage, node);
    agent_hello(fd, PROTOCOL_VERSION, node_secret(node));
    RUN_UNTIL(stage, node_is_ready(node));
    CLEANUP_TERM struct term_doc *welcome = agent_take(fd);
    assert_non_null(welcome);
    assert_true(term_is_tagged(term_root(welcome), "welcome", 2));
    stage_expect(stage, "ready ");
    *ret_agent = fd;
}

struct node *stage_start_ready(struct stage *stage, int *ret_agent) {
    struct node *node = stage_start(stage);
    stage_greet(stage, node, ret_agent);
    return node;
}

void stage_on_reply(void *data, const struct term *result, const struct term *reason, const struct error *error) {
    struct asked *asked = data;
    assert_int_equal(result != NULL, error == NULL);
    assert_true(!reason || error);
    buf_printf(&asked->stage->story, "%c:%s ", asked->name, error ? error_kind(error->code)->slug : "ok");
}

uint64_t stage_call(struct stage *stage, char name, struct node *node, uint64_t timeout_ms) {
    struct buf args = BUF_INIT;
    assert_true(stage->asked_count < ARRAY_SIZE(stage->asked));
    struct asked *asked = &stage->asked[stage->asked_count++];
    *asked = (struct asked){stage, name};
    term_put_map(&args, 0);
    return node_call(node, "info", &args, timeout_ms, stage_on_reply, asked);
}

/* ---- agents ---- */

int agent_dial(struct stage *stage, const struct node *node) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/nodes/%s/agent.sock", stage->home, node_name(node));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* As much as goes without blocking the test. */
void agent_send_bytes(int fd, const void *data, size_t size) {
    ssize_t sent = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    assert_int_equal(sent, size);
}

void agent_send(int fd, struct buf *term) {
    CLEANUP(buf_free) struct buf frame = BUF_INIT;
    buf_append_u32(&frame, (uint32_t)term->size);
    buf_append(&frame, term->data, term->size);
    buf_free(term);
    assert_false(frame.failed);
    agent_send_bytes(fd, frame.data, frame.size);
}

void agent_hello(int fd, int64_t version, const char *secret) {
    struct buf hello = BUF_INIT;
    term_put_version(&hello);
    term_put_tuple(&hello, 4);
    term_put_atom(&hello, "hello");
    term_put_integer(&hello, version);
    term_put_string(&hello, secret);
    term_put_map(&hello, 0);
    agent_send(fd, &hello);
}

void agent_put_event(struct buf *term, const char *kind) {
    term_put_version(term);
    term_put_tuple(term, 3);
    term_put_atom(term, "event");
    term_put_atom(term, kind);
    term_put_nil(term);
}

void agent_reply_ok(int fd, uint64_t id) {
    struct buf reply = BUF_INIT;
    term_put_version(&reply);
    term_put_tuple(&reply, 3);
    term_put_atom(&reply, "reply");
    term_put_uint64(&reply, id);
    term_put_tuple(&reply, 2);
    term_put_atom(&reply, "ok");
    term_put_map(&reply, 0);
    agent_send(fd, &reply);
}

void agent_reply_error(int fd, uint64_t id, const char *kind, const void *message, size_t size) {
    struct buf reply = BUF_INIT;
    term_put_version(&reply);
    term_put_tuple(&reply, 3);
    term_put_atom(&reply, "reply");
    term_put_uint64(&reply, id);
    term_put_tuple(&reply, 2);
    term_put_atom(&reply, "error");
    term_put_map(&reply, message ? 2 : 1);
    term_put_atom(&reply, "kind");
    term_put_atom(&reply, kind);
    if (message) {
        term_put_atom(&reply, "message");
        term_put_binary(&reply, message, size);
    }
    agent_send(fd, &reply);
}

struct term_doc *agent_take(int fd) {
    uint8_t header[4], data[16384];
    if (recv(fd, header, sizeof header, MSG_DONTWAIT) != sizeof header) return NULL;
    size_t size = (size_t)header[2] << 8 | header[3];
    assert_true(header[0] == 0 && header[1] == 0 && size <= sizeof data);
    assert_int_equal(recv(fd, data, size, MSG_DONTWAIT), size);
    struct term_doc *doc = NULL;
    assert_int_equal(term_decode(data, size, &term_default_bounds, &doc, NULL), 0);
    return doc;
}

bool agent_sees_end(int fd) {
    char byte;
    ssize_t count = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return count == 0 || (count < 0 && errno == ECONNRESET);
}

static bool has_frame(int fd) {
    char header[4];
    return recv(fd, header, sizeof header, MSG_DONTWAIT | MSG_PEEK) == sizeof header;
}

uint64_t agent_take_call(struct stage *stage, int fd, const char *op) {
    for (;;) {
        uint64_t id;
        RUN_UNTIL(stage, has_frame(fd));
        CLEANUP_TERM struct term_doc *doc = agent_take(fd);
        const struct term *frame = term_root(doc);
        bool is_cancel = term_is_tagged(frame, "cancel", 2);
        assert_true(is_cancel || term_is_tagged(frame, "call", 4));
        assert_true(term_to_uint64(term_at(frame, 1), &id));
        if (is_cancel ? strcmp(op, "cancel") == 0 : term_is_atom(term_at(frame, 2), op)) return id;
        if (!is_cancel) agent_reply_ok(fd, id);
    }
}

/* ---- opening and closing ---- */

static int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *where) {
    (void)info, (void)flag, (void)where;
    return remove(path);
}

static void open_host(struct stage *stage) {
    static const struct link_handler handler = {
        .up = on_link_up, .down = on_link_down, .node = on_link_node, .violation = on_link_violation};
    struct error error;
    stage->host = (struct node_host){.loop = &stage->loop,
                                     .home = stage->home,
                                     .agent_dir = "/agent",
                                     .heartbeat_ms = 60000,
                                     .heartbeat_deadline_ms = 60000,
                                     .boot_deadline_ms = 60000,
                                     .grace_ms = 1000};
    assert_int_equal(loop_workers_open(&stage->host.workers, &stage->loop, &error), 0);
    loop_turns_open(&stage->host.reading, &stage->loop, "node", NODE_READING_US);
    assert_int_equal(link_open(&stage->loop, stage->home, &handler, stage, &stage->host.link, &error), 0);
}

int stage_setup(void **state) {
    struct stage *stage = calloc(1, sizeof *stage);
    char nodes[80];
    assert_non_null(test_folder_make(stage->home));
    snprintf(nodes, sizeof nodes, "%s/nodes", stage->home);
    assert_int_equal(mkdir(nodes, 0700), 0);
    assert_int_equal(uv_loop_init(&stage->loop), 0);
    uv_timer_init(&stage->loop, &stage->deadline);
    uv_timer_init(&stage->loop, &stage->tick);
    stage->deadline.data = stage->tick.data = stage;
    launcher_listen(stage);
    open_host(stage);
    RUN_UNTIL(stage, stage->link_up);
    *state = stage;
    return 0;
}

static void on_detached(void *data) {
    (void)data;
}

int stage_teardown(void **state) {
    struct stage *stage = *state;
    const char *name;
    void *node;
    size_t at = 0;
    while (map_next(&stage->host.nodes, &at, &name, &node)) node_detach(node, on_detached, NULL);
    RUN_UNTIL(stage, stage->host.nodes.count == 0);
    link_close(stage->host.link, on_link_closed, stage);
    RUN_UNTIL(stage, stage->link_closed);
    if (stage->listen_fd >= 0) uv_close((uv_handle_t *)&stage->listen_poll, close_listen_fd);
    drop_link(stage);
    loop_turns_close(&stage->host.reading, NULL);
    loop_workers_close(&stage->host.workers, NULL, NULL);
    uv_close((uv_handle_t *)&stage->deadline, NULL);
    uv_close((uv_handle_t *)&stage->tick, NULL);
    uv_run(&stage->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&stage->loop), 0);
    end_children(stage);
    map_free(&stage->host.nodes);
    buf_free(&stage->story);
    nftw(stage->home, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    free(stage);
    return 0;
}
