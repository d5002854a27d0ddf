/* Published ports and connections to services of the host, and what must not be had by them. Takes root. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "processes.h"
#include "support.h"

enum { STRANGER = 65534, MANY = 200, PATIENCE_MS = 15000 * TEST_SLOWNESS, CALL_MAX_MS = 60000 };

/* ---- clients ---- */

static int dial(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    close(fd);
    return -1;
}

static int dial_path(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_int_equal(string_format(address.sun_path, sizeof address.sun_path, NULL, "%s", path), 0);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    close(fd);
    return -1;
}

static void say(int fd, const char *text) {
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Until so much has come, or the end. */
static void hear(int fd, char *ret, size_t size) {
    size_t got = 0;
    while (got < size) {
        if (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, PATIENCE_MS) != 1) fail_msg("nothing more is heard");
        ssize_t more = recv(fd, ret + got, size - got, 0);
        if (more <= 0) break;
        got += (size_t)more;
    }
    ret[got] = '\0';
}

static void assert_echo(int fd, const char *text) {
    char heard[64] = "";
    say(fd, text);
    hear(fd, heard, strlen(text));
    assert_string_equal(heard, text);
}

static void assert_serves(int port) {
    CLEANUP_FD int fd = dial(port);
    if (fd < 0) fail_msg("no connection to port %d", port);
    assert_echo(fd, "anybody there?");
}

/* ---- services of the host ---- */

struct service {
    int fd;
    pthread_t thread;
    int port; /* 0: it is at a path */
    const char *words;
    uid_t peer; /* of the last client */
};

static void *serve(void *data) {
    struct service *service = data;
    for (int client; (client = accept(service->fd, NULL, NULL)) >= 0; close(client)) {
        struct ucred peer = {.uid = (uid_t)-1};
        socklen_t size = sizeof peer;
        char asked[64];
        if (getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) service->peer = peer.uid;
        if (recv(client, asked, sizeof asked, 0) > 0)
            send(client, service->words, strlen(service->words), MSG_NOSIGNAL);
    }
    return NULL;
}

static struct service *begin_service(int family, const void *address, socklen_t size, const char *words) {
    struct service *service = calloc(1, sizeof *service);
    struct sockaddr_in own = {0};
    socklen_t own_size = sizeof own;
    service->words = words;
    service->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(service->fd, address, size), 0);
    assert_int_equal(listen(service->fd, 16), 0);
    if (family == AF_INET && getsockname(service->fd, (struct sockaddr *)&own, &own_size) == 0)
        service->port = ntohs(own.sin_port);
    assert_int_equal(pthread_create(&service->thread, NULL, serve, service), 0);
    return service;
}

static struct service *begin_at_port(const char *words) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    return begin_service(AF_INET, &address, sizeof address, words);
}

static struct service *begin_at_path(const char *path, const char *words) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_int_equal(string_format(address.sun_path, sizeof address.sun_path, NULL, "%s", path), 0);
    unlink(path);
    return begin_service(AF_UNIX, &address, sizeof address, words);
}

static void end_service(struct service *service) {
    shutdown(service->fd, SHUT_RDWR);
    pthread_join(service->thread, NULL);
    close(service->fd);
    free(service);
}

/* ---- the sandbox ---- */

struct scene {
    struct world *world;
    char source[256]; /* every user may read it */
    char folder[256]; /* every user may write there */
};

static int open_scene(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    CLEANUP_FREE char *text = read_whole(DOOR);
    assert_non_null(text);
    scene->world = world_open("spare-compilers = 0\nwarm-nodes = 0\n[quota user 65534]\nports = 3\n");
    snprintf(scene->source, sizeof scene->source, "%s", world_file(scene->world, "door/door.erl", text));
    snprintf(scene->folder, sizeof scene->folder, "%s", world_path(scene->world, "open"));
    assert_int_equal(mkdir(scene->folder, 0777), 0);
    assert_int_equal(chmod(scene->folder, 01777), 0);
    *state = scene;
    return 0;
}

static int close_scene(void **state) {
    struct scene *scene = *state;
    world_close(scene->world);
    free(scene);
    return 0;
}

static json_t *texts(const char *one, const char *other) {
    json_t *list = json_array();
    if (one) json_array_append_new(list, json_string(one));
    if (other) json_array_append_new(list, json_string(other));
    return list;
}

static json_t *create(const struct scene *scene, const char *id, const char *profile, json_t *publish,
                      json_t *connect) {
    return world_op(scene->world, "create", "{s:s, s:s, s:s, s:s, s:o, s:o}", "id", id, "source", scene->source,
                    "supervisor", "door", "profile", profile, "publish", publish, "connect", connect);
}

static int port_of(json_t *sandbox, size_t index) {
    return (int)json_integer_value(
        json_object_get(json_array_get(json_object_get(sandbox, "published"), index), "port"));
}

static json_int_t count_of(const struct scene *scene, const char *id, const char *list, const char *name) {
    json_t *info = world_info(scene->world, id);
    json_int_t count = json_integer_value(json_object_get(json_array_get(json_object_get(info, list), 0), name));
    json_decref(info);
    return count;
}

static void assert_asks(const struct scene *scene, const char *id, const char *host, int port, const char *answer) {
    char code[128];
    snprintf(code, sizeof code, "door:ask(\"%s\", %d).", host, port);
    CLEANUP_FREE char *text = world_eval_text(scene->world, id, "erlang", code);
    if (strcmp(text, answer) != 0) fail_msg("%s is %s, not %s", code, text, answer);
}

/* ---- as another user ---- */

/* "ok", or why not. To be freed. */
static char *as_stranger(const struct scene *scene, const char *op, json_t *params) {
    struct buf said = {.max = 4096};
    CLEANUP_FREE char *text = json_dumps(params, 0);
    char chunk[1024];
    int ends[2];
    json_decref(params);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        struct sbx_options how = SBX_OPTIONS_INIT;
        struct sbx *client = NULL;
        struct sbx_error error;
        if (setgroups(0, NULL) < 0 || setgid(STRANGER) < 0 || setuid(STRANGER) < 0) _exit(1);
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* as a program is that was started with that uid */
        how.home = world_home(scene->world);
        how.flags = SBX_NO_AUTOSTART;
        how.timeout_ms = CALL_MAX_MS;
        int result = sbx_open_with(&how, &client, &error);
        if (result == 0) result = sbx_op(client, op, text, NULL, &error);
        dprintf(ends[1], "%s", result == 0 ? "ok" : error.detail);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], chunk, sizeof chunk)) > 0;) buf_append(&said, chunk, (size_t)got);
    close(ends[0]);
    waitpid(child, NULL, 0);
    return buf_take_string(&said);
}

static void expect_of_stranger(const struct scene *scene, const char *op, json_t *params, const char *outcome) {
    CLEANUP_FREE char *said = as_stranger(scene, op, params);
    if (!said || !strstr(said, outcome)) fail_msg("%s: '%s', not '%s'", op, said ? said : "", outcome);
}

static json_t *strangers_create(const struct scene *scene, const char *id, json_t *publish, json_t *connect) {
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "id", id, "source", scene->source, "supervisor", "door", "publish",
                     publish, "connect", connect);
}

/* ---- publishing ---- */

static void a_port_is_reached(void **state) {
    struct scene *scene = *state;
    char path[300], port[320], heard[64] = "";
    struct stat status;
    snprintf(path, sizeof path, "%s/door.sock", scene->folder);
    snprintf(port, sizeof port, "unix:%s:4000", path);
    json_t *sandbox = create(scene, "a", "medium", texts("0:4000", port), texts(NULL, NULL));
    int number = port_of(sandbox, 0);
    json_decref(sandbox);
    assert_serves(number);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    CLEANUP_FD int fd = dial_path(path);
    assert_echo(fd, "by its name");
    shutdown(fd, SHUT_WR);
    hear(fd, heard, 3);
    assert_string_equal(heard, "bye");
    assert_int_equal(count_of(scene, "a", "published", "connections"), 1);
    assert_int_equal(count_of(scene, "a", "published", "in_bytes"), strlen("anybody there?"));

    /* A restart keeps it. */
    world_do(scene->world, "restart", "{s:s}", "id", "a");
    assert_serves(number);
    assert_int_equal(count_of(scene, "a", "published", "connections"), 2);

    world_do(scene->world, "unpublish", "{s:s, s:[s]}", "id", "a", "ports", port);
    assert_int_equal(access(path, F_OK), -1);
    world_destroy(scene->world, "a");
    assert_int_equal(dial(number), -1);
}

static void a_taken_port_changes_nothing(void **state) {
    struct scene *scene = *state;
    struct service *service = begin_at_port("taken");
    char port[64], path[300], named[320];
    snprintf(port, sizeof port, "%d:4000", service->port);
    snprintf(path, sizeof path, "%s/file", scene->folder);
    snprintf(named, sizeof named, "unix:%s:4000", path);
    CLEANUP_FD int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    json_decref(world_fails(scene->world, "create", "conflict", "{s:s, s:s, s:s, s:[s]}", "id", "b", "source",
                            scene->source, "supervisor", "door", "publish", port));
    json_decref(world_fails(scene->world, "info", "not_found", "{s:s}", "id", "b"));
    json_decref(create(scene, "b", "medium", texts("0:4000", NULL), texts(NULL, NULL)));
    json_decref(
        world_fails(scene->world, "publish", "conflict", "{s:s, s:[s, s]}", "id", "b", "ports", "0:4001", port));
    json_decref(world_fails(scene->world, "publish", "conflict", "{s:s, s:[s]}", "id", "b", "ports", named));
    json_decref(
        world_fails(scene->world, "publish", "forbidden", "{s:s, s:[s]}", "id", "b", "ports", "0.0.0.0:0:4000"));
    json_t *info = world_info(scene->world, "b");
    assert_int_equal(json_array_size(json_object_get(info, "published")), 1);
    assert_serves(port_of(info, 0));
    json_decref(info);
    assert_int_equal(access(path, F_OK), 0);
    world_destroy(scene->world, "b");
    unlink(path);
    end_service(service);
}

static void datagrams_are_answered(void **state) {
    struct scene *scene = *state;
    json_t *sandbox = create(scene, "u", "low", texts("0:4001/udp", NULL), texts(NULL, NULL));
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port_of(sandbox, 0)), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    CLEANUP_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char heard[16] = "";
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    say(fd, "datagram");
    hear(fd, heard, 8);
    assert_string_equal(heard, "datagram");
    json_decref(sandbox);
    world_destroy(scene->world, "u");
}

/* ---- connecting ---- */

static void one_service_is_reached_and_no_other(void **state) {
    struct scene *scene = *state;
    struct service *wanted = begin_at_port("wanted"), *other = begin_at_port("other");
    char connect[64], named[64];
    snprintf(connect, sizeof connect, "%d", wanted->port);
    snprintf(named, sizeof named, "db=127.0.0.1:%d", wanted->port);
    json_t *neighbour = create(scene, "n", "medium", texts("0:4000", NULL), texts(NULL, NULL));
    for (size_t i = 0; i < 2; i++) {
        const char *profile = i == 0 ? "medium" : "high";
        json_decref(create(scene, "c", profile, texts("0:4000", NULL), texts(connect, named)));
        assert_asks(scene, "c", "localhost", wanted->port, "wanted");
        assert_asks(scene, "c", "db", wanted->port, "wanted");
        assert_asks(scene, "c", "localhost", other->port, "econnrefused");
        assert_asks(scene, "c", "db", other->port, "econnrefused");
        assert_asks(scene, "c", "localhost", port_of(neighbour, 0), "econnrefused");
        assert_int_equal(count_of(scene, "c", "connects", "connections"), 1);
        assert_int_equal(count_of(scene, "c", "connects", "in_bytes"), strlen("wanted"));
        world_destroy(scene->world, "c");
    }
    json_decref(neighbour);
    world_destroy(scene->world, "n");
    end_service(wanted);
    end_service(other);
}

static void high_says_that_it_has_a_network(void **state) {
    struct scene *scene = *state;
    json_decref(world_fails(scene->world, "create", "guarantee_missing", "{s:s, s:s, s:s, s:s, s:[s], s:[s]}", "id",
                            "h", "source", scene->source, "supervisor", "door", "profile", "high", "publish", "0:4000",
                            "require", "no_network"));
    json_t *sandbox = create(scene, "h", "high", texts("0:4000", NULL), texts(NULL, NULL));
    assert_string_equal(json_string_value(json_object_get(sandbox, "network")), "loopback");
    assert_serves(port_of(sandbox, 0));
    json_decref(sandbox);
    world_destroy(scene->world, "h");
}

/* ---- as another user ---- */

static void a_port_is_taken_as_its_caller(void **state) {
    struct scene *scene = *state;
    char closed[300], port[320], theirs[320];
    snprintf(closed, sizeof closed, "%s", world_path(scene->world, "closed"));
    assert_int_equal(mkdir(closed, 0755), 0);
    snprintf(port, sizeof port, "unix:%s/door.sock:4000", closed);
    snprintf(theirs, sizeof theirs, "unix:%s/theirs.sock:4000", scene->folder);
    expect_of_stranger(scene, "create", strangers_create(scene, "s", texts("80:4000", NULL), texts(NULL, NULL)),
                       "may not be taken by uid 65534");
    expect_of_stranger(scene, "create", strangers_create(scene, "s", texts(port, NULL), texts(NULL, NULL)),
                       "may not be taken by uid 65534");
    expect_of_stranger(scene, "create", strangers_create(scene, "s", texts("0:4000", theirs), texts(NULL, NULL)), "ok");
    expect_of_stranger(scene, "publish", json_pack("{s:s, s:[s, s]}", "id", "s", "ports", "0:4001", "0:4002"),
                       "quota \"ports\" is used up");
    struct stat status;
    assert_int_equal(stat(theirs + strlen("unix:"), &status), -1);
    *strrchr(theirs, ':') = '\0';
    assert_int_equal(stat(theirs + strlen("unix:"), &status), 0);
    assert_int_equal(status.st_uid, STRANGER);

    /* Not ours any more: it stays. */
    assert_int_equal(unlink(theirs + strlen("unix:")), 0);
    struct service *service = begin_at_path(theirs + strlen("unix:"), "mine");
    world_destroy(scene->world, "s");
    assert_int_equal(stat(theirs + strlen("unix:"), &status), 0);
    end_service(service);
}

static void a_service_sees_the_caller(void **state) {
    struct scene *scene = *state;
    char path[300], connect[320], api[320];
    snprintf(path, sizeof path, "%s/service.sock", scene->folder);
    snprintf(connect, sizeof connect, "db=unix:%s:5432", path);
    snprintf(api, sizeof api, "unix:%s/api.sock", world_home(scene->world));
    struct service *service = begin_at_path(path, "words");
    assert_int_equal(chmod(path, 0666), 0);
    expect_of_stranger(scene, "create", strangers_create(scene, "s", texts(NULL, NULL), texts(connect, NULL)), "ok");
    assert_asks(scene, "s", "db", 5432, "words");
    assert_int_equal(service->peer, STRANGER);

    /* What its caller may not reach it doesn't. */
    assert_int_equal(chmod(path, 0600), 0);
    assert_asks(scene, "s", "db", 5432, "closed");
    world_destroy(scene->world, "s");

    expect_of_stranger(scene, "create", strangers_create(scene, "s", texts(NULL, NULL), texts(api, NULL)),
                       "sockets of this service");
    expect_of_stranger(scene, "create",
                       strangers_create(scene, "s", texts(NULL, NULL), texts("169.254.169.254:80", NULL)),
                       "no sandbox may connect to 169.254.169.254:80");
    end_service(service);
}

/* A link in the place of the service leads nowhere: neither elsewhere in its folder, nor to the service's own sockets.
 */
static void a_connection_is_not_stretched(void **state) {
    struct scene *scene = *state;
    char path[300], other[300], connect[320], api[320];
    snprintf(path, sizeof path, "%s/service.sock", scene->folder);
    snprintf(other, sizeof other, "%s/other.sock", scene->folder);
    snprintf(connect, sizeof connect, "db=unix:%s:5432", path);
    snprintf(api, sizeof api, "%s/api.sock", world_home(scene->world));
    struct service *service = begin_at_path(path, "words"), *elsewhere = begin_at_path(other, "elsewhere");
    json_decref(create(scene, "l", "medium", texts(NULL, NULL), texts(connect, NULL)));
    assert_asks(scene, "l", "db", 5432, "words");
    unlink(path);
    assert_int_equal(symlink("other.sock", path), 0);
    assert_asks(scene, "l", "db", 5432, "closed");
    unlink(path);
    assert_int_equal(symlink(api, path), 0);
    assert_asks(scene, "l", "db", 5432, "closed");
    unlink(path);
    if (link(api, path) == 0) assert_asks(scene, "l", "db", 5432, "closed"); /* the very socket, by another name */
    unlink(path);
    world_destroy(scene->world, "l");
    unlink(other);
    end_service(service);
    end_service(elsewhere);
}

/* ---- deaths ---- */

static bool daemon_is_new(void *data) {
    struct scene *scene = data;
    struct sbx *client;
    struct sbx_error error;
    if (sbx_open(world_home(scene->world), &client, &error) < 0) return false;
    bool answers = sbx_op(client, "list", NULL, NULL, &error) == 0;
    sbx_close(client);
    return answers;
}

static void assert_all_serve(const int *fds) {
    for (size_t i = 0; i < MANY; i++) assert_echo(fds[i], "still there");
}

static void connections_outlive_daemon_and_launcher(void **state) {
    struct scene *scene = *state;
    int fds[MANY];
    json_t *sandbox = create(scene, "d", "low", texts("0:4000", NULL), texts(NULL, NULL));
    int port = port_of(sandbox, 0);
    json_decref(sandbox);
    for (size_t i = 0; i < MANY; i++) assert_true((fds[i] = dial(port)) >= 0);
    assert_all_serve(fds);
    process_end(world_pid(scene->world, "daemon.lock"), SIGKILL);
    assert_all_serve(fds);
    assert_serves(port);
    assert_true(wait_until(daemon_is_new, scene, PATIENCE_MS));
    assert_int_equal(count_of(scene, "d", "published", "connections"), MANY + 1);

    process_end(world_pid(scene->world, "launcher.lock"), SIGKILL);
    assert_all_serve(fds);
    assert_serves(port);
    assert_true(wait_until(daemon_is_new, scene, PATIENCE_MS));
    assert_int_equal(count_of(scene, "d", "published", "connections"), MANY + 2);

    /* The new launcher has the listener, and can give it up. */
    world_do(scene->world, "restart", "{s:s}", "id", "d");
    assert_serves(port);
    world_do(scene->world, "unpublish", "{s:s, s:[s]}", "id", "d", "ports", "0:4000");
    for (size_t i = 0; i < MANY; i++) close(fds[i]);
    world_destroy(scene->world, "d");
    assert_int_equal(dial(port), -1);
}

static void what_went_through_is_told(void **state) {
    struct scene *scene = *state;
    uint64_t since = world_now(scene->world);
    json_t *sandbox = create(scene, "t", "medium", texts("0:4000", NULL), texts(NULL, NULL)), *record;
    assert_serves(port_of(sandbox, 0));
    json_decref(sandbox);
    world_destroy(scene->world, "t");
    json_t *event =
        world_wait_event(scene->world, since, &(struct event_pattern){.kind = "port_closed", .sandbox_id = "t"});
    json_t *data = json_object_get(event, "data");
    assert_int_equal(json_integer_value(json_object_get(data, "connections")), 1);
    assert_int_equal(json_integer_value(json_object_get(data, "in_bytes")), strlen("anybody there?"));
    json_decref(event);
    json_t *records = world_op(scene->world, "audit", "{s:s, s:s}", "op", "port_closed", "sandbox_id", "t");
    size_t i;
    assert_int_equal(json_array_size(records), 1);
    json_array_foreach(records, i, record) {
        json_t *told = json_object_get(record, "params");
        assert_int_equal(json_integer_value(json_object_get(told, "in_bytes")), strlen("anybody there?"));
    }
    json_decref(records);
}

int main(void) {
    const struct test_case cases[] = {
        CASE(a_port_is_reached),
        LONG_CASE(a_taken_port_changes_nothing),
        LONG_CASE(datagrams_are_answered),
        CASE(one_service_is_reached_and_no_other),
        LONG_CASE(high_says_that_it_has_a_network),
        CASE(a_port_is_taken_as_its_caller),
        CASE(a_service_sees_the_caller),
        CASE(a_connection_is_not_stretched),
        LONG_CASE(connections_outlive_daemon_and_launcher),
        LONG_CASE(what_went_through_is_told),
    };
    return cases_run(cases, ARRAY_SIZE(cases), open_scene, close_scene);
}
