/* Attackers: processes of another user, or code inside a sandbox, that attack in the windows meant for it and rest
   between them. All are bounded: by the window, by their patience, and by an alarm of their own. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "siege.h"

enum {
    LOOK_MS = 2,
    REST_MAX_MS = 90000,
    LIFE_MAX_S = 600,
    LINGERING_MS = 2000, /* an attack inside outlasts its window: the neighbour tries more than the window's calls */
    DESCRIPTORS_MAX = 4096,
};

struct assault {
    struct arena *arena;
    struct crew crew;
    pid_t child; /* 0: inside */
    unsigned lost;
    unsigned strikes_before;
};

/* ---- what volleys are made of ---- */

int crew_dial(const struct crew *crew) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    if (fd < 0 || string_format(address.sun_path, sizeof address.sun_path, NULL, "%s/api.sock", crew->arena->home) < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ? -1 : take_fd(&fd);
}

bool crew_send(int fd, const void *data, size_t size) {
    const char *at = data;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

/* All but the body's last bytes, as many as are kept back. */
bool crew_request(int fd, const char *method, const char *path, const struct buf *body, size_t keep_back) {
    char head[512];
    size_t size = body ? body->size : 0;
    int length = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: sandbox\r\nContent-Length: %zu\r\n%s\r\n", method,
                          path, size, body ? "Content-Type: application/json\r\n" : "");
    return crew_send(fd, head, (size_t)length) && (!body || crew_send(fd, body->data, size - keep_back));
}

/* How much of the answer is still to come, told by its head; false until that is whole. */
static bool rest_of(const char *head, size_t size, size_t *ret) {
    const char *end = memmem(head, size, "\r\n\r\n", 4);
    const char *length = end ? memmem(head, size, "Content-Length: ", 16) : NULL;
    if (!length) return false;
    size_t whole = (size_t)(end - head) + 4 + strtoul(length + 16, NULL, 10);
    *ret = whole > size ? whole - size : 0;
    return true;
}

bool crew_await_answer(int fd) {
    char part[65536];
    size_t received = 0, rest = SIZE_MAX;
    while (rest > 0) {
        bool in_head = rest == SIZE_MAX;
        ssize_t count = recv(fd, part + (in_head ? received : 0), sizeof part - (in_head ? received : 0), 0);
        if (count <= 0) return false;
        received += (size_t)count;
        if (!in_head)
            rest -= (size_t)count < rest ? (size_t)count : rest;
        else if (!rest_of(part, received, &rest) && received == sizeof part)
            return false;
    }
    return strncmp(part, "HTTP/1.1 5", 10) != 0;
}

/* ---- another user ---- */

static int attack_by_turns(void *data) {
    struct crew *crew = data;
    struct stage *stage = crew->stage;
    alarm(LIFE_MAX_S);
    if (crew->attack->prepare && !crew->attack->prepare(crew)) return 1;
    while (!stage->is_over) {
        if (!stage->is_on) {
            poll(NULL, 0, LOOK_MS);
            continue;
        }
        stage->busy++;
        crew->attack->volley(crew);
        stage->busy--;
        stage->strikes++;
        stage->volleys++;
    }
    return 0;
}

static void allow_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= DESCRIPTORS_MAX) return;
    limit.rlim_cur = DESCRIPTORS_MAX;
    if (limit.rlim_max < DESCRIPTORS_MAX) limit.rlim_max = DESCRIPTORS_MAX;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* ---- inside ---- */

static bool ask_inside(struct assault *assault, const char *code, const char *wanted) {
    CLEANUP_FREE char *answer = NULL;
    if (sbx_eval(assault->arena->service, ATTACKER, code, NULL, &answer, NULL) < 0) return false;
    json_t *told = json_loads(answer, 0, NULL);
    bool is_so = string_equal(json_string_value(json_object_get(told, "text")), wanted);
    json_decref(told);
    return is_so;
}

static void create_inside(struct assault *assault) {
    struct sbx_error error;
    if (sbx_create(assault->arena->service, ATTACKER, assault->arena->inside,
                   "{\"profile\": \"medium\", \"limit\": {\"memory\": \"512M\", \"heap\": \"400M\"}}", NULL,
                   &error) < 0)
        bench_end("the attacker's sandbox", error.detail);
}

/* One that was ended for its attack begins again. */
static void begin_inside(struct assault *assault, uint64_t length_ms) {
    CLEANUP_FREE char *code = string_print("siege:attack(%s, %d)", assault->crew.attack->text, (int)length_ms);
    for (int i = 0; i < 2; i++) {
        if (ask_inside(assault, code, "ok")) return;
        assault->lost++;
        sbx_destroy(assault->arena->service, ATTACKER, NULL);
        create_inside(assault);
    }
}

static bool rests(struct assault *assault) {
    return assault->child ? assault->crew.stage->busy == 0 : ask_inside(assault, "siege:rests()", "true");
}

static void count_inside(struct assault *assault) {
    CLEANUP_FREE char *answer = NULL;
    if (sbx_eval(assault->arena->service, ATTACKER, "siege:attempts()", NULL, &answer, NULL) < 0) return;
    json_t *told = json_loads(answer, 0, NULL);
    json_t *counts = json_object_get(told, "result");
    assault->crew.stage->volleys = (unsigned)json_integer_value(json_array_get(counts, 0));
    assault->crew.stage->refused = (unsigned)json_integer_value(json_array_get(counts, 1));
    json_decref(told);
}

/* ---- either ---- */

struct assault *assault_open(struct arena *arena, const struct siege_attack *attack) {
    struct assault *assault = calloc(1, sizeof *assault);
    if (!assault) bench_end("an attack", "no memory");
    assault->arena = arena;
    assault->crew = (struct crew){.arena = arena, .attack = attack, .body = BUF_INIT};
    assault->crew.stage =
        mmap(NULL, sizeof *assault->crew.stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (assault->crew.stage == MAP_FAILED) bench_end("an attack", "no memory");
    allow_descriptors();
    if (attack->uid)
        assault->child = arena_fork_as(attack->uid, attack_by_turns, &assault->crew);
    else
        create_inside(assault);
    return assault;
}

void assault_begin(struct assault *assault, uint64_t length_ms) {
    assault->strikes_before = assault->crew.stage->strikes;
    if (assault->child)
        assault->crew.stage->is_on = true;
    else
        begin_inside(assault, length_ms + LINGERING_MS);
}

bool assault_has_struck(const struct assault *assault) {
    return !assault || !assault->child || assault->crew.stage->strikes != assault->strikes_before;
}

void assault_end(struct assault *assault) {
    assault->crew.stage->is_on = false;
    for (uint64_t until_ms = clock_monotonic_ms() + REST_MAX_MS; clock_monotonic_ms() < until_ms;) {
        if (rests(assault)) return;
        poll(NULL, 0, 10 * LOOK_MS);
        if (!assault->child && clock_monotonic_ms() + REST_MAX_MS - until_ms > 10 * LINGERING_MS) return;
    }
}

static int end_child(pid_t child) {
    int status = 0;
    for (int waited_ms = 0; waited_ms < PATIENCE_MS; waited_ms += LOOK_MS) {
        if (waitpid(child, &status, WNOHANG) == child) return status;
        poll(NULL, 0, LOOK_MS);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return status;
}

json_t *assault_close(struct assault *assault) {
    struct stage *stage = assault->crew.stage;
    stage->is_over = true;
    if (!assault->child) count_inside(assault);
    int status = assault->child ? end_child(assault->child) : 0;
    json_t *told = json_pack("{s:i, s:i, s:i, s:i}", "volleys", (int)stage->volleys, "refused", (int)stage->refused,
                             "lost", (int)assault->lost, "status", status);
    munmap(stage, sizeof *stage);
    free(assault);
    return told;
}
