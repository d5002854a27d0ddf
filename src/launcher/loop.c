/* The launcher's loop: what it waits for, and what it does when that comes or when a deadline has passed. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

#include "launcher/daemon/daemon.h"
#include "launcher/egress/egress.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/nodes/path_read.h"
#include "launcher/ports/ports.h"
#include "launcher/project/project.h"
#include "launcher/server.h"

enum { EVENTS_PER_TURN = 64, SOURCE_SHIFT = 32 };

int launcher_watch(struct launcher *launcher, int fd, enum source source, size_t index, struct error *reterr) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)source << SOURCE_SHIFT | index};
    if (epoll_ctl(launcher->loop.epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return error_errno(reterr, errno, "watch a descriptor");
    return 0;
}

void launcher_unwatch(struct launcher *launcher, int fd) {
    if (fd >= 0) epoll_ctl(launcher->loop.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void launcher_want_output(struct launcher *launcher, bool wanted) {
    struct epoll_event event = {.events = EPOLLIN | (wanted ? (uint32_t)EPOLLOUT : 0),
                                .data.u64 = (uint64_t)SOURCE_LINK << SOURCE_SHIFT};
    epoll_ctl(launcher->loop.epoll_fd, EPOLL_CTL_MOD, launcher->server.link_fd, &event);
}

void launcher_due_at(struct launcher *launcher, uint64_t due_ms) {
    if (due_ms < launcher->loop.due_ms) launcher->loop.due_ms = due_ms;
}

void launcher_end(struct launcher *launcher, int exit_status) {
    launcher->loop.ending = true;
    launcher->loop.exit_status = exit_status;
}

static void on_signal(struct launcher *launcher, size_t index, uint32_t events) {
    (void)index;
    (void)events;
    struct signalfd_siginfo info;
    if (read(launcher->loop.signal_fd, &info, sizeof info) == sizeof info) supervise_stop(launcher);
}

static void on_server(struct launcher *launcher, size_t index, uint32_t events) {
    (void)index;
    (void)events;
    server_accept(launcher);
}

static void on_link(struct launcher *launcher, size_t index, uint32_t events) {
    (void)index;
    if (launcher->server.link_fd >= 0) server_receive(launcher, events);
}

static void on_daemon(struct launcher *launcher, size_t index, uint32_t events) {
    (void)index;
    (void)events;
    if (launcher->daemon.pidfd >= 0) supervise_ended(launcher);
}

/* An earlier event of the same turn may have ended what a later one is about: all of these look first. */
static void on_notify(struct launcher *launcher, size_t index, uint32_t events) {
    (void)events;
    if (launcher->nodes.items[index].used) notify_serve(launcher, &launcher->nodes.items[index]);
}

static void on_death(struct launcher *launcher, size_t index, uint32_t events) {
    (void)events;
    struct jailed_node *node = &launcher->nodes.items[index];
    if (node->used && node->burial.under_way && jailed_is_dead(node)) bury_finish(launcher, node);
}

static void on_path(struct launcher *launcher, size_t index, uint32_t events) {
    (void)events;
    struct jailed_node *node = &launcher->nodes.items[index];
    if (node->used && node->path_reading.under_way) path_read_came(launcher, node);
}

static void on_project(struct launcher *launcher, size_t index, uint32_t events) {
    (void)events;
    if (launcher->projects[index].state == PROJECT_OPENING) project_advance(launcher, &launcher->projects[index]);
}

static void on_volume(struct launcher *launcher, size_t index, uint32_t events) {
    (void)events;
    volume_work_done(launcher, index);
}

static void on_file(struct launcher *launcher, size_t index, uint32_t events) {
    (void)events;
    jailed_file_done(launcher, index);
}

static void on_refusals(struct launcher *launcher, size_t index, uint32_t events) {
    (void)index;
    (void)events;
    if (launcher->egress.log.fd >= 0) egress_tell_refusals(launcher);
}

static void on_addresses(struct launcher *launcher, size_t index, uint32_t events) {
    (void)index;
    (void)events;
    if (launcher->egress.addresses.fd >= 0) egress_addresses_changed(launcher);
}

static void on_greeting(struct launcher *launcher, size_t index, uint32_t events) {
    (void)index;
    (void)events;
    if (launcher->egress.greeting_fd >= 0) egress_greeting_came(launcher);
}

static void on_keeper(struct launcher *launcher, size_t index, uint32_t events) {
    (void)index;
    (void)events;
    if (launcher->egress.keeper_fd >= 0) egress_keeper_ended(launcher);
}

static void on_port(struct launcher *launcher, size_t index, uint32_t events) {
    (void)events;
    struct launcher_port *port = &launcher->ports.items[index];
    if (port->state != PORT_FREE && port->helper_fd >= 0) ports_helper_answered(launcher, port);
}

static void on_forwarder(struct launcher *launcher, size_t index, uint32_t events) {
    (void)events;
    struct launcher_port *port = &launcher->ports.items[index];
    if (port->state != PORT_FREE && port->forwarder.pidfd >= 0 && ports_forwarder_is_dead(port))
        ports_forwarder_ended(launcher, port);
}

typedef void (*source_fn)(struct launcher *launcher, size_t index, uint32_t events);

static const source_fn source_functions[SOURCE_COUNT] = {
    [SOURCE_SIGNAL] = on_signal,   [SOURCE_SERVER] = on_server,       [SOURCE_LINK] = on_link,
    [SOURCE_DAEMON] = on_daemon,   [SOURCE_NOTIFY] = on_notify,       [SOURCE_DEATH] = on_death,
    [SOURCE_PROJECT] = on_project, [SOURCE_REFUSALS] = on_refusals,   [SOURCE_ADDRESSES] = on_addresses,
    [SOURCE_KEEPER] = on_keeper,   [SOURCE_GREETING] = on_greeting,   [SOURCE_PATH] = on_path,
    [SOURCE_PORT] = on_port,       [SOURCE_FORWARDER] = on_forwarder, [SOURCE_VOLUME] = on_volume,
    [SOURCE_FILE] = on_file,
};

/* All that waits for time, and how long the loop may sleep. */
static int run_due(struct launcher *launcher) {
    static uint64_t (*const checks[])(struct launcher *, uint64_t) = {
        bury_check,     project_check,   opener_check, violation_flush, supervise_check,   egress_check,
        freezing_check, path_read_check, ports_check,  volumes_check,   jailed_files_check};
    uint64_t now_ms = clock_monotonic_ms();
    if (now_ms >= launcher->loop.due_ms) {
        launcher->loop.due_ms = UINT64_MAX;
        for (size_t i = 0; i < ARRAY_SIZE(checks); i++) launcher_due_at(launcher, checks[i](launcher, now_ms));
    }
    if (launcher->loop.due_ms == UINT64_MAX) return -1;
    return launcher->loop.due_ms <= now_ms ? 1 : (int)(launcher->loop.due_ms - now_ms);
}

void launcher_turn(struct launcher *launcher, bool waits) {
    struct epoll_event events[EVENTS_PER_TURN];
    int patience_ms = run_due(launcher);
    int count = epoll_wait(launcher->loop.epoll_fd, events, EVENTS_PER_TURN, waits ? patience_ms : 0);
    for (int i = 0; i < count; i++)
        source_functions[events[i].data.u64 >> SOURCE_SHIFT](launcher, events[i].data.u64 & UINT32_MAX,
                                                             events[i].events);
}
