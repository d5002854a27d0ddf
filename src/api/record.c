/* The log line of each finished request. A user's lines are charged to its quota `log`, and a count stands for those
   that were left out. */
#include "api/api_internal.h"

#include <stdio.h>
#include <string.h>

/* Reads and evaluations are many and seldom matter (the audit trail has those that do); what changes something else,
   and what fails on our side, is worth a line. */
static enum log_level level_of(const struct record *record) {
    if (record->status >= 500) return LOG_WARN_LEVEL;
    bool changes = record->op && record->op->audit >= AUDIT_WRITES && !string_equal(record->op->name, "eval");
    return changes ? LOG_INFO_LEVEL : LOG_DEBUG_LEVEL;
}

enum { LINE_BYTES = 256, ESCAPE_BYTES = 4, VALUE_MAX_BYTES = 2048 };

/* About what a line takes: the caller chose one of its values. */
static uint64_t size_of(const struct record *record) {
    size_t length = record->sandbox_id ? strnlen(record->sandbox_id, VALUE_MAX_BYTES) : 0;
    return LINE_BYTES + ESCAPE_BYTES * (uint64_t)length;
}

/* The line that stands for those that were left out is charged too. */
static bool may_write(const struct api *api, uid_t uid, const char *uid_text, uint64_t size) {
    struct quotas *quotas = api->config.quotas;
    if (quotas_spend(quotas, uid, QUOTA_LOG, size, false, NULL) < 0) {
        quotas_leave_out(quotas, uid);
        return false;
    }
    uint64_t count = quotas_take_left_out(quotas, uid);
    if (count == 0) return true;
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)count);
    quotas_charge(quotas, uid, QUOTA_LOG, LINE_BYTES);
    log_line(api->config.log, LOG_WARN_LEVEL, "left_out", "uid", uid_text, "count", text, "why",
             "quota \"log\" was used up", NULL);
    return true;
}

void record_passed_descriptor(const struct api *api, uid_t uid) {
    char text[16];
    snprintf(text, sizeof text, "%u", uid);
    if (api->config.log && may_write(api, uid, text, LINE_BYTES))
        log_line(api->config.log, LOG_WARN_LEVEL, "descriptor_passed", "uid", text, NULL);
}

void record_write(const struct api *api, const struct record *record) {
    const struct log *log = api->config.log;
    enum log_level level = level_of(record);
    if (!log || record->status == 0 || level < log->level) return;
    char status[16], uid[16], duration[32];
    snprintf(status, sizeof status, "%u", record->status);
    snprintf(uid, sizeof uid, "%u", record->uid);
    if (!may_write(api, record->uid, uid, size_of(record))) return;
    snprintf(duration, sizeof duration, "%llu", (unsigned long long)(uv_now(api->loop) - record->begun_ms));
    log_line(log, level, "request", "op", record->op ? record->op->name : "", "sandbox_id", record->sandbox_id,
             "status", status, "uid", uid, "duration_ms", duration, "request_id", record->request_id, NULL);
}
