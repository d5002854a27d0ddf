/* Between the pool's own files: what is decided (pool_policy.c, pure) and what carries it out (pool.c). */
#ifndef NODE_POOL_H
#define NODE_POOL_H

#include "node/node_internal.h"

enum {
    SHELVES_MAX = 16,
    POOL_OWN_SHELVES = 2, /* of one user's own toolchains */
    POOL_OWN_NODES = 2,   /* on each of them: no quota counts nodes that wait */
    POOL_NODES_MAX = 256,
    POOL_NODE_BYTES = 24 << 20,       /* what one is reckoned to take, kernel memory included */
    POOL_AGE_MAX_MS = 30 * 60 * 1000, /* then it is replaced, so that nothing that leaks in it grows for ever */
    POOL_DEMAND_HALF_LIFE_MS = 60000, /* what was taken counts half as much after so long */
    POOL_LOOK_EVERY_MS = 10000,       /* at memory, ages and demand */
    POOL_FIRST_LOOK_MS = 1000,
    POOL_SETTLE_MS = 50,    /* without a take or a wait for a start, before another is booted */
    POOL_PATIENCE_MS = 200, /* with callers that go on taking */
    POOL_START_PATIENCE_MS = 1000,
    POOL_BACKOFF_MIN_MS = 1000, /* after one that died by itself */
    POOL_BACKOFF_MAX_MS = 5 * 60 * 1000,
};

/* ---- pool_policy.c: values in, values out ---- */

struct demand { /* how many were wanted of late */
    double weight;
    uint64_t at_ms;
};

void demand_note(struct demand *demand, uint64_t now_ms);
double demand_now(const struct demand *demand, uint64_t now_ms);

/* A short time in which nothing is booted, since an application starts just now. */
struct pause {
    uint64_t began_ms, until_ms;
};

void pause_note(struct pause *pause, uint64_t now_ms);
/* It has not started yet. */
void pause_go_on(struct pause *pause, uint64_t now_ms);

struct shelf { /* nodes of one kind */
    const struct toolchain *toolchain;
    struct jail_profile profile;
    bool elixir;
    bool is_standing; /* one is kept even without demand */
    bool is_own;      /* of a user's own toolchain */
    uid_t owner;      /* that user */
    struct demand demand;
    unsigned failures; /* in a row */
    uint64_t retry_at_ms;
};

struct pool_means {
    uint32_t nodes_max;
    uint64_t memory_total_bytes, memory_available_bytes; /* 0: not known */
};

struct pool_node {
    size_t shelf;
    uint64_t born_ms;
    bool is_ready, is_ending;
};

struct pool_view {
    const struct shelf *shelves;
    size_t shelf_count;
    const struct pool_node *nodes;
    size_t node_count;
    struct pool_means means;
    struct pause pause;
};

enum pool_act { POOL_WAIT, POOL_BOOT, POOL_END };

struct pool_step {
    enum pool_act act;
    size_t index;     /* of the shelf to boot for, or of the node to end */
    const char *why;  /* it is ended */
    uint64_t wait_ms; /* before the next look */
};

/* How many nodes may wait at once, with those that do. */
size_t pool_room(const struct pool_means *means, size_t kept);
/* How many should wait on each shelf. */
void pool_share(const struct pool_view *view, uint64_t now_ms, size_t ret_wanted[SHELVES_MAX]);
/* The next thing to do; it is asked again after each but POOL_WAIT. */
struct pool_step pool_decide(const struct pool_view *view, uint64_t now_ms);
void shelf_failed(struct shelf *shelf, uint64_t now_ms);
/* Whether a node that was booted for one is as good as one booted for the other: most limits can be changed later. */
bool profiles_boot_alike(const struct jail_profile *one, const struct jail_profile *other);
/* Whether the toolchain is a user's own, and that user has as many shelves as one may have. */
bool pool_user_has_all_shelves(const struct pool_view *view, const struct toolchain *toolchain);
/* The least demanded shelf that may go for one of this toolchain; SHELVES_MAX when all are needed. */
size_t pool_spare_shelf(const struct pool_view *view, const struct toolchain *toolchain, uint64_t now_ms);

/* ---- hand_over.c ---- */

/* Make a node that waited its taker's: limits, files, handler. Its `ready` follows, or `gone`. */
void node_hand_over(struct node *node, const struct node_spec *spec, const struct node_handler *handler, void *data);

#endif
