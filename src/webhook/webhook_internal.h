/* Shared by the files of the webhook module. */
#ifndef WEBHOOK_WEBHOOK_INTERNAL_H
#define WEBHOOK_WEBHOOK_INTERNAL_H

#define CURL_DISABLE_TYPECHECK /* its macros would be expanded in the table's members */
#include <curl/curl.h>

#include "webhook/webhook.h"

/* ---- policy.c: pure ---- */

enum webhook_verdict { WEBHOOK_ARRIVED, WEBHOOK_TRY_AGAIN, WEBHOOK_UNWANTED };

/* The outcome of one try. status is HTTP's; 0 without an answer. */
enum webhook_verdict webhook_judge(long status);
/* The pause after this many failures in a row; asked_ms is the receiver's own wish, or 0. */
uint64_t webhook_pause_ms(const struct webhook_retry *retry, uint32_t failures, uint64_t asked_ms);

/* ---- sign.c ---- */

enum { WEBHOOK_SIGNATURE_BYTES = sizeof "sha256=" + 64 };

/* HMAC-SHA256 of "timestamp.body", so that a recorded delivery can't be replayed later. */
void webhook_sign(const char *secret, int64_t timestamp_s, const char *body, size_t size,
                  char ret[WEBHOOK_SIGNATURE_BYTES]);

/* ---- curl_library.c ---- */

#define CURL_FUNCTION_LIST(X)                                                                                          \
    X(curl_global_init)                                                                                                \
    X(curl_easy_init)                                                                                                  \
    X(curl_easy_setopt)                                                                                                \
    X(curl_easy_getinfo)                                                                                               \
    X(curl_easy_strerror)                                                                                              \
    X(curl_easy_cleanup)                                                                                               \
    X(curl_slist_append)                                                                                               \
    X(curl_slist_free_all)                                                                                             \
    X(curl_multi_init)                                                                                                 \
    X(curl_multi_add_handle)                                                                                           \
    X(curl_multi_remove_handle)                                                                                        \
    X(curl_multi_perform)                                                                                              \
    X(curl_multi_poll)                                                                                                 \
    X(curl_multi_wakeup)                                                                                               \
    X(curl_multi_info_read)                                                                                            \
    X(curl_multi_cleanup)

struct curl_library {
#define X(name) __typeof__(&name) name;
    CURL_FUNCTION_LIST(X)
#undef X
};

/* Loads the library on first use and never unloads it. Without a webhook the daemon saves 7 ms and its memory. */
int curl_library_load(struct curl_library *ret, struct error *reterr);

/* ---- attempt.c: one POST ---- */

struct webhook_delivery {
    const char *kind, *body;
    uint64_t id;
    size_t size;
    uint64_t lost_before; /* lost deliveries as far as known */
};

struct webhook_outcome {
    long status; /* HTTP's; 0: no answer */
    uint64_t asked_ms;
    char reason[WEBHOOK_REASON_BYTES];
};

struct webhook_sender {
    struct curl_library curl;
    CURLM *multi;
    char url[WEBHOOK_URL_MAX_BYTES];
    char secret[256];
    uint64_t timeout_ms;
    bool (*is_over)(void *data); /* asked after every wake-up; true cancels the try */
    void *data;
};

/* Blocks for at most timeout_ms. */
void webhook_attempt(struct webhook_sender *sender, const struct webhook_delivery *delivery,
                     struct webhook_outcome *ret);

#endif
