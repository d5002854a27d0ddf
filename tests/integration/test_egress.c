/* Egress, in a world of the test's own: the service's host is a network namespace, beyond it lies another in which
   servers have public and other addresses. Nothing leaves the machine. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "processes.h"
#include "support.h"

#define COUNTER EXAMPLES "/counter_erl"
#define SETTINGS                                                                                                       \
    "[profile base]\n"                                                                                                 \
    "hosts = 10.9.9.9:8080, open.example:8080, inside.example, late.example:8080\n"                                    \
    "[profile strict]\n"                                                                                               \
    "hosts = 1.2.3.4:8080\n"

enum {
    PORT = 8080,
    BULK_PORT = 8081, /* where a server sends much, and holds on */
    NAME_PORT = 53,
    NO_SUCH_NAME = 3,
    BULK_BYTES = 512 * 1024,
    BULK_RATE = 256 * 1024, /* of which a quarter of a second's worth goes at once, and no less than 256 KiB */
};

/* ---- the world outside ---- */

struct outside {
    pid_t holder; /* whose namespace it is */
    int listener, bulk, names;
    pthread_t server;
    atomic_bool is_late_known; /* by the name server */
    struct world *world;
    char folder[TEST_FOLDER_BYTES];
};

/* The first slirp4netns takes longer than the launcher stands still for it. */
#define SLOW_SLIRP                                                                                                     \
    "cp /usr/bin/slirp4netns $2/slirp\n"                                                                               \
    "echo '#!/bin/sh' >$2/slow\n"                                                                                      \
    "echo \"[ -e $2/begun ] || { touch $2/begun; sleep 0.2; }; exec $2/slirp \\\"\\$@\\\"\" >>$2/slow\n"               \
    "chmod 755 $2/slow; mount --bind $2/slow /usr/bin/slirp4netns\n"

/* The host: 5.6.7.8 and 2a00:77::2. Beyond: 1.2.3.4, 2a00:1::1 and some that no node may reach. */
static const char wiring[] =
    SLOW_SLIRP "ip link add up0 type veth peer name w0 netns $1\n"
               "ip addr add 192.168.77.2/24 dev up0; ip addr add 5.6.7.8/32 dev up0\n"
               "ip -6 addr add 2a00:77::2/64 dev up0 nodad\n"
               "ip link set up0 up; ip link set lo up\n"
               "for a in 1.2.3.4 1.2.3.53 1.2.3.54 10.9.9.9 169.254.169.254; do\n"
               "  nsenter -t $1 -n ip addr add $a/32 dev lo; done\n"
               "nsenter -t $1 -n ip -6 addr add 2a00:1::1/128 dev lo nodad\n"
               "nsenter -t $1 -n ip addr add 192.168.77.1/24 dev w0\n"
               "nsenter -t $1 -n ip -6 addr add 2a00:77::1/64 dev w0 nodad\n"
               "nsenter -t $1 -n ip link set lo up; nsenter -t $1 -n ip link set w0 up\n"
               "ip route add default via 192.168.77.1; ip -6 route add default via 2a00:77::1\n";

/* The address may not be there yet. */
static int listen_at(const char *host, int port, int type) {
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    int fd = socket(AF_INET6, type | SOCK_CLOEXEC, 0), on = 1;
    assert_int_equal(inet_pton(AF_INET6, host, &address.sin6_addr), 1);
    assert_int_equal(setsockopt(fd, SOL_IPV6, IPV6_FREEBIND, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    if (type == SOCK_STREAM) assert_int_equal(listen(fd, 16), 0);
    return fd;
}

/* The names with an address of their own; every other name is 1.2.3.4, and none has one of v6. */
static const struct {
    const char *label;
    uint8_t address[4];
} named[] = {{"open", {1, 2, 3, 53}}, {"late", {1, 2, 3, 54}}, {"inside", {169, 254, 169, 254}}, {"", {1, 2, 3, 4}}};

static const uint8_t *address_of(const uint8_t *question) {
    size_t i = 0;
    while (named[i].label[0] && memcmp(question + 1, named[i].label, strlen(named[i].label)) != 0) i++;
    return named[i].address;
}

static bool is_known(const struct outside *outside, const uint8_t *question) {
    return memcmp(question + 1, "late", 4) != 0 || outside->is_late_known;
}

static void answer_name(const struct outside *outside, int fd) {
    uint8_t message[512 + 16], answer[16] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4};
    struct sockaddr_in6 from;
    socklen_t size = sizeof from;
    ssize_t got = recvfrom(fd, message, 512, 0, (struct sockaddr *)&from, &size);
    if (got < 20) return;
    const uint8_t *type = (const uint8_t *)memchr(message + 12, 0, (size_t)got - 12) + 1;
    bool has_one = type[1] == 1 && is_known(outside, message + 12);
    memcpy(answer + 12, address_of(message + 12), 4);
    message[2] |= 0x80;
    message[3] = is_known(outside, message + 12) ? 0 : NO_SUCH_NAME;
    message[7] = has_one;
    message[11] = 0; /* what it says besides the question is left out */
    got = type + 4 - message;
    memcpy(message + got, answer, sizeof answer);
    sendto(fd, message, (size_t)got + (has_one ? sizeof answer : 0), 0, (struct sockaddr *)&from, size);
}

static void *send_bulk(void *data) {
    CLEANUP_FD int client = (int)(intptr_t)data;
    static const char bytes[BULK_BYTES];
    char byte;
    if (send(client, bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes) (void)!read(client, &byte, 1);
    return NULL;
}

static void serve_bulk(const struct outside *outside, int fd) {
    (void)outside;
    pthread_t thread;
    int client = accept(fd, NULL, NULL);
    if (client >= 0 && pthread_create(&thread, NULL, send_bulk, (void *)(intptr_t)client) == 0) pthread_detach(thread);
}

static void greet(const struct outside *outside, int fd) {
    (void)outside;
    CLEANUP_FD int client = accept(fd, NULL, NULL);
    (void)!write(client, "hello", 5);
}

static void *serve(void *data) {
    const struct outside *outside = data;
    struct pollfd fds[] = {{outside->listener, POLLIN, 0}, {outside->names, POLLIN, 0}, {outside->bulk, POLLIN, 0}};
    static void (*const answers[])(const struct outside *outside, int fd) = {greet, answer_name, serve_bulk};
    for (;;) {
        poll(fds, ARRAY_SIZE(fds), -1);
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
            if (fds[i].revents) answers[i](outside, fds[i].fd);
    }
    return NULL;
}

static pid_t hold_namespace(void) {
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) pause();
    }
    return pid;
}

/* Before the service begins: it asks for names itself. */
static void use_resolver(void) {
    char path[] = "/tmp/resolv-XXXXXX";
    CLEANUP_FD int fd = mkstemp(path);
    assert_int_equal(dprintf(fd, "nameserver 1.2.3.53\n"), 20);
    assert_int_equal(fchmod(fd, 0644), 0);
    assert_int_equal(mount(path, "/etc/resolv.conf", NULL, MS_BIND, NULL), 0);
    assert_int_equal(unlink(path), 0);
}

/* First beyond, where the servers are, then the host: this process and the service are there from then on. */
static int open_outside(void **state) {
    static struct outside outside;
    char pid[16];
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(unshare(CLONE_NEWNET | CLONE_NEWNS), 0);
    assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    outside.holder = hold_namespace();
    outside.listener = listen_at("::", PORT, SOCK_STREAM);
    outside.bulk = listen_at("::", BULK_PORT, SOCK_STREAM);
    outside.names = listen_at("::ffff:1.2.3.53", NAME_PORT, SOCK_DGRAM);
    assert_int_equal(unshare(CLONE_NEWNET), 0);
    snprintf(pid, sizeof pid, "%d", (int)outside.holder);
    assert_non_null(test_folder_make(outside.folder));
    pid_t shell = fork();
    if (shell == 0) execl("/bin/sh", "sh", "-ec", wiring, "sh", pid, outside.folder, NULL);
    int status = -1;
    assert_int_equal(waitpid(shell, &status, 0), shell);
    assert_int_equal(status, 0);
    assert_int_equal(pthread_create(&outside.server, NULL, serve, &outside), 0);
    use_resolver();
    outside.world = world_open(SETTINGS);
    world_do(outside.world, "create", "{s:s, s:s, s:s}", "id", "a", "source", COUNTER, "profile", "medium");
    *state = &outside;
    return 0;
}

static int close_outside(void **state) {
    struct outside *outside = *state;
    umount2("/etc/resolv.conf", MNT_DETACH);
    world_close(outside->world);
    kill(outside->holder, SIGKILL);
    waitpid(outside->holder, NULL, 0);
    umount2("/usr/bin/slirp4netns", MNT_DETACH);
    static const char *const files[] = {"slirp", "slow", "begun"};
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", outside->folder, files[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(outside->folder), 0);
    return 0;
}

/* ---- what is asked ---- */

static void assert_dial(struct outside *outside, const char *id, const char *to, const char *expected) {
    char code[256];
    snprintf(code, sizeof code,
             "case gen_tcp:connect(%s, 8080, [{active, false}], 5000) of {ok, S} -> gen_tcp:recv(S, 5, 5000); "
             "Error -> Error end",
             to);
    CLEANUP_FREE char *text = world_eval_text(outside->world, id, "erlang", code);
    if (strcmp(text, expected) != 0) fail_msg("%s from %s: %s", to, id, text);
}

static void assert_reached(struct outside *outside, const char *id, const char *to) {
    assert_dial(outside, id, to, "{ok,\"hello\"}");
}

/* And told of: to whom, and why not. */
static void assert_refused(struct outside *outside, const char *id, const char *to, const char *detail) {
    uint64_t since = world_now(outside->world);
    assert_dial(outside, id, to, "{error,econnrefused}");
    json_decref(world_wait_event(
        outside->world, since,
        &(struct event_pattern){.kind = "violation", .sandbox_id = id, .field = "detail", .value = detail}));
}

static void await_egress(struct outside *outside, const char *id) {
    CLEANUP_FREE char *text = world_eval_text(
        outside->world, id, "erlang",
        "(fun Try(0) -> never; Try(N) -> case gen_tcp:connect({1,2,3,4}, 8080, [], 500) of {ok, _} -> reached; "
        "_ -> receive after 50 -> Try(N - 1) end end end)(100)");
    assert_string_equal(text, "reached");
}

static void public_addresses_are_reached(void **state) {
    await_egress(*state, "a"); /* it is there before egress is */
    assert_reached(*state, "a", "{1,2,3,4}");
    assert_reached(*state, "a", "{16#2a00,1,0,0,0,0,0,1}");
    assert_reached(*state, "a", "\"somebody.example\"");
}

static void others_are_refused_and_told_of(void **state) {
    assert_refused(*state, "a", "{10,9,9,9}", "to=10.9.9.9:8080 protocol=tcp reason=private");
    assert_refused(*state, "a", "{169,254,169,254}", "to=169.254.169.254:8080 protocol=tcp reason=link-local");
    assert_refused(*state, "a", "{5,6,7,8}", "to=5.6.7.8:8080 protocol=tcp reason=host");
    assert_refused(*state, "a", "{16#2a00,16#77,0,0,0,0,0,2}", "to=[2a00:77::2]:8080 protocol=tcp reason=host");
    assert_refused(*state, "a", "{198,18,0,3}", "to=198.18.0.3:8080 protocol=tcp reason=reserved");
}

/* An address that the host gets while the service runs is its own, too. */
static void new_addresses_of_the_host_are_refused(void **state) {
    enum { TRIES = 50, SOON_MS = 200 };
    struct outside *outside = *state;
    const struct event_pattern told = {
        .kind = "violation", .sandbox_id = "a", .field = "detail", .value = "to=5.6.7.9:8080 protocol=tcp reason=host"};
    uint64_t since = world_now(outside->world);
    json_t *event = NULL;
    assert_int_equal(system("ip addr add 5.6.7.9/32 dev up0"), 0);
    /* Until the launcher has heard of it, the host itself refuses: nothing listens there. */
    for (int i = 0; i < TRIES && !event; i++) {
        assert_dial(outside, "a", "{5,6,7,9}", "{error,econnrefused}");
        event = world_find_event(outside->world, since, &told, SOON_MS);
    }
    assert_non_null(event);
    json_decref(event);
}

static json_int_t usage_of(struct outside *outside, const char *name) {
    json_t *info = world_info(outside->world, "a");
    json_int_t value = json_integer_value(json_object_get(json_object_get(info, "usage"), name));
    json_decref(info);
    return value;
}

static long bulk_ms(struct outside *outside) {
    char code[256];
    snprintf(code, sizeof code,
             "{Us, {ok, _}} = timer:tc(fun() -> {ok, S} = gen_tcp:connect({1,2,3,4}, %d, [{active, false}], 5000), "
             "R = gen_tcp:recv(S, %d, 10000), gen_tcp:close(S), R end), Us div 1000",
             BULK_PORT, BULK_BYTES);
    CLEANUP_FREE char *text = world_eval_text(outside->world, "a", "erlang", code);
    return strtol(text, NULL, 10);
}

struct traffic {
    struct outside *outside;
    json_int_t in, out;
};

/* What was looked at a moment ago is not looked at again. */
static bool has_bulk(void *data) {
    const struct traffic *before = data;
    return usage_of(before->outside, "network_in_bytes") >= before->in + BULK_BYTES;
}

/* Each byte once, and each way by itself: the node gets so many, and sends little more than acknowledgements. */
static void what_goes_through_is_counted(void **state) {
    struct traffic before = {*state, usage_of(*state, "network_in_bytes"), usage_of(*state, "network_out_bytes")};
    assert_true(before.in > 0 && before.out > 0);
    bulk_ms(*state);
    assert_true(wait_until(has_bulk, &before, WORLD_DEADLINE_MS));
    assert_in_range(usage_of(*state, "network_in_bytes") - before.in, BULK_BYTES, BULK_BYTES * 3 / 2);
    assert_in_range(usage_of(*state, "network_out_bytes") - before.out, 1, BULK_BYTES / 4);
}

/* Root in the node's namespace can do what the node can't: its rules are elsewhere. */
static void nobody_sends_from_anothers_address(void **state) {
    struct outside *outside = *state;
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET, .sin_port = htons(NAME_PORT)};
    uint64_t since = world_now(outside->world);
    char path[64];
    int on = 1;
    json_t *info = world_info(outside->world, "a");
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)json_integer_value(json_object_get(info, "os_pid")));
    json_decref(info);
    CLEANUP_FD int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    CLEANUP_FD int node = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(setns(node, CLONE_NEWNET), 0);
    CLEANUP_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setns(home, CLONE_NEWNET), 0);
    inet_pton(AF_INET, "198.19.0.200", &from.sin_addr);
    inet_pton(AF_INET, "1.2.3.4", &to.sin_addr);
    assert_int_equal(setsockopt(fd, SOL_IP, IP_TRANSPARENT, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof to), 1);
    json_decref(world_wait_event(
        outside->world, since,
        &(struct event_pattern){.kind = "violation", .field = "detail", .value = "to=1.2.3.4:53 protocol=udp"}));
}

static void it_outlives_the_launcher(void **state) {
    struct outside *outside = *state;
    uint64_t since = world_now(outside->world);
    process_end(world_pid(outside->world, "launcher.lock"), SIGKILL);
    assert_reached(outside, "a", "{1,2,3,4}");
    json_decref(world_wait_event(outside->world, since, &(struct event_pattern){.kind = "launcher_back"}));
    assert_refused(outside, "a", "{10,9,9,9}", "to=10.9.9.9:8080");
}

/* The process that the namespace lives by, as the launcher's records have it; 0 for another home's. */
static pid_t keeper_in(const char *record, const char *home) {
    char path[64], line[4096] = "";
    int pid = 0;
    CLEANUP_FREE char *text = read_whole(record);
    if (!text || sscanf(text, "egress pid=%d", &pid) != 1) return 0;
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : read(fd, line, sizeof line);
    return size > 0 && memmem(line, (size_t)size, home, strlen(home)) ? pid : 0;
}

static pid_t find_keeper(struct outside *outside) {
    glob_t records;
    pid_t pid = 0;
    assert_int_equal(glob("/run/sandbox/nodes/*/.egress", 0, NULL, &records), 0);
    for (size_t i = 0; i < records.gl_pathc && !pid; i++)
        pid = keeper_in(records.gl_pathv[i], world_home(outside->world));
    globfree(&records);
    return pid;
}

static pid_t slirp_of(pid_t keeper) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)keeper, (int)keeper);
    CLEANUP_FREE char *children = read_whole(path);
    return children ? atoi(children) : 0;
}

/* It is another process of the same namespace; who waits in there notices nothing but a pause. */
static void slirp_comes_back(void **state) {
    struct outside *outside = *state;
    pid_t keeper = find_keeper(outside), slirp = slirp_of(keeper);
    assert_true(slirp > 0);
    process_end(slirp, SIGKILL);
    await_egress(outside, "a");
    assert_int_equal(find_keeper(outside), keeper);
    assert_int_not_equal(slirp_of(keeper), slirp);
    assert_reached(outside, "a", "{16#2a00,1,0,0,0,0,0,1}");
    assert_refused(outside, "a", "{10,9,9,9}", "to=10.9.9.9:8080");
}

/* ---- bounds, changed while it runs ---- */

static void set_limit(struct outside *outside, const char *id, const char *name, const char *value) {
    world_do(outside->world, "limits", "{s:s, s:{s:s}}", "id", id, "set", name, value);
}

/* The limit's policy is to warn. */
static void await_limit(struct outside *outside, uint64_t since, const char *limit) {
    json_decref(world_wait_event(
        outside->world, since,
        &(struct event_pattern){.kind = "limit", .sandbox_id = "a", .field = "limit", .value = limit}));
}

static void a_rate_is_bounded(void **state) {
    struct outside *outside = *state;
    char rate[32];
    long least_ms = (BULK_BYTES - 256 * 1024) * 1000L / BULK_RATE * 3 / 4, bounded_ms;
    snprintf(rate, sizeof rate, "%d", BULK_RATE);
    set_limit(outside, "a", "network_rate", rate);
    uint64_t since = world_now(outside->world);
    bounded_ms = bulk_ms(outside);
    await_limit(outside, since, "network_rate");
    assert_true(bounded_ms >= least_ms);
    set_limit(outside, "a", "network_rate", "none");
    assert_true(bulk_ms(outside) < bounded_ms); /* however slow the machine is */
}

static void connections_are_bounded(void **state) {
    struct outside *outside = *state;
    static const char code[] =
        "Tries = [gen_tcp:connect({1,2,3,4}, 8081, [{active, false}], 2000) || _ <- lists:seq(1, 4)], "
        "{length([gen_tcp:close(S) || {ok, S} <- Tries]), [E || E = {error, _} <- Tries]}";
    uint64_t since = world_now(outside->world);
    set_limit(outside, "a", "connections", "2");
    CLEANUP_FREE char *two = world_eval_text(outside->world, "a", "erlang", code);
    assert_string_equal(two, "{2,[{error,econnrefused},{error,econnrefused}]}");
    await_limit(outside, since, "connections");
    set_limit(outside, "a", "connections", ":kill_process");
    CLEANUP_FREE char *killed = world_eval_text(
        outside->world, "a", "erlang",
        "{_, M} = spawn_monitor(fun Dial() -> gen_tcp:connect({1,2,3,4}, 8081, [{active, false}], 2000), "
        "receive after 100 -> Dial() end end), receive {'DOWN', M, _, _, Why} -> Why after 10000 -> alive end");
    assert_string_equal(killed, "killed");
    set_limit(outside, "a", "connections", "256:warn");
    CLEANUP_FREE char *all = world_eval_text(outside->world, "a", "erlang", code);
    assert_string_equal(all, "{4,[]}");
}

/* By address or by name; a name opens nothing that is refused to all nodes. A name without an answer so far is asked
   for before anything of the sandbox runs. */
static void a_profile_lists_hosts(void **state) {
    struct outside *outside = *state;
    outside->is_late_known = true;
    world_do(outside->world, "create", "{s:s, s:s, s:s}", "id", "b", "source", COUNTER, "profile", "base");
    assert_reached(outside, "b", "\"late.example\"");
    assert_reached(outside, "b", "{10,9,9,9}");
    assert_refused(outside, "b", "{1,2,3,4}", "to=1.2.3.4:8080");
    assert_reached(outside, "b", "\"open.example\"");
    assert_refused(outside, "b", "\"inside.example\"", "to=169.254.169.254:8080 protocol=tcp reason=link-local");
}

static void assert_spent(struct outside *outside, const char *id) {
    CLEANUP_FREE char *spent = world_try_eval(
        outside->world, id, "erlang",
        "lists:usort([gen_tcp:connect({10,9,9,9}, 8080, [], 500) || _ <- lists:seq(1, 5)])", WORLD_DEADLINE_MS);
    assert_string_equal(spent, "[{error,econnrefused}]");
}

/* What was used before counts. */
static void a_total_is_bounded(void **state) {
    struct outside *outside = *state;
    uint64_t since = world_now(outside->world);
    assert_reached(outside, "b", "{10,9,9,9}");
    set_limit(outside, "b", "network_total", "1K:freeze");
    assert_spent(outside, "b");
    json_decref(
        world_wait_event(outside->world, since,
                         &(struct event_pattern){"frozen", "b", "reason", "it reached its limit on network_total"}));
    world_do(outside->world, "thaw", "{s:s}", "id", "b");
}

/* What was used of a total stays used, and what was counted counted; also where the total is less than that by now. */
static void it_is_made_again(void **state) {
    struct outside *outside = *state;
    pid_t keeper = find_keeper(outside);
    json_int_t counted = usage_of(outside, "network_in_bytes");
    set_limit(outside, "b", "network_total", "1M:warn");
    assert_reached(outside, "b", "{10,9,9,9}");
    assert_true(keeper > 0);
    process_end(keeper, SIGKILL);
    set_limit(outside, "b", "network_total", "1K"); /* before there is another */
    await_egress(outside, "a");
    assert_int_not_equal(find_keeper(outside), keeper);
    assert_refused(outside, "a", "{10,9,9,9}", "to=10.9.9.9:8080");
    assert_true(usage_of(outside, "network_in_bytes") >= counted);
    assert_spent(outside, "b");
}

static pid_t pid_of(struct outside *outside, const char *id) {
    json_t *info = world_info(outside->world, id);
    pid_t pid = (pid_t)json_integer_value(json_object_get(info, "os_pid"));
    json_decref(info);
    return pid;
}

static uid_t uid_of(pid_t pid) {
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    assert_int_equal(stat(path, &status), 0);
    return status.st_uid;
}

/* A node that ends while no launcher runs leaves its rules; the next node with its number gets none of them. */
static void nobody_gets_the_rules_of_the_dead(void **state) {
    struct outside *outside = *state;
    pid_t dead = pid_of(outside, "b");
    uid_t number = uid_of(dead);
    CLEANUP_FREE char *network = string_print("/proc/%d/ns/net", (int)dead);
    CLEANUP_FD int held =
        open(network, O_RDONLY | O_CLOEXEC); /* its interface is there until the kernel has let it go */
    assert_true(held >= 0);
    CLEANUP_FD int init = process_open_parent(dead);
    process_end(world_pid(outside->world, "launcher.lock"), SIGKILL);
    process_end(dead, SIGKILL);
    assert_true(process_ends(init, WORLD_DEADLINE_MS));
    world_do(outside->world, "create", "{s:s, s:s, s:s}", "id", "c", "source", COUNTER, "profile", "strict");
    assert_int_equal(uid_of(pid_of(outside, "c")), number);
    await_egress(outside, "c");
    assert_refused(outside, "c", "{10,9,9,9}", "to=10.9.9.9:8080");
    world_destroy(outside->world, "b");
    world_destroy(outside->world, "c");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(public_addresses_are_reached),
        cmocka_unit_test(others_are_refused_and_told_of),
        cmocka_unit_test(new_addresses_of_the_host_are_refused),
        cmocka_unit_test(what_goes_through_is_counted),
        cmocka_unit_test(nobody_sends_from_anothers_address),
        cmocka_unit_test(it_outlives_the_launcher),
        cmocka_unit_test(a_rate_is_bounded),
        cmocka_unit_test(connections_are_bounded),
        cmocka_unit_test(slirp_comes_back),
        cmocka_unit_test(a_profile_lists_hosts),
        cmocka_unit_test(a_total_is_bounded),
        cmocka_unit_test(it_is_made_again),
        cmocka_unit_test(nobody_gets_the_rules_of_the_dead),
    };
    return cmocka_run_group_tests(tests, open_outside, close_outside);
}
