/* The siege: a neighbour is asked by turns while nothing else happens and while a stranger attacks the service. A row
   of the table is one attack, on a service of its own. */
#ifndef TOOLS_BENCH_SIEGE_H
#define TOOLS_BENCH_SIEGE_H

#include <jansson.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"
#include "bench.h"
#include "sandbox.h"

enum {
    UID_NOBODY = 65534,
    UID_VICTIM = 61230,  /* owns sandboxes, attacks nothing */
    UID_TENANT = 61232,  /* attacks by means of a sandbox of its own */
    UID_UNUSED = 61234,  /* nothing else runs as this user: all its processes may be stopped */
    PATIENCE_MS = 60000, /* of every client: a stalled service is measured, not given up */
};

#define NEIGHBOUR "neighbour"
#define ATTACKER "attacker"

/* ---- arena.c: the service, and who must not notice ---- */

struct arena {
    char home[PATH_MAX], counter[PATH_MAX], inside[PATH_MAX]; /* the projects of victims, and of the attacker inside */
    char work[PATH_MAX];
    struct sbx *service;
    pid_t daemon;
};

void arena_find(struct arena *arena, const char *work);
void arena_open(struct arena *arena); /* the service runs, and the victims with their counts */
void arena_close(struct arena *arena);
/* `ended`: how many of how many victims are not what they were, and the reason of the first. */
json_t *arena_verdict(struct arena *arena);
struct sbx *arena_client(const char *home); /* never starts a service; NULL when there is none */
/* A function in a child with this uid and no other rights, which is killed with us; its pid. */
pid_t arena_fork_as(uid_t uid, int (*run)(void *data), void *data);

/* ---- neighbour.c ---- */

struct assault;

/* One window of asking: percentiles of info and eval, times of new clients and of a create, failures. Under an assault
   (NULL: none) it lasts until that has struck, too: the largest take longer to prepare than a window. */
json_t *neighbour_watch(struct arena *arena, uint64_t length_ms, const struct assault *assault);
void neighbour_settle(struct arena *arena); /* asked for a while without counting */
bool neighbour_lives(struct arena *arena);

/* ---- crew.c: attackers outside ---- */

struct siege_attack;

/* In memory that the attackers share with the benchmark. */
struct stage {
    atomic_bool is_on, is_over;
    atomic_uint busy;    /* attackers within a volley */
    atomic_uint strikes; /* volleys whose whole weight has fallen on the service */
    atomic_uint volleys, refused;
};

struct crew {
    const struct arena *arena;
    const struct siege_attack *attack;
    struct stage *stage;
    struct buf body;     /* of requests, made once */
    struct sbx *service; /* of those who use the library */
};

/* All return false, or -1, once the service refuses or is silent for too long. */
int crew_dial(const struct crew *crew);
bool crew_send(int fd, const void *data, size_t size);
bool crew_request(int fd, const char *method, const char *path, const struct buf *body, size_t keep_back);
bool crew_await_answer(int fd);

/* ---- attacks.c ---- */

/* Either a volley, repeated as another user while the window lasts, or Erlang code inside a `medium` sandbox, which
   goes on for as long as its last argument says. */
struct siege_attack {
    const char *family; /* by which it is chosen */
    const char *tries;  /* for people */
    uid_t uid;          /* 0: from inside */
    void (*volley)(struct crew *crew);
    bool (*prepare)(struct crew *crew); /* NULL: nothing */
    unsigned count;                     /* connections, processes */
    const char *text;                   /* what the code attacks with, the kind of body, an expression */
};

const struct siege_attack *siege_attacks(size_t *ret_count);

/* Runs by turns; takes part in no measuring. */
struct assault *assault_open(struct arena *arena, const struct siege_attack *attack);
void assault_begin(struct assault *assault, uint64_t length_ms);
/* Whether its full weight has been felt since it began; true for NULL. */
bool assault_has_struck(const struct assault *assault);
void assault_end(struct assault *assault);      /* and wait until it rests */
json_t *assault_close(struct assault *assault); /* what it did */

/* ---- bodies.c, results.c, connections.c, work.c: volleys ---- */

bool bodies_prepare(struct crew *crew);
void bodies_volley(struct crew *crew);
bool results_prepare(struct crew *crew);
void results_volley(struct crew *crew);
void queries_volley(struct crew *crew);
void followers_volley(struct crew *crew);
void descriptors_volley(struct crew *crew);
bool openers_prepare(struct crew *crew);
void openers_volley(struct crew *crew);
void compilations_volley(struct crew *crew);
void failures_volley(struct crew *crew);

#endif
