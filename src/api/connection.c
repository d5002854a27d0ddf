/* Connections: the caller behind each, which ones are refused, and deadlines for what they send and read. The caller
   is identified by SO_PEERCRED, never by what it sends. */
#include "api/api_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

enum {
    BODY_BYTES_PER_SECOND = 64 << 10,
    SWEEPS_PER_TIMEOUT = 4,
    CONNECTIONS_KEPT_FREE = 32, /* for those whom no quota binds */
    REFUSALS_MAX = 32,          /* refused ones that wait to be told why; the others are hung up on */
    REFUSAL_MS = 2000,          /* until it asks something */
};

static enum role role_of(const struct api *api, uid_t uid) {
    return uid == 0 || uid == api->config.admin_uid ? ROLE_ADMIN : ROLE_OPERATOR;
}

static bool credentials_of(int fd, struct ucred *ret) {
    socklen_t size = sizeof *ret;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &size) == 0 && size == sizeof *ret && ret->uid != (uid_t)-1;
}

uid_t connection_uid(int fd) {
    struct ucred peer;
    return credentials_of(fd, &peer) ? peer.uid : (uid_t)-1;
}

/* The kernel tells the caller's uid, as it was at the moment of connecting. */
static struct caller identify(const struct api *api, int fd) {
    struct ucred peer;
    if (!credentials_of(fd, &peer))
        return (struct caller){.uid = (uid_t)-1, .gid = (gid_t)-1, .role = ROLE_NONE, .peer_fd = fd};
    return (struct caller){
        .uid = peer.uid, .gid = peer.gid, .pid = peer.pid, .role = role_of(api, peer.uid), .peer_fd = fd};
}

/* All groups that the kernel has for it. One with more of them than fit is known by its primary one. */
static void introduce(const struct api *api, const struct caller *caller) {
    gid_t groups[QUOTA_GROUPS_MAX] = {caller->gid};
    socklen_t size = sizeof groups - sizeof groups[0];
    size_t count = 1;
    if (getsockopt(caller->peer_fd, SOL_SOCKET, SO_PEERGROUPS, groups + 1, &size) == 0)
        count += size / sizeof groups[0];
    quotas_introduce(api->config.quotas,
                     &(struct quota_identity){.uid = caller->uid, .groups = groups, .group_count = count});
}

/* ---- whether there is room ---- */

static void refuse(struct api *api, struct connection *connection, const struct error *why) {
    connection->is_refused = true;
    connection->refusal = why ? malloc(sizeof *why) : NULL;
    if (connection->refusal) *connection->refusal = *why;
    uint64_t idle_ms = api->config.idle_timeout_ms;
    connection->deadline_ms = loop_attended_ms(api->loop) + (idle_ms < REFUSAL_MS ? idle_ms : REFUSAL_MS);
    /* Refused connections that say nothing must not take the places of others. */
    bool is_bound = quotas_is_bound(api->config.quotas, connection->caller.uid);
    if (api->refused_count++ >= REFUSALS_MAX && is_bound) shutdown(connection->fd, SHUT_RDWR);
}

static void admit(struct api *api, struct connection *connection) {
    struct quotas *quotas = api->config.quotas;
    uid_t uid = connection->caller.uid;
    struct error error;
    introduce(api, &connection->caller);
    uint64_t max = quotas_share(quotas, uid, api->config.connections_max, CONNECTIONS_KEPT_FREE);
    struct share share = {.all = api->config.connections_max,
                          .used = api->served_count + 1,
                          .own = quotas_held(quotas, uid, QUOTA_CONNECTIONS) + 1};
    bool has_room = api->served_count < max && quotas_is_fair(quotas, uid, &share);
    if (quotas_take(quotas, uid, QUOTA_CONNECTIONS, 1, &error) < 0) {
        refuse(api, connection, &error);
    } else if (!has_room) {
        quotas_give(quotas, uid, QUOTA_CONNECTIONS, 1);
        refuse(api, connection, NULL);
    } else {
        api->served_count++;
        connection_await_request(api, connection);
    }
}

static void dismiss(struct api *api, struct connection *connection) {
    if (connection->is_refused) {
        api->refused_count--;
    } else {
        api->served_count--;
        quotas_give(api->config.quotas, connection->caller.uid, QUOTA_CONNECTIONS, 1);
    }
    free(connection->refusal);
}

struct answer *connection_refusal(const struct api *api, const struct connection *connection) {
    return connection->refusal ? answer_problem(connection->refusal, NULL, NULL)
                               : answer_overloaded(api->config.connections_max);
}

/* ---- beginning and end ---- */

static uint64_t sweep_interval(const struct api *api) {
    const struct api_config *config = &api->config;
    uint64_t least =
        config->idle_timeout_ms < config->request_timeout_ms ? config->idle_timeout_ms : config->request_timeout_ms;
    return least / SWEEPS_PER_TIMEOUT + 1;
}

/* MHD has no way to end a connection from outside, but it notices a socket that was shut down. */
static void sweep(uv_timer_t *timer) {
    struct api *api = timer->data;
    uint64_t now_ms = loop_attended_ms(api->loop);
    struct connection *connection;
    TAILQ_FOREACH(connection, &api->connections, link) {
        if (connection->deadline_ms == 0 || connection->deadline_ms > now_ms) continue;
        connection->deadline_ms = 0;
        shutdown(connection->fd, SHUT_RDWR);
    }
}
static void started(struct api *api, struct MHD_Connection *mhd, void **context) {
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection) return;
    connection->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    connection->caller = identify(api, connection->fd);
    admit(api, connection);
    if (TAILQ_EMPTY(&api->connections))
        uv_timer_start(&api->sweep_timer, sweep, sweep_interval(api), sweep_interval(api));
    TAILQ_INSERT_TAIL(&api->connections, connection, link);
    server_connection_began(api, connection);
    *context = connection;
}

/* MHD closes the socket after this. With a duplicate its close drops nothing that the caller sent along. */
static void keep_open(struct api *api, int fd) {
    int kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (kept >= 0) buf_append(&api->ended_fds, &kept, sizeof kept);
}

void connection_close_ended(struct api *api) {
    struct buf *fds = &api->ended_fds;
    for (size_t at = 0; at + sizeof(int) <= fds->size; at += sizeof(int)) {
        int fd;
        memcpy(&fd, fds->data + at, sizeof fd);
        stranger_close(fd);
    }
    buf_clear(fds);
}

static void ended(struct api *api, struct connection *connection) {
    if (api->is_careful) keep_open(api, connection->fd);
    TAILQ_REMOVE(&api->connections, connection, link);
    server_connection_ended(api, connection);
    dismiss(api, connection);
    free(connection);
    if (TAILQ_EMPTY(&api->connections)) uv_timer_stop(&api->sweep_timer);
}

void connection_notify(void *data, struct MHD_Connection *mhd, void **context,
                       enum MHD_ConnectionNotificationCode code) {
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        started(data, mhd, context);
    else if (*context)
        ended(data, *context);
}

struct connection *connection_of(struct MHD_Connection *mhd) {
    return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

void connection_await_request(struct api *api, struct connection *connection) {
    connection->deadline_ms = loop_attended_ms(api->loop) + api->config.idle_timeout_ms;
}

void connection_begin_body(struct api *api, struct connection *connection) {
    connection->asked_at_ms = loop_attended_ms(api->loop);
    connection_await_body(api, connection, 0);
}

/* Not "since the last byte": a caller who sends one byte at a time would hold the connection for ever. */
void connection_await_body(struct api *api, struct connection *connection, size_t received) {
    connection->deadline_ms =
        connection->asked_at_ms + api->config.request_timeout_ms + (uint64_t)received * 1000 / BODY_BYTES_PER_SECOND;
}

void connection_await_reader(struct api *api, struct connection *connection) {
    connection->deadline_ms = loop_attended_ms(api->loop) + WRITE_TIMEOUT_S * UINT64_C(1000);
}

void connection_await_nothing(struct connection *connection) {
    connection->deadline_ms = 0;
}
