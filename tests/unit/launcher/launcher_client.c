/* Starts a real launcher, as root or as a user, and speaks to it in the daemon's place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "launcher_client.h"

enum { DEADLINE_MS = 10000 * TEST_SLOWNESS };

static const char *program_path(const char *variable) {
    const char *path = getenv(variable);
    if (!path) fail_msg("%s is not set", variable);
    return path;
}

static void copy_program(const char *from, const char *to) {
    char block[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    assert_true(in >= 0 && out >= 0);
    for (ssize_t size; (size = read(in, block, sizeof block)) > 0;)
        assert_int_equal(write(out, block, (size_t)size), size);
    /* Any uid may write to it, so that only its mount keeps a node from it. */
    assert_int_equal(fchmod(out, 0777), 0);
    close(in);
    close(out);
}

void make_directory(const char *path, uid_t owner, mode_t mode) {
    assert_int_equal(mkdir(path, mode), 0);
    assert_int_equal(chown(path, owner, owner), 0);
    assert_int_equal(chmod(path, mode), 0);
}

void write_file(const char *path, const char *text, uid_t owner, mode_t mode) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchown(fd, owner, owner), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

/* The programs are copied to where every user of the tests can reach them. */
static void open_with(struct client *client, bool root, bool has_old_kernel) {
    char path[128];
    *client =
        (struct client){.root = root, .has_old_kernel = has_old_kernel, .link_fd = -1, .log_fd = -1, .fds = {-1, -1}};
    assert_int_equal(geteuid(), 0);
    assert_non_null(test_folder_make(client->directory));
    assert_int_equal(chmod(client->directory, 0755), 0);
    snprintf(client->home, sizeof client->home, "%s/home", client->directory);
    if (!root) make_directory(client->home, USER_UID, 0755);
    snprintf(path, sizeof path, "%s/probe", client->directory);
    copy_program(program_path("JAIL_PROBE"), path);
    snprintf(path, sizeof path, "%s/launcher", client->directory);
    copy_program(program_path("SANDBOX_LAUNCHER"), path);
    client_start_launcher(client);
    client_dial(client);
    client_hello(client);
}

void client_open(struct client *client, bool root) {
    open_with(client, root, false);
}

void client_open_on_old_kernel(struct client *client, bool root) {
    open_with(client, root, true);
}

/* The launcher and all it starts get the answer of a kernel older than the flag. */
static bool take_notifications_away(void) {
    scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
    uint64_t flag = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    return context &&
           seccomp_rule_add(context, SCMP_ACT_ERRNO(EINVAL), SCMP_SYS(seccomp), 1,
                            SCMP_A1(SCMP_CMP_MASKED_EQ, flag, flag)) == 0 &&
           seccomp_load(context) == 0;
}

static void run_launcher(const struct client *client, int log_fd) {
    char path[128];
    snprintf(path, sizeof path, "%s/launcher", client->directory);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(log_fd, STDERR_FILENO);
    if (client->has_old_kernel && !take_notifications_away()) _exit(EXIT_FAILURE);
    if (!client->root && (setgid(USER_UID) < 0 || setuid(USER_UID) < 0)) _exit(EXIT_FAILURE);
    execl(path, path, "--home", client->home, "--no-daemon", (char *)NULL);
    _exit(EXIT_FAILURE);
}

/* The launcher's own lines may come between those of the text. */
static bool has_lines(const char *output, const char *text) {
    while (output && *text) {
        const char *end = strchrnul(text, '\n');
        size_t size = (size_t)(end - text) + (*end == '\n');
        output = memmem(output, strlen(output), text, size);
        if (output) output += size;
        text += size;
    }
    return output != NULL;
}

void client_read_until(int output_fd, const char *text) {
    char output[OUTPUT_BYTES] = "";
    size_t used = 0;
    uint64_t deadline_ms = clock_monotonic_ms() + DEADLINE_MS;
    while (!has_lines(output, text)) {
        struct pollfd ready = {.fd = output_fd, .events = POLLIN};
        uint64_t now_ms = clock_monotonic_ms();
        if (now_ms >= deadline_ms || poll(&ready, 1, (int)(deadline_ms - now_ms)) <= 0)
            fail_msg("no '%s' in: %s", text, output);
        ssize_t size = read(output_fd, output + used, sizeof output - 1 - used);
        if (size <= 0) fail_msg("the end, and no '%s' in: %s", text, output);
        used += (size_t)size;
        output[used] = '\0';
    }
}

void client_start_launcher(struct client *client) {
    int fds[2];
    struct stat status;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    client->launcher = fork();
    if (client->launcher == 0) run_launcher(client, fds[1]);
    close(fds[1]);
    fd_close(client->log_fd);
    client->log_fd = fds[0];
    client_read_until(client->log_fd, "launcher_ready");
    assert_int_equal(stat(client->home, &status), 0);
    client->daemon_uid = status.st_uid;
}

void client_dial(struct client *client) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/launcher.sock", client->home);
    fd_close(client->link_fd);
    client->link_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(seteuid(client->daemon_uid), 0);
    assert_int_equal(connect(client->link_fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(seteuid(0), 0);
    buf_clear(&client->unasked);
}

/* The next message; its descriptors replace those of the one before. */
static void receive(struct client *client) {
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr message = {.msg_iov = &(struct iovec){client->message, sizeof client->message - 1},
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    for (int i = 0; i < 2; i++) client->fds[i] = fd_close(client->fds[i]);
    assert_int_equal(poll(&(struct pollfd){.fd = client->link_fd, .events = POLLIN}, 1, DEADLINE_MS), 1);
    ssize_t size = recvmsg(client->link_fd, &message, MSG_CMSG_CLOEXEC);
    assert_true(size > 0);
    client->message[size] = '\0';
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header) memcpy(client->fds, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
}

static void keep_unasked(struct client *client) {
    buf_append_string(&client->unasked, client->message);
    buf_append_byte(&client->unasked, '\n');
}

void client_send(struct client *client, const char *text, int fd) {
    union {
        char bytes[CMSG_SPACE(sizeof fd)];
        struct cmsghdr align;
    } control = {0};
    struct msghdr message = {.msg_iov = &(struct iovec){(char *)text, strlen(text)}, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    assert_true(sendmsg(client->link_fd, &message, MSG_NOSIGNAL) > 0);
}

bool client_ask(struct client *client, const char *verb, const char *rest, int fd) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    char ok[32], error[32];
    uint64_t id = ++client->next_id;
    buf_printf(&text, "%s %llu%s%s", verb, (unsigned long long)id, *rest && *rest != '\n' ? " " : "", rest);
    client_send(client, buf_string(&text), fd);
    snprintf(ok, sizeof ok, "ok %llu", (unsigned long long)id);
    snprintf(error, sizeof error, "error %llu ", (unsigned long long)id);
    for (;; keep_unasked(client)) {
        receive(client);
        bool is_ok = string_starts(client->message, ok);
        if (!is_ok && !string_starts(client->message, error)) continue;
        size_t skip = strlen(is_ok ? ok : error);
        memmove(client->message, client->message + skip, strlen(client->message + skip) + 1);
        return is_ok;
    }
}

void client_pump(struct client *client) {
    receive(client);
    keep_unasked(client);
}

void client_await(struct client *client, const char *text) {
    uint64_t deadline_ms = clock_monotonic_ms() + DEADLINE_MS;
    while (!strstr(buf_string(&client->unasked), text)) {
        if (clock_monotonic_ms() > deadline_ms) fail_msg("no '%s' came", text);
        client_pump(client);
    }
}

void client_hello(struct client *client) {
    assert_true(client_ask(client, "hello", "version=2", -1));
    client_await(client, "ready\n");
}

bool client_spawn(struct client *client, const char *node, const char *more, const char *attempts) {
    CLEANUP(buf_free) struct buf plan = BUF_INIT;
    buf_printf(
        &plan,
        "\nnode %s\nhostname %s\nlimit os_tasks 32\nlimit descriptors 128\nlimit disk 1048576\nbind-exec %s/probe "
        "/probe\ndevice null\ntmpfs /data 100\ndirectory /app\nproc\nchdir /data\nprogram /probe\nargument /probe\n%s",
        node, node, client->directory, more);
    if (!strstr(more, "limit memory ")) buf_append_string(&plan, "limit memory 33554432\n");
    if (!strstr(more, "seccomp")) buf_append_string(&plan, "seccomp strict\n");
    for (const char *at = attempts; *at;) {
        size_t length = strcspn(at, " ");
        buf_printf(&plan, "argument %.*s\n", (int)length, at);
        at += length + (at[length] == ' ');
    }
    return client_ask(client, "spawn", buf_string(&plan), -1);
}

bool client_limit(struct client *client, const char *node, const char *limits) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_printf(&text, "%s\nnode %s\n%s", node, node, limits);
    return client_ask(client, "limit", buf_string(&text), -1);
}

void client_probe(struct client *client, const char *node, const char *more, const char *attempts,
                  char ret[OUTPUT_BYTES]) {
    size_t used = 0;
    if (!client_spawn(client, node, more, attempts)) fail_msg("spawn: %s", client_detail(client));
    for (ssize_t size = 1; size > 0; used += (size_t)size) {
        struct pollfd ready = {.fd = client->fds[1], .events = POLLIN};
        assert_int_equal(poll(&ready, 1, DEADLINE_MS), 1);
        size = read(client->fds[1], ret + used, OUTPUT_BYTES - 1 - used);
        assert_true(size >= 0);
    }
    ret[used] = '\0';
    assert_true(client_ask(client, "bury", node, -1));
}

pid_t client_program_of(pid_t init) {
    char path[64], text[32] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)init, (int)init);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    close(fd);
    return atoi(text);
}

uint64_t client_number(const struct client *client, const char *key) {
    char marked[32];
    snprintf(marked, sizeof marked, " %s=", key);
    const char *at = strstr(client->message, marked);
    assert_non_null(at);
    return strtoull(at + strlen(marked), NULL, 10);
}

void client_directory(const struct client *client, const char *key, char ret[256]) {
    const char *at = strstr(client->message, key);
    assert_non_null(at);
    at += strlen(key);
    snprintf(ret, 256, "%.*s", (int)strcspn(at, " "), at);
}

/* What counts CPU time may lie in a hierarchy of its own, cgroup v1's "cpuacct", beside "cpu". */
uint64_t client_yielding(const char *accounting) {
    char path[320], place[256];
    uint64_t yields = 2;
    const char *node = strstr(accounting, "/cpuacct/");
    snprintf(place, sizeof place, "%s", node ? "/sys/fs/cgroup/cpu/" : accounting);
    snprintf(path, sizeof path, "%s/%s/cpu.idle", place, node ? node + strlen("/cpuacct/") : "");
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%" SCNu64, &yields), 1);
    fclose(file);
    return yields;
}

const char *client_detail(struct client *client) {
    char *at = client->message;
    return wire_next_word(&at) ? wire_next_word(&at) : NULL;
}

int client_connect_as(struct client *client, uid_t uid, int *ret_peer) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/api.sock", client->home);
    unlink(address.sun_path);
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(chmod(address.sun_path, 0666), 0);
    assert_int_equal(listen(server, 1), 0);
    assert_int_equal(setegid(uid), 0);
    assert_int_equal(seteuid(uid), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(setegid(0), 0);
    *ret_peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
    assert_true(*ret_peer >= 0);
    close(server);
    unlink(address.sun_path);
    return fd;
}

int client_kill_launcher(struct client *client, int signal_number) {
    int status = -1;
    if (signal_number) assert_int_equal(kill(client->launcher, signal_number), 0);
    assert_int_equal(waitpid(client->launcher, &status, 0), client->launcher);
    client->launcher = -1;
    return status;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk) {
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

/* Slots are numbered by use, and others may run beside us: look for what names this home. */
static void assert_no_slot(const struct client *client) {
    char command[256];
    snprintf(command, sizeof command, "! grep -qsx '%s' /run/sandbox/slots/*", client->home);
    assert_int_equal(system(command), 0);
}

void client_close(struct client *client) {
    char path[128];
    assert_true(client_ask(client, "shutdown", "", -1));
    client->link_fd = fd_close(client->link_fd);
    assert_int_equal(client_kill_launcher(client, 0), 0);
    snprintf(path, sizeof path, "%s/launcher.sock", client->home);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(path, sizeof path, "%s/launcher", client->home);
    assert_int_equal(access(path, F_OK), -1);
    assert_no_slot(client);
    for (int i = 0; i < 2; i++) fd_close(client->fds[i]);
    fd_close(client->log_fd);
    buf_free(&client->unasked);
    assert_int_equal(nftw(client->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* ---- as root and as a user ---- */

static struct client root_client, user_client;

int clients_open(void **state) {
    (void)state;
    /* What the tests mount goes with them. */
    assert_int_equal(unshare(CLONE_NEWNS), 0);
    assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    client_open(&root_client, true);
    client_open(&user_client, false);
    return 0;
}

int clients_close(void **state) {
    (void)state;
    client_close(&root_client);
    client_close(&user_client);
    return 0;
}

int client_as_root(void **state) {
    *state = &root_client;
    return 0;
}

int client_as_user(void **state) {
    *state = &user_client;
    return 0;
}

void client_assert_death(struct client *client, const char *node, const char *expected) {
    assert_true(client_ask(client, "bury", node, -1));
    assert_string_equal(client->message, expected);
}

void client_await_death(int pidfd) {
    assert_int_equal(poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, 10000), 1);
}
