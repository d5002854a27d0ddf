/* A tiny HTTP server on loopback, as a webhook's receiver: what it answers is a script, what it got is kept. */
#ifndef TEST_RECEIVER_H
#define TEST_RECEIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RECEIVER_REQUESTS_MAX = 64, RECEIVER_SILENT = -1, RECEIVER_ENDLESS = -2 };

struct receiver;

/* The answers of the first requests, closed by 0, are statuses, or RECEIVER_SILENT: none ever, or RECEIVER_ENDLESS: an
   answer byte by byte without end; all further ones are 200. The port is taken, but not listened at yet. */
struct receiver *receiver_open(const int *script);
void receiver_listen(struct receiver *receiver);
void receiver_close(struct receiver *receiver);
void receiver_url(const struct receiver *receiver, char *ret, size_t size);

/* The request of that number, from 0, head and body together, waiting for it. NULL: it did not come. */
const char *receiver_wait(struct receiver *receiver, size_t number, uint64_t timeout_ms);
size_t receiver_count(struct receiver *receiver);
/* A header's value, to be freed; NULL: there is none. */
char *receiver_header(const char *request, const char *name);
const char *receiver_body(const char *request);

#endif
