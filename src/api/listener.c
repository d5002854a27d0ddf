/* New connections. The kernel keeps one queue of them for all users, so it is emptied at once, and the users wait in
   queues of their own: a user who opens connections without a pause keeps no other user waiting. */
#include "api/api_internal.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
    ACCEPTS_PER_TURN = 64,
    ACCEPTS_AT_LEAST = 8,   /* however full the turn is: connections that are served could fill every turn */
    HANDED_PER_TURN = 8,    /* to the HTTP server, which sets each of them up */
    WAITING_PER_USER = 256, /* a user's further connections are closed */
    WAITING_MAX = 1024,     /* above that a user has WAITING_AT_LEAST */
    WAITING_AT_LEAST = 4,
    ACCEPT_AGAIN_MS = 20, /* when there was no descriptor for one */
};

struct arrival {
    struct fair_item item;
    int fd;
};

static void close_connection(const struct api *api, int fd) {
    if (api->is_careful)
        stranger_close(fd);
    else
        fd_close(fd);
}

/* The server closes the socket, whether it takes it or not. */
static void hand_over(struct api *api, int fd) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    server_run_begin(api);
    MHD_add_connection(api->daemon, fd, (struct sockaddr *)&address, sizeof address.sun_family);
    server_run_end();
    api_run_soon(api);
}

/* Whether its caller has left without a word. */
static bool is_abandoned(int fd) {
    struct pollfd polled = {.fd = fd};
    int unread = 0;
    return poll(&polled, 1, 0) == 1 && polled.revents & POLLHUP && ioctl(fd, SIOCINQ, &unread) == 0 && unread == 0;
}

static bool has_room(const struct listener *listener, uid_t uid) {
    size_t max = listener->waiting.count < WAITING_MAX ? WAITING_PER_USER : WAITING_AT_LEAST;
    return fair_count(&listener->waiting, uid) < max;
}

static void arrive(struct api *api, int fd) {
    struct listener *listener = &api->listener;
    uid_t uid = connection_uid(fd);
    if (!quotas_is_bound(api->config.quotas, uid)) {
        hand_over(api, fd);
        return;
    }
    uid = quotas_principal(api->config.quotas, uid);
    bool is_wanted = has_room(listener, uid) && !is_abandoned(fd);
    struct arrival *arrival = is_wanted ? malloc(sizeof *arrival) : NULL;
    if (arrival) {
        *arrival = (struct arrival){.fd = fd};
        if (fair_put(&listener->waiting, uid, &arrival->item)) return;
    }
    free(arrival);
    close_connection(api, fd);
}

static int take_waiting(struct listener *listener) {
    struct fair_item *item = fair_take(&listener->waiting, NULL, NULL);
    if (!item) return -1;
    struct arrival *arrival = (struct arrival *)((char *)item - offsetof(struct arrival, item));
    int fd = arrival->fd;
    free(arrival);
    return fd;
}

/* One at least, however full the turn is. */
static void admit_waiting(struct api *api) {
    for (size_t i = 0; i < HANDED_PER_TURN; i++) {
        int fd = take_waiting(&api->listener);
        if (fd < 0) break;
        if (is_abandoned(fd))
            close_connection(api, fd);
        else
            hand_over(api, fd);
        if (loop_turn_is_full(api->loop)) break;
    }
}

static void on_turn(uv_idle_t *idle) {
    struct api *api = idle->data;
    loop_note(api->loop, "accept", NULL);
    admit_waiting(api);
    if (api->listener.waiting.count == 0) uv_idle_stop(idle);
}

/* ---- the kernel's queue ---- */

static void on_arrivals(uv_poll_t *poll, int status, int events);

static void on_again(uv_timer_t *timer) {
    struct api *api = timer->data;
    uv_poll_start(&api->listener.poll, UV_READABLE, on_arrivals);
}

static bool is_of_one_connection(int error) {
    return error == ECONNABORTED || error == EINTR || error == EPERM;
}

/* Without a descriptor the socket stays readable: it is looked at again after a moment. */
static void on_accept_failed(struct api *api, int error) {
    if (error == EAGAIN || is_of_one_connection(error)) return;
    uv_poll_stop(&api->listener.poll);
    uv_timer_start(&api->listener.again, on_again, ACCEPT_AGAIN_MS, 0);
}

static void on_arrivals(uv_poll_t *poll, int status, int events) {
    (void)status, (void)events;
    struct api *api = poll->data;
    loop_note(api->loop, "accept", NULL);
    for (size_t i = 0; i < ACCEPTS_PER_TURN && (i < ACCEPTS_AT_LEAST || !loop_turn_is_full(api->loop)); i++) {
        int fd = accept4(api->config.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            on_accept_failed(api, errno);
            break;
        }
        arrive(api, fd);
    }
    if (api->listener.waiting.count == 0) return;
    admit_waiting(api);
    if (api->listener.waiting.count > 0) uv_idle_start(&api->listener.turn, on_turn);
}

/* ---- beginning and end ---- */

int listener_open(struct api *api, struct error *reterr) {
    struct listener *listener = &api->listener;
    int status = uv_poll_init(api->loop, &listener->poll, api->config.listen_fd);
    if (status < 0) return error_errno(reterr, -status, "putting the API's socket on the loop");
    uv_idle_init(api->loop, &listener->turn);
    uv_timer_init(api->loop, &listener->again);
    listener->poll.data = listener->turn.data = listener->again.data = api;
    uv_poll_start(&listener->poll, UV_READABLE, on_arrivals);
    return 0;
}

/* Connections that were not accepted may hold descriptors. */
void listener_close(struct api *api) {
    if (api->config.listen_fd >= 0) close_connection(api, api->config.listen_fd);
    api->config.listen_fd = -1;
}

void listener_stop(struct api *api) {
    struct listener *listener = &api->listener;
    uv_poll_stop(&listener->poll);
    uv_idle_stop(&listener->turn);
    uv_timer_stop(&listener->again);
    for (int fd; (fd = take_waiting(listener)) >= 0;) close_connection(api, fd);
    listener_close(api);
}
