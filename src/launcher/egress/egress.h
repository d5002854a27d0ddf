/* Egress, carried out by the launcher: one network namespace for all nodes, kept by a process of its own, with
   slirp4netns in it; an interface for every node that has been taken; rules that no node can change. */
#ifndef LAUNCHER_EGRESS_EGRESS_H
#define LAUNCHER_EGRESS_EGRESS_H

#include "jail/jail.h"
#include "launcher/egress/netlink.h"
#include "launcher/egress/rules.h"

struct launcher;
struct jailed_node;

enum { EGRESS_OWN_MAX = 512 };

/* Egress of nodes, once one has been made. */
struct egress {
    int keeper_fd;   /* the pidfd of the process it lives by; -1: there is none */
    int greeting_fd; /* where its first word comes from, while it is being made; else -1 */
    uint64_t greeting_due_ms;
    int home_fd;                      /* our own network namespace */
    int namespace_fd;                 /* the one that nodes go through */
    struct netlink route, rules, log; /* in there */
    struct netlink addresses;         /* at home: which are the host's own */
    struct jail_host own[EGRESS_OWN_MAX];
    size_t own_count;
    uint64_t remake_due_ms;   /* UINT64_MAX: no node needs it */
    uint64_t remake_delay_ms; /* until the next attempt, when one failed */
};

/* ---- egress.c ---- */

void egress_init(struct egress *egress);
/* Let go of it: it lives on. */
void egress_close(struct launcher *launcher);
/* End it, with all that goes through it. */
void egress_end(struct launcher *launcher);
/* Take over what an earlier launcher made, after its nodes. */
void egress_adopt(struct launcher *launcher);
/* As the plan's lines say. */
int egress_attach(struct launcher *launcher, struct jailed_node *node, const struct jail_plan *plan,
                  struct error *reterr);
void egress_release(struct launcher *launcher, struct jailed_node *node); /* also where it has none */
struct egress_place egress_place_of(const struct launcher *launcher, const struct jailed_node *node);
void egress_tell_refusals(struct launcher *launcher);
void egress_addresses_changed(struct launcher *launcher);
void egress_greeting_came(struct launcher *launcher);
void egress_keeper_ended(struct launcher *launcher);
uint64_t egress_check(struct launcher *launcher, uint64_t now_ms); /* what was lost; returns when to come again */

/* ---- change.c: what is changed of it while a node runs ---- */

/* The node has one already: E_CONFLICT unless it is what the plan's lines say. What its names stand for may have
   changed since, and is put in force. */
int egress_confirm(struct launcher *launcher, struct jailed_node *node, const struct jail_plan *plan,
                   struct error *reterr);
/* What its names stand for, from the plan's lines. */
int egress_set_resolved(struct launcher *launcher, struct jailed_node *node, const struct jail_plan *plan,
                        struct error *reterr);
/* Nothing where it has no egress, or where they are as before. */
int egress_set_bounds(struct launcher *launcher, struct jailed_node *node, const struct jail_limits *limits,
                      struct error *reterr);

/* ---- record.c: for a later launcher ---- */

int egress_record_write(const struct launcher *launcher, pid_t keeper, struct error *reterr);
pid_t egress_record_read(const struct launcher *launcher); /* 0: none, or it has ended */
void egress_record_remove(const struct launcher *launcher);
int egress_policy_write(const struct launcher *launcher, const struct jailed_node *node, struct error *reterr);
/* Into node->egress, which stays NULL where there is no policy. */
int egress_policy_read(const struct launcher *launcher, struct jailed_node *node, struct error *reterr);
void egress_policy_remove(const struct launcher *launcher, const char *node);

#endif
