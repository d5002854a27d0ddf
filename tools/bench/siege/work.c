/* Work that others do for the caller: reading a project, compiling, keeping what failed. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "siege.h"

enum {
    LOOK_MS = 5,
    CONNECTIONS_MAX = 32,
    PROJECT_BYTES = 40 << 20,
    OPENING_MS = 400,
    RUN_MS = 5,
    PAUSE_MS = 20,
    FUNCTIONS = 400,
    PATH_LENGTH = 3990, /* ends within a name: a path that ends with a slash is refused before it is looked at */
};

/* ---- stopped openers ---- */

static void project_path(const struct crew *crew, char ret[PATH_MAX]) {
    if (string_format(ret, PATH_MAX, NULL, "%s/large/large.erl", crew->arena->work) < 0) _exit(1);
}

/* The folder is the user's own, made by the script. */
bool openers_prepare(struct crew *crew) {
    static char block[1 << 20];
    char path[PATH_MAX];
    project_path(crew, path);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    memset(block, '%', sizeof block);
    block[sizeof block - 1] = '\n';
    for (size_t i = 0; fd >= 0 && i < PROJECT_BYTES / sizeof block; i++)
        if (file_write_all(fd, (uint8_t *)block, sizeof block) < 0) return false;
    json_t *body = json_pack("{s:s}", "source", path);
    CLEANUP_FREE char *text = json_dumps(body, 0);
    json_decref(body);
    buf_append_string(&crew->body, text);
    return fd >= 0;
}

/* Stopped before it has begun, an opener holds nothing of the service; after 20 ms it is done. So openers get moments
   of the processor until most are within their file, and none after that. */
static void stop_openers(struct crew *crew) {
    for (uint64_t until_ms = clock_monotonic_ms() + OPENING_MS; clock_monotonic_ms() < until_ms;) {
        kill(-1, SIGCONT);
        poll(NULL, 0, RUN_MS);
        kill(-1, SIGSTOP);
        poll(NULL, 0, PAUSE_MS);
    }
    crew->stage->strikes++;
    while (crew->stage->is_on) {
        kill(-1, SIGSTOP);
        poll(NULL, 0, LOOK_MS);
    }
}

/* Every process of this user's but ourselves: what opens the project for us is one. They are killed in the end, since a
   stopped process outlives the benchmark. */
void openers_volley(struct crew *crew) {
    int fds[CONNECTIONS_MAX];
    for (unsigned i = 0; i < crew->attack->count; i++) {
        fds[i] = crew_dial(crew);
        if (fds[i] < 0 || !crew_request(fds[i], "POST", "/api/v1/compile", &crew->body, 0)) crew->stage->refused++;
    }
    stop_openers(crew);
    for (unsigned i = 0; i < crew->attack->count; i++) fd_close(fds[i]);
    for (int i = 0; i < 100; i++) {
        kill(-1, SIGKILL);
        poll(NULL, 0, LOOK_MS);
    }
}

/* ---- compilations ---- */

/* A module that was never compiled before. */
static void put_module(struct buf *to, unsigned number) {
    struct buf code = BUF_INIT;
    char line[160];
    snprintf(line, sizeof line, "-module(m%u).\n-compile(export_all).\n", number);
    buf_append_string(&code, line);
    for (int i = 0; i < FUNCTIONS; i++) {
        snprintf(line, sizeof line, "f%d(X) -> case X of {a, Y} when Y > %u -> [Y, {X, %d}]; _ -> #{x => X} end.\n", i,
                 number % 1000, i);
        buf_append_string(&code, line);
    }
    snprintf(line, sizeof line, "m%u.erl", number);
    json_t *body = json_pack("{s:s, s:s}", "code", buf_string(&code), "file", line);
    CLEANUP_FREE char *text = json_dumps(body, 0);
    json_decref(body);
    buf_free(&code);
    buf_append_string(to, text);
}

/* Once the window is over, the connections are closed, which calls the compilations off. */
static void await_or_leave(struct crew *crew, int fd) {
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    while (crew->stage->is_on)
        if (poll(&waiting, 1, LOOK_MS) > 0) break;
    if (waiting.revents && !crew_await_answer(fd)) crew->stage->refused++;
}

void compilations_volley(struct crew *crew) {
    int fds[CONNECTIONS_MAX];
    for (unsigned i = 0; i < crew->attack->count; i++) {
        CLEANUP(buf_free) struct buf body = BUF_INIT;
        put_module(&body, (unsigned)(clock_monotonic_us() & 0x7fffffff));
        fds[i] = crew_dial(crew);
        if (fds[i] < 0 || !crew_request(fds[i], "POST", "/api/v1/compile", &body, 0)) crew->stage->refused++;
    }
    crew->stage->strikes++;
    for (unsigned i = 0; i < crew->attack->count; i++) {
        if (fds[i] >= 0) await_or_leave(crew, fds[i]);
        fd_close(fds[i]);
    }
}

/* ---- events ---- */

static void put_failure(struct buf *to, unsigned number) {
    char id[32];
    snprintf(id, sizeof id, "fails-%u", number);
    buf_append_string(to, "{\"id\":\"");
    buf_append_string(to, id);
    buf_append_string(to, "\",\"source\":\"/");
    for (int i = 0; i < PATH_LENGTH; i++) buf_append_string(to, i % 200 == 199 ? "/" : "x");
    buf_append_string(to, "\"}");
}

/* Each connection is kept, with one request under way. */
void failures_volley(struct crew *crew) {
    int fds[CONNECTIONS_MAX];
    unsigned number = 0;
    for (unsigned i = 0; i < crew->attack->count; i++) fds[i] = crew_dial(crew);
    while (crew->stage->is_on) {
        for (unsigned i = 0; i < crew->attack->count; i++) {
            CLEANUP(buf_free) struct buf body = BUF_INIT;
            put_failure(&body, number++);
            if (fds[i] < 0 || !crew_request(fds[i], "POST", "/api/v1/sandboxes", &body, 0)) crew->stage->refused++;
        }
        for (unsigned i = 0; i < crew->attack->count; i++)
            if (fds[i] >= 0 && !crew_await_answer(fds[i])) fds[i] = fd_close(fds[i]);
        for (unsigned i = 0; i < crew->attack->count; i++)
            if (fds[i] < 0) fds[i] = crew_dial(crew);
        crew->stage->strikes++;
        crew->stage->volleys++;
    }
    for (unsigned i = 0; i < crew->attack->count; i++) fd_close(fds[i]);
}
