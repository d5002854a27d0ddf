/* An api over a stand-in engine, and clients that speak bytes. Everything runs on the test's own thread. */
#ifndef API_FIXTURE_H
#define API_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "stand_in_engine.h"

struct fixture {
    uv_loop_t loop;
    struct engine engine;
    struct api_config config;
    struct api *api;
    char folder[32];
    char path[64];
    bool closed;
};

struct client {
    struct fixture *fixture;
    int fd;
    struct buf in;
    bool eof;
};

struct response {
    int status;
    char header[2048];
    struct buf body;
    json_t *json; /* the body, when it is one document */
};

int fixture_setup(void **state);
int fixture_setup_small(void **state); /* few connections, short bodies, short times */
int fixture_setup_with(void **state, struct quotas *quotas, const struct log *log);
int fixture_teardown(void **state);
void fixture_begin_closing_api(struct fixture *fixture);
void fixture_end_closing_api(struct fixture *fixture);
void fixture_close_api(struct fixture *fixture); /* both */

/* Run the loop until the condition holds; fails the test after a deadline. */
void fixture_wait(struct fixture *fixture, bool (*condition)(void *data), void *data);
void fixture_turn(struct fixture *fixture, int fd); /* one turn, woken by fd too */

void client_open(struct fixture *fixture, struct client *ret);
void client_close(struct client *client);
void client_send(struct client *client, const char *format, ...) __attribute__((format(printf, 2, 3)));
void client_send_bytes(struct client *client, const void *data, size_t size);
void client_read(struct client *client, size_t at_least);       /* until so many bytes are in, or the end */
bool client_wait_text(struct client *client, const char *text); /* false: the connection ended without it */
void client_wait_eof(struct client *client);
void client_response(struct client *client, struct response *ret);
void response_free(struct response *response);

/* A whole exchange: method and target, an optional body. */
void client_ask(struct client *client, const char *method, const char *target, const char *headers, const char *body,
                struct response *ret);
const char *response_text(const struct response *response, const char *member);
void assert_problem(const struct response *response, int status, const char *code);

#endif
