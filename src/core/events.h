/* Every kind of event there is: name, slug, what it tells, members of its data. */
#ifndef CORE_EVENTS_H
#define CORE_EVENTS_H

#define EVENT_KIND_LIST(X)                                                                                             \
    X(STATUS, "status", "a sandbox went from one status to another", "from, to, reason")                               \
    X(CREATED, "created", "a create is done: the sandbox runs and is in the registry", "source, profile")              \
    X(CREATE_FAILED, "create_failed", "a create failed and left nothing", "the problem")                               \
    X(RESTARTED, "restarted", "a sandbox was started again, on request or by policy",                                  \
      "restart_count, kept, lost_count")                                                                               \
    X(RELOADED, "reloaded", "a sandbox's code was changed while it ran",                                               \
      "modules (the first hundred), module_count, pause_us, duration_us, warnings (the first twenty)")                 \
    X(ROLLED_BACK, "rolled_back",                                                                                      \
      "changed code failed on probation, or tried what is refused, and the code from before runs again",               \
      "the problem")                                                                                                   \
    X(WATCH, "watch", "whether changes of a sandbox's source are seen", "state, detail")                               \
    X(WATCH_RELOADED, "watch_reloaded", "what was saved runs, or makes no difference",                                 \
      "status, files, file_count, compiled, compiled_count, modules, module_count, removed_count, processes, "         \
      "pause_us, since_save_us, duration_us, compilation_time_ms, warnings, reload_warnings")                          \
    X(WATCH_FAILED, "watch_failed", "what was saved could not be compiled or loaded; what ran before runs",            \
      "the problem, files, file_count, errors, warnings")                                                              \
    X(DESTROYED, "destroyed", "a sandbox is gone with all it had", "")                                                 \
    X(EXPIRED, "expired", "a sandbox's time to live, or its run's time, is over", "")                                  \
    X(VIOLATION, "violation",                                                                                          \
      "a node tried what is refused: a system call, a connection, a forged hello, a broken frame, a missed heartbeat", \
      "what, detail, node, suppressed")                                                                                \
    X(CONTAINED, "contained", "what a sandbox tried had a consequence, as its profile says", "action, what, step")     \
    X(FROZEN, "frozen", "a sandbox was stopped whole; nothing in it runs", "reason")                                   \
    X(THAWED, "thawed", "a frozen sandbox goes on", "reason")                                                          \
    X(LIMIT, "limit", "a limit was reached", "limit, usage, policy, killed, suppressed")                               \
    X(LIMITS_CHANGED, "limits_changed", "a sandbox's limits were changed while it ran", "set")                         \
    X(PORT_OPENED, "port_opened", "a sandbox has published a port, or may connect to a service",                       \
      "way, port, protocol")                                                                                           \
    X(PORT_CLOSED, "port_closed", "that is over, with what went through it",                                           \
      "way, port, protocol, connections, in_bytes, out_bytes, refused")                                                \
    X(ALERT, "alert", "a sandbox came near to a limit, at 80 % and 95 % of it, or left it again",                      \
      "metric, level, usage, limit, percent, reached_in_ms, suppressed")                                               \
    X(PATTERN, "pattern", "failures of one kind repeat, or have stopped to: state is open or over",                    \
      "state, code, op, count, since_ms, rest_ms, category, recovery, advice, detail")                                 \
    X(WEBHOOK, "webhook", "deliveries to the webhook fail, are lost, or arrive again", "state, reason, tries, lost")   \
    X(AUDIT_DAMAGED, "audit_damaged", "the audit trail is not what the last daemon left: verify it", "detail")         \
    X(SERVICE_STARTED, "service_started", "the daemon started", "version")                                             \
    X(SERVICE_READY, "service_ready", "the daemon found its sandboxes again and takes requests", "sandboxes")          \
    X(SETTINGS_READ, "settings_read", "sandbox.conf was read again", "changed, at_start")                              \
    X(SERVICE_ENDED, "service_ended", "the daemon ended in good order", "")                                            \
    X(LAUNCHER_LOST, "launcher_lost", "the launcher ended; what runs runs on", "")                                     \
    X(LAUNCHER_BACK, "launcher_back", "a new launcher has adopted what runs", "")

enum event_kind {
#define X(name, slug, meaning, data) EVENT_##name,
    EVENT_KIND_LIST(X)
#undef X
        EVENT_KINDS
};

#endif
