/* What large frames of all nodes share: memory, until all of one was read, and the threads that decode them. Nodes of
   one user can't keep those of others waiting, by beginning frames and being frozen, or by sending frame after frame.
 */
#include "base/schedule/share.h"
#include "node/node_internal.h"

static uid_t principal_of(const struct node *node) {
    return principals_of(node->host->principals, node->owner);
}

/* ---- memory ---- */

static struct share share_of(const struct node *node, size_t bytes) {
    uid_t principal = principal_of(node);
    struct share share = {.all = FRAMES_BYTES, .used = node->host->frame_bytes + bytes, .own = bytes};
    for (const struct frame_part *part = node->host->frames; part; part = part->next)
        if (part->principal == principal) share.own += part->bytes;
    return share;
}

/* The first one may come in any case: then none else holds memory. What is left for a user may be less than a frame may
   be, so its only one may be more than that. */
static bool is_fair(const struct node *node, size_t bytes) {
    struct share share = share_of(node, bytes);
    bool is_bound = node->owner != 0 && node->owner != getuid();
    bool is_only = share.own == bytes && share.used <= FRAMES_COMMON_BYTES;
    return share.used == bytes || is_only || share_is_fair(&share, is_bound);
}

bool frame_room_take(const struct node *node, struct frame_part *part, size_t bytes) {
    struct node_host *host = node->host;
    if (part->bytes > 0) return true;
    if (!is_fair(node, bytes)) return false;
    *part = (struct frame_part){.next = host->frames, .principal = principal_of(node), .bytes = bytes};
    host->frames = part;
    host->frame_bytes += bytes;
    return true;
}

void frame_room_give(struct node_host *host, struct frame_part *part) {
    struct frame_part **at = &host->frames;
    if (part->bytes == 0) return;
    while (*at != part) at = &(*at)->next;
    *at = part->next;
    host->frame_bytes -= part->bytes;
    part->bytes = 0;
}

/* ---- threads ---- */

bool frame_may_decode(const struct node *node) {
    const struct node_host *host = node->host;
    uid_t principal = principal_of(node);
    unsigned own = 0;
    for (unsigned i = 0; i < host->decodings; i++) own += host->decoders[i] == principal;
    return host->decodings < DECODINGS_MAX && own < DECODINGS_MAX / 2;
}

uid_t frame_decoding_begun(const struct node *node) {
    struct node_host *host = node->host;
    return host->decoders[host->decodings++] = principal_of(node);
}

void frame_decoding_ended(struct node_host *host, uid_t principal) {
    unsigned i = 0;
    while (host->decoders[i] != principal) i++;
    host->decoders[i] = host->decoders[--host->decodings];
}
