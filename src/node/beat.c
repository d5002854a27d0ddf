/* Whether a node's agent lives: application code can suspend or starve it, and only its silence tells. Silence is
   measured by the time in which the loop listened: while the daemon was stopped or busy, answers lay unread. */
#include "node/node_internal.h"

static void on_beat_answer(void *data, const struct term *result, const struct term *reason,
                           const struct error *error) {
    (void)result;
    (void)reason;
    struct node *node = data;
    node->beat_id = 0;
    if (!error) node->last_alive_ms = loop_attended_ms(node->host->loop);
}

static void send_beat(struct node *node, bool look) {
    struct buf args = BUF_INIT;
    struct term_map map = term_map_begin(&args);
    term_map_bool(&map, "look", look);
    term_map_end(&map);
    node->beat_id = node_call(node, "beat", &args, node->host->heartbeat_deadline_ms * 4, on_beat_answer, node);
}

static void beat(struct node *node, bool look) {
    if (node->state == NODE_RUNNING && node->beat_id == 0) send_beat(node, look);
}

void node_beat(struct node *node) {
    beat(node, true);
}

static void on_beat(uv_timer_t *timer) {
    struct node *node = timer->data;
    const struct node_host *host = node->host;
    uint64_t now = loop_attended_ms(host->loop);
    bool is_unread =
        node->channel.is_decoding || node->channel.lacks_room; /* what it says waits behind a large frame */
    if (node->frozen || is_unread) {
        node->last_alive_ms = now;
        return;
    }
    uint64_t allowed_ms =
        node->state == NODE_BOOTING ? host->boot_deadline_ms : host->heartbeat_ms + host->heartbeat_deadline_ms;
    if (now - node->last_alive_ms >= allowed_ms) {
        node_misbehaved(node, NODE_SILENT, "the agent has not answered for %llu ms",
                        (unsigned long long)(now - node->last_alive_ms));
        return;
    }
    beat(node, false);
}

void node_start_beating(struct node *node) {
    node->last_alive_ms = loop_attended_ms(node->host->loop);
    uv_timer_start(&node->beat, on_beat, node->host->heartbeat_ms, node->host->heartbeat_ms);
}
