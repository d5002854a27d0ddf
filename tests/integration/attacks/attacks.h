/* Attacks as data: what hostile code tries, what must come of it, and what must be seen of it. The tests and the table
   in docs/attacks.md are made from the same rows. */
#ifndef INTEGRATION_ATTACKS_H
#define INTEGRATION_ATTACKS_H

#include "support.h"

/* Where an attack applies: in sandboxes, and while compiling, as a macro of an Elixir project and in an Erlang parse
   transform. */
enum {
    HIGH = 1,
    MEDIUM = 2,
    LOW = 4,
    PROFILES = 3,
    EVERY = HIGH | MEDIUM | LOW,
    MACRO = 8,
    TRANSFORM = 16,
    COMPILER = MACRO | TRANSFORM,
    AT_LENGTH = 32, /* as COMPILER, by `make stress` only: what ends a compiler costs half a second of CPU */
};

enum fate {
    LIVES, /* the sandbox goes on and answers */
    DIES,  /* the sandbox ends, alone */
};

struct scene;

struct attack {
    const char *name;
    const char *tries; /* for people */
    unsigned where;
    const char *wall;    /* what contains it */
    const char *code;    /* Erlang, evaluated inside; {NAME} stands for what the scene calls so */
    const char *answers; /* what the evaluation's text begins with; alternatives are separated by '|'; NULL: anything */
    enum fate fate;
    bool is_long;           /* tried by `make test-long` alone: another row tries the same wall */
    bool fills;             /* memory until there is none, which takes less time where there is less */
    bool spends;            /* it lives, but has used up what later attacks need that don't end it */
    const char *lives;      /* still_here by the sandbox that lives, in place of the plain word */
    const char *seen_kind;  /* the event that must tell of it; NULL: nothing can */
    const char *seen_value; /* how its `what`, `limit` or `to` begins */
    const char *cause;      /* in last_error's detail, of one that dies */
    /* Instead of code, for what takes more than an expression: NULL, or what went wrong, to be freed. */
    char *(*run)(struct scene *scene);
};

struct attack_table {
    const char *title;
    const struct attack *rows;
    size_t count;
};

#define ATTACK_TABLE(title, rows)                                                                                      \
    { title, rows, ARRAY_SIZE(rows) }

extern const struct attack_table attacks_on_files, attacks_on_processes, attacks_on_network, attacks_on_resources,
    attacks_on_agent, attacks_on_channel, attacks_on_kernel, attacks_on_service;

/* ---- scene.c: where attacks happen, and who must not notice ---- */

/* What an attack has left of a sandbox. */
enum sandbox_state { FRESH, SPENT, ENDED };

struct scene {
    struct world *world;
    int tcp_listener, unix_listener; /* the host's own, which no sandbox may reach */
    int tcp_port;
    char abstract_name[32];
    char address[32]; /* of the host, as a tuple */
    pid_t daemon, launcher, neighbour;
    enum sandbox_state sandboxes[PROFILES];
};

extern const char *const profile_names[PROFILES];

/* A service with these settings and a neighbour on it; and an attacking sandbox of each profile in `where`, those in
   `small` with less memory, which is sooner used up. Their profiles are those given, or, if NULL, those of their names.
 */
struct scene *scene_open(const char *settings, unsigned where, unsigned small, const char *const *profiles);
void scene_close(struct scene *scene);
/* The same service, the same neighbour with the same state, and no connection to the host's listeners. */
void scene_check(struct scene *scene);
/* Code with its {NAME}s replaced; to be freed. */
char *scene_expand(const struct scene *scene, const char *code);
/* A folder with the attacking project below the world's files; the path is the world's. */
const char *scene_project(struct scene *scene, const char *name);
/* The same with what attacks its own VM only, which is all that is needed by what never gets beyond that. */
const char *scene_weapon(struct scene *scene, const char *name);

/* ---- trial.c: one attack on one sandbox; safe from any thread, so it reports instead of failing the test ---- */

struct trial {
    struct scene *scene;
    const struct attack *attack;
    const char *id;
    uint64_t since; /* events before are not of this attack */
    bool restart;   /* the sandbox first */
    char *failure;  /* NULL: as it should be; to be freed */
};

void trial_run(struct trial *trial);
bool answer_fits(const char *answer, const char *alternatives);
/* Fails the test with these lines, if there are any, and frees them. */
void fail_with(struct buf *failures);
/* Whether the event that the attack must cause has come; NULL, or what is missing, to be freed. */
char *trial_check_seen(const struct trial *trial);

/* ---- compile_time.c ---- */

/* Every row that applies to compilers, by way of macros and parse transforms. */
void attack_compilers(struct scene *scene, const struct attack_table *const *tables, size_t count);

/* ---- markdown.c ---- */

void print_attacks(FILE *file, const struct attack_table *const *tables, size_t count);

#endif
