/* One delivery attempt: an HTTP POST with libcurl, bounded in time and in the size of the answer. */
#include <stdio.h>
#include <string.h>

#include "webhook/webhook_internal.h"

enum {
    ANSWER_MAX_BYTES = 64 << 10, /* read of the receiver's answer, which is ignored */
    POLL_MAX_MS = 1000,
};

static size_t forget_answer(char *bytes, size_t size, size_t count, void *data) {
    size_t *read = data;
    (void)bytes;
    *read += size * count;
    return *read <= ANSWER_MAX_BYTES ? size * count : 0;
}

static void add_header(const struct curl_library *curl, struct curl_slist **headers, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Without memory a header is missing. The receiver notices by the signature. */
static void add_header(const struct curl_library *curl, struct curl_slist **headers, const char *format, ...) {
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    struct curl_slist *longer = curl->curl_slist_append(*headers, line);
    if (longer) *headers = longer;
}

static struct curl_slist *headers_of(const struct webhook_sender *sender, const struct webhook_delivery *delivery) {
    struct curl_slist *headers = NULL;
    int64_t now_s = clock_wall_ms() / 1000;
    char signature[WEBHOOK_SIGNATURE_BYTES];
    add_header(&sender->curl, &headers, "Content-Type: application/json");
    add_header(&sender->curl, &headers, "Expect:");
    add_header(&sender->curl, &headers, "X-Sandbox-Event: %s", delivery->kind);
    add_header(&sender->curl, &headers, "X-Sandbox-Delivery: %llu", (unsigned long long)delivery->id);
    add_header(&sender->curl, &headers, "X-Sandbox-Lost: %llu", (unsigned long long)delivery->lost_before);
    add_header(&sender->curl, &headers, "X-Sandbox-Timestamp: %lld", (long long)now_s);
    if (!sender->secret[0]) return headers;
    webhook_sign(sender->secret, now_s, delivery->body, delivery->size, signature);
    add_header(&sender->curl, &headers, "X-Sandbox-Signature: %s", signature);
    return headers;
}

/* Only the operator's URL: no redirects, no other protocols. */
static void prepare(const struct webhook_sender *sender, CURL *easy, const struct webhook_delivery *delivery,
                    struct curl_slist *headers, size_t *read) {
    const struct curl_library *curl = &sender->curl;
    curl->curl_easy_setopt(easy, CURLOPT_URL, sender->url);
    curl->curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl->curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl->curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl->curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl->curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)sender->timeout_ms);
    curl->curl_easy_setopt(easy, CURLOPT_USERAGENT, "sandbox/" SANDBOX_VERSION);
    curl->curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl->curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)delivery->size);
    curl->curl_easy_setopt(easy, CURLOPT_POSTFIELDS, delivery->body);
    curl->curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, forget_answer);
    curl->curl_easy_setopt(easy, CURLOPT_WRITEDATA, read);
}

/* Runs the transfer to its end; CURLE_ABORTED_BY_CALLBACK when it is cancelled. */
static CURLcode carry_out(const struct webhook_sender *sender) {
    const struct curl_library *curl = &sender->curl;
    int running = 1, left;
    while (curl->curl_multi_perform(sender->multi, &running) == CURLM_OK && running > 0) {
        if (sender->is_over(sender->data)) return CURLE_ABORTED_BY_CALLBACK;
        curl->curl_multi_poll(sender->multi, NULL, 0, POLL_MAX_MS, NULL);
    }
    const CURLMsg *message = curl->curl_multi_info_read(sender->multi, &left);
    return message ? message->data.result : CURLE_ABORTED_BY_CALLBACK;
}

static void take_outcome(const struct curl_library *curl, CURL *easy, CURLcode code, struct webhook_outcome *ret) {
    curl_off_t asked_s = 0;
    long status = 0;
    bool has_answer = code == CURLE_OK || code == CURLE_WRITE_ERROR; /* an answer that is too long is an answer too */
    if (has_answer) curl->curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    if (has_answer) curl->curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &asked_s);
    *ret = (struct webhook_outcome){.status = status, .asked_ms = asked_s > 0 ? (uint64_t)asked_s * 1000 : 0};
    if (has_answer)
        snprintf(ret->reason, sizeof ret->reason, "the receiver answered %ld", status);
    else
        snprintf(ret->reason, sizeof ret->reason, "%.100s", curl->curl_easy_strerror(code));
}

void webhook_attempt(struct webhook_sender *sender, const struct webhook_delivery *delivery,
                     struct webhook_outcome *ret) {
    const struct curl_library *curl = &sender->curl;
    CURL *easy = curl->curl_easy_init();
    size_t read = 0;
    *ret = (struct webhook_outcome){.reason = "no memory"};
    if (!easy) return;
    struct curl_slist *headers = headers_of(sender, delivery);
    prepare(sender, easy, delivery, headers, &read);
    if (curl->curl_multi_add_handle(sender->multi, easy) == CURLM_OK) {
        take_outcome(curl, easy, carry_out(sender), ret);
        curl->curl_multi_remove_handle(sender->multi, easy);
    }
    curl->curl_easy_cleanup(easy);
    curl->curl_slist_free_all(headers);
}
