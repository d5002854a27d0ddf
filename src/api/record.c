#include "api/api_internal.h"

#include <stdio.h>

/* Reads and evaluations are many and seldom matter (the audit trail has those that do); what changes something else,
   and what fails on our side, is worth a line. */
static enum log_level level_of(const struct record *record) {
    if (record->status >= 500) return LOG_WARN_LEVEL;
    bool changes = record->op && record->op->audit >= OP_AUDIT_WRITE && !string_equal(record->op->name, "eval");
    return changes ? LOG_INFO_LEVEL : LOG_DEBUG_LEVEL;
}

void record_passed_descriptor(const struct api *api, uid_t uid) {
    char text[16];
    snprintf(text, sizeof text, "%u", uid);
    if (api->config.log) log_line(api->config.log, LOG_WARN_LEVEL, "descriptor_passed", "uid", text, NULL);
}

void record_write(const struct api *api, const struct record *record) {
    const struct log *log = api->config.log;
    enum log_level level = level_of(record);
    if (!log || record->status == 0 || level < log->level) return;
    char status[16], uid[16], duration[32];
    snprintf(status, sizeof status, "%u", record->status);
    snprintf(uid, sizeof uid, "%u", record->uid);
    snprintf(duration, sizeof duration, "%llu", (unsigned long long)(uv_now(api->loop) - record->begun_ms));
    log_line(log, level, "request", "op", record->op ? record->op->name : "", "sandbox_id", record->sandbox_id,
             "status", status, "uid", uid, "duration_ms", duration, "request_id", record->request_id, NULL);
}
