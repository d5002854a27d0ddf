/* What the store's tests share: a home of their own, a loop with a deadline, and a count of answers. */
#ifndef STORE_FIXTURE_H
#define STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <uv.h>

#include "store/store.h"

struct fixture {
    uv_loop_t loop;
    char home[64];
    char *database;
    struct store *store;
    /* Filled by the callbacks below. */
    unsigned answers, failures;
    struct error last_error;
    char digest[STORE_DIGEST_BYTES];
    bool closed;
};

int fixture_setup(void **state);    /* a home, a loop, an open store */
int fixture_teardown(void **state); /* closes the store if it is open; the loop must close clean */

void fixture_open(struct fixture *fixture);
void fixture_close(struct fixture *fixture); /* runs the loop until the store is closed */
int fixture_try_open(struct fixture *fixture, struct error *reterr);
void fixture_run_until(struct fixture *fixture, const unsigned *counter, unsigned value); /* fails after a deadline */
void fixture_execute_sql(struct fixture *fixture, const char *text);

void fixture_on_done(void *data, const struct error *error); /* data: the fixture */
void fixture_on_build(void *data, const char *digest, const struct error *error);
void fixture_remove_tree(const char *path);

#endif
