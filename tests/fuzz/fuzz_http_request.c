/* Any bytes on a connection of the API, as requests one after the other, on a stand-in engine: what is answered is
   HTTP, what is refused is a problem, and nothing is left of it. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/api.h"
#include "fuzz/harness/fuzz.h"
#include "unit/api/stand_in_engine.h"

enum {
    PIECE_BYTES = 16384,
    QUIET_TURNS = 3, /* after which no answer is expected any more */
    QUIET_MS = 1,    /* for whom work is done beside the loop */
    ANSWERS_BYTES = 1 << 20,
    BODY_MAX_BYTES = 60000, /* so that what is too long fits into an input */
};

struct scene {
    uv_loop_t loop;
    struct engine engine;
    struct api *api;
    int fd;
    bool ended;
    struct buf answers;
};

static void check(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "fuzz_http_request: %s\n", what);
    abort();
}

/* ---- both ends ---- */

static int listen_somewhere(struct sockaddr_un *ret_address, socklen_t *ret_size) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t size = sizeof address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address.sun_family) == 0 && listen(fd, 4) == 0 &&
              getsockname(fd, (struct sockaddr *)&address, &size) == 0,
          "listen");
    *ret_address = address;
    *ret_size = size;
    return fd;
}

static void open_scene(struct scene *scene) {
    struct sockaddr_un address;
    socklen_t size;
    struct api_config config;
    check(uv_loop_init(&scene->loop) == 0, "the loop");
    stand_in_init(&scene->engine, &scene->loop);
    api_config_defaults(&config);
    config.body_max_bytes = BODY_MAX_BYTES;
    config.listen_fd = listen_somewhere(&address, &size);
    check(api_open(&scene->loop, &scene->engine, &config, &scene->api, NULL) == 0, "the API");
    scene->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    check(connect(scene->fd, (struct sockaddr *)&address, size) == 0, "connect");
}

static void on_closed(void *data) {
    *(bool *)data = true;
}

static void answer_held(struct scene *scene) {
    if (scene->engine.last) stand_in_answer(&scene->engine, scene->engine.last, NULL, E_TIMEOUT);
    scene->engine.last = NULL;
}

static void close_scene(struct scene *scene) {
    bool is_closed = false;
    close(scene->fd);
    api_close(scene->api, on_closed, &is_closed);
    while (!is_closed) {
        answer_held(scene);
        uv_run(&scene->loop, UV_RUN_ONCE);
    }
    stand_in_close(&scene->engine);
    uv_run(&scene->loop, UV_RUN_DEFAULT);
    check(uv_loop_close(&scene->loop) == 0, "something is left on the loop");
    buf_free(&scene->answers);
}

/* ---- what goes between them ---- */

/* Whether something came. */
static bool receive(struct scene *scene) {
    static char bytes[65536];
    ssize_t got = recv(scene->fd, bytes, sizeof bytes, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN)) scene->ended = true;
    if (got > 0 && scene->answers.size < ANSWERS_BYTES) buf_append(&scene->answers, bytes, (size_t)got);
    return got > 0;
}

static bool turn(struct scene *scene) {
    for (int i = 0; i < 4; i++) uv_run(&scene->loop, UV_RUN_NOWAIT);
    return receive(scene);
}

static void say(struct scene *scene, const uint8_t *data, size_t size) {
    while (size > 0 && !scene->ended) {
        ssize_t sent = send(scene->fd, data, size < PIECE_BYTES ? size : PIECE_BYTES, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) return;
        if (sent > 0) data += sent, size -= (size_t)sent;
        turn(scene);
    }
    shutdown(scene->fd, SHUT_WR);
}

static void hear(struct scene *scene) {
    for (int quiet = 0; quiet < QUIET_TURNS && !scene->ended;) {
        quiet = turn(scene) ? 0 : quiet + 1;
        answer_held(scene);
        struct pollfd ready[] = {{.fd = uv_backend_fd(&scene->loop), .events = POLLIN},
                                 {.fd = scene->fd, .events = POLLIN}};
        if (quiet > 1) poll(ready, 2, QUIET_MS);
    }
}

/* ---- what was said ---- */

static void check_problem(int status, const char *body, size_t size) {
    json_t *problem = json_loadb(body, size, 0, NULL);
    check(problem != NULL, "a problem that is not JSON");
    check(json_integer_value(json_object_get(problem, "status")) == status, "a problem with another's status");
    check(json_is_string(json_object_get(problem, "detail")), "a problem without a detail");
    check(json_is_string(json_object_get(problem, "code")), "a problem without a code");
    json_decref(problem);
}

/* The first answer, if all of it is there. */
static void check_answer(const struct buf *answers) {
    int status;
    const char *text = (const char *)answers->data;
    if (answers->size == 0) return;
    check(sscanf(text, "HTTP/1.1 %3d", &status) == 1 || sscanf(text, "HTTP/1.0 %3d", &status) == 1, "no HTTP");
    check(status != 500, "an internal error");
    const char *end = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "\r\nContent-Length: ");
    const char *kind = strcasestr(text, "\r\nContent-Type: application/problem+json\r\n");
    if (!end || !length || !kind || length > end || kind > end) return;
    size_t size = strtoul(length + strlen("\r\nContent-Length: "), NULL, 10), at = (size_t)(end + 4 - text);
    if (answers->size - at >= size && memcmp(end + 4, "HTTP/", 5) != 0) check_problem(status, end + 4, size);
}

void fuzz_one(const uint8_t *data, size_t size) {
    struct scene scene = {.answers = BUF_INIT};
    open_scene(&scene);
    say(&scene, data, size);
    hear(&scene);
    buf_string(&scene.answers);
    check_answer(&scene.answers);
    close_scene(&scene);
}
