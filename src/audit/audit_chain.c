/* Records of the audit trail: numbering, hashing and checking single lines. Pure functions. */
#include <inttypes.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"

/* {"seq":12,"prev":"<hash>",…,"hash":"<hash>"}: the hash covers everything before its own name. */
#define SEQ_START "{\"seq\":"
#define PREV_START ",\"prev\":\""
#define HASH_START ",\"hash\":\""
#define LINE_END "\"}"

enum { HASH_DIGITS = AUDIT_HASH_BYTES - 1, TAIL_BYTES = sizeof HASH_START - 1 + HASH_DIGITS + sizeof LINE_END - 1 };
_Static_assert((int)TAIL_BYTES == (int)AUDIT_LINE_TAIL_BYTES, "others cut it off too");

void audit_chain_begin(struct audit_chain *chain) {
    *chain = (struct audit_chain){.seq = 0};
    memset(chain->hash, '0', HASH_DIGITS);
}

static void hash_text(const void *data, size_t size, char ret[AUDIT_HASH_BYTES]) {
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256(data, size, digest);
    hex_encode(digest, sizeof digest, ret);
}

int audit_chain_add(struct audit_chain *chain, const char *members, struct buf *line, struct error *reterr) {
    struct audit_chain next = {.seq = chain->seq + 1};
    size_t start = line->size;
    buf_reserve(line, strlen(members) + AUDIT_FRAME_BYTES);
    buf_printf(line, SEQ_START "%" PRIu64, next.seq);
    buf_append_string(line, PREV_START);
    buf_append(line, chain->hash, HASH_DIGITS);
    buf_append_string(line, "\",");
    buf_append_string(line, members);
    if (line->failed) return error_set(reterr, E_NO_MEMORY, "no memory for a record of the audit trail");
    hash_text(line->data + start, line->size - start, next.hash);
    buf_append_string(line, HASH_START);
    buf_append(line, next.hash, HASH_DIGITS);
    buf_append_string(line, LINE_END "\n");
    if (line->failed) return error_set(reterr, E_NO_MEMORY, "no memory for a record of the audit trail");
    if (line->size - start > AUDIT_LINE_MAX_BYTES)
        return error_set(reterr, E_TOO_LARGE, "a record of the audit trail is longer than %d bytes",
                         AUDIT_LINE_MAX_BYTES);
    *chain = next;
    return 0;
}

void audit_line_end(const char *line, struct audit_chain *ret) {
    size_t length = strlen(line);
    if (!string_starts(line, SEQ_START) || length < TAIL_BYTES) return;
    ret->seq = strtoull(line + strlen(SEQ_START), NULL, 10);
    memcpy(ret->hash, line + length - TAIL_BYTES + strlen(HASH_START), HASH_DIGITS);
    ret->hash[HASH_DIGITS] = '\0';
}

/* ---- reading ---- */

static bool take(const char **at, const char *end, const char *text) {
    size_t size = strlen(text);
    if ((size_t)(end - *at) < size || memcmp(*at, text, size) != 0) return false;
    *at += size;
    return true;
}

/* As it is printed: no sign, no leading zero. */
static bool take_number(const char **at, const char *end, uint64_t *ret) {
    char digits[24];
    size_t size = 0;
    while (*at < end && size < sizeof digits - 1 && **at >= '0' && **at <= '9') digits[size++] = *(*at)++;
    digits[size] = '\0';
    return digits[0] != '0' && parse_u64(digits, ret);
}

static bool take_hash(const char **at, const char *end, char ret[AUDIT_HASH_BYTES]) {
    if (end - *at < HASH_DIGITS) return false;
    memcpy(ret, *at, HASH_DIGITS);
    ret[HASH_DIGITS] = '\0';
    *at += HASH_DIGITS;
    return strspn(ret, "0123456789abcdef") == HASH_DIGITS;
}

int audit_line_read(const char *line, size_t size, struct audit_chain *ret, char ret_before[AUDIT_HASH_BYTES],
                    struct error *reterr) {
    struct audit_chain told = {0};
    char before[AUDIT_HASH_BYTES], hash[AUDIT_HASH_BYTES];
    const char *at = line, *end = line + size;
    bool is_record = size > TAIL_BYTES && take(&at, end, SEQ_START) && take_number(&at, end, &told.seq) &&
                     take(&at, end, PREV_START) && take_hash(&at, end, before) && at < end - TAIL_BYTES;
    const char *tail = end - TAIL_BYTES;
    is_record =
        is_record && take(&tail, end, HASH_START) && take_hash(&tail, end, told.hash) && take(&tail, end, LINE_END);
    if (!is_record) return error_set(reterr, E_FORMAT, "it is no record of the audit trail");
    hash_text(line, size - TAIL_BYTES, hash);
    if (strcmp(hash, told.hash) != 0)
        return error_set(reterr, E_FORMAT, "record %" PRIu64 " was changed: its hash is another", told.seq);
    *ret = told;
    memcpy(ret_before, before, sizeof before);
    return 0;
}
