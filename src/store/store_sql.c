/* The registry's SQLite database: schema and migrations, prepared statements, and reading at start. */
#include "store/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Marks the file as ours ("sbox"), so that another program's database is not taken for an empty registry. */
#define APPLICATION_ID 0x73626f78

enum { BUSY_TIMEOUT_MS = 5000, EVENTS_PER_TRIM = 500 };

/* Entry N migrates schema N to N + 1; PRAGMA user_version counts them. Never change an entry, only add. */
static const char *const migrations[] = {
    "CREATE TABLE sandboxes ("
    "  id TEXT PRIMARY KEY, status TEXT NOT NULL, source TEXT, profile TEXT, owner_uid INTEGER NOT NULL,"
    "  created_at_ms INTEGER NOT NULL, updated_at_ms INTEGER NOT NULL, restart_count INTEGER NOT NULL,"
    "  node TEXT, secret TEXT, build TEXT, config TEXT, last_error TEXT) STRICT, WITHOUT ROWID;"
    "CREATE TABLE events (seq INTEGER PRIMARY KEY, event TEXT NOT NULL) STRICT;",
    "CREATE TABLE histories (sandbox TEXT, module TEXT, history TEXT NOT NULL, PRIMARY KEY (sandbox, module))"
    "  STRICT, WITHOUT ROWID;",
    "CREATE TABLE usage (sandbox TEXT, at_ms INTEGER, usage TEXT NOT NULL, PRIMARY KEY (sandbox, at_ms))"
    "  STRICT, WITHOUT ROWID;",
};

/* Removes data of sandboxes that no longer exist: the next sandbox with the id may belong to another user. */
static const char forget_orphans[] = "DELETE FROM histories WHERE sandbox NOT IN (SELECT id FROM sandboxes);"
                                     "DELETE FROM usage WHERE sandbox NOT IN (SELECT id FROM sandboxes);";

enum statement {
    BEGIN,
    COMMIT,
    ROLLBACK,
    PUT_SANDBOX,
    DELETE_SANDBOX,
    ADD_EVENT,
    TRIM_EVENTS,
    PUT_HISTORY,
    DELETE_HISTORIES,
    ADD_USAGE,
    TRIM_USAGE,
    STATEMENTS
};

#define SANDBOX_COLUMNS                                                                                                \
    "id, status, source, profile, owner_uid, created_at_ms, updated_at_ms, restart_count, node, secret, build, "       \
    "config, last_error"

static const char *const statement_text[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    /* One text, as meant. NOLINTNEXTLINE(bugprone-suspicious-missing-comma) */
    [PUT_SANDBOX] = "INSERT OR REPLACE INTO sandboxes (" SANDBOX_COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [DELETE_SANDBOX] = "DELETE FROM sandboxes WHERE id = ?",
    [PUT_HISTORY] = "INSERT OR REPLACE INTO histories (sandbox, module, history) VALUES (?, ?, ?)",
    [DELETE_HISTORIES] = "DELETE FROM histories WHERE sandbox = ?",
    [ADD_USAGE] = "INSERT OR REPLACE INTO usage (sandbox, at_ms, usage) VALUES (?, ?, ?)",
    [TRIM_USAGE] = "DELETE FROM usage WHERE sandbox = ? AND at_ms <= ?",
    [ADD_EVENT] = "INSERT OR REPLACE INTO events (seq, event) VALUES (?, ?)",
    [TRIM_EVENTS] = "DELETE FROM events WHERE seq <= (SELECT seq FROM events ORDER BY seq DESC LIMIT 1 OFFSET ?)",
};

struct store_sql {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    bool durable;               /* the present value of PRAGMA synchronous */
    unsigned events_since_trim; /* trimming reads the newest EVENTS_KEPT, so it is not done for every event */
};

static int fail(sqlite3 *db, const char *what, struct error *reterr) {
    int code = sqlite3_errcode(db) & 0xff;
    int system_errno = sqlite3_system_errno(db);
    bool no_space = system_errno == ENOSPC || system_errno == EDQUOT;
    if (code == SQLITE_FULL || (code == SQLITE_IOERR && no_space) || (code == SQLITE_CANTOPEN && no_space))
        return error_set(reterr, E_DISK_FULL, "%s: there is no room left for the registry", what);
    if (code == SQLITE_NOMEM) return error_set(reterr, E_NO_MEMORY, "%s: out of memory", what);
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        return error_set(reterr, E_SYSTEM, "%s: the registry is damaged (%s)", what, sqlite3_errmsg(db));
    return error_set(reterr, E_SYSTEM, "%s: %s", what, sqlite3_errmsg(db));
}

static int execute(sqlite3 *db, const char *text, const char *what, struct error *reterr) {
    return sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(db, what, reterr);
}

static int read_integer(sqlite3 *db, const char *text, int64_t *ret, struct error *reterr) {
    sqlite3_stmt *statement = NULL;
    int result = 0;
    if (sqlite3_prepare_v2(db, text, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW)
        result = fail(db, text, reterr);
    else
        *ret = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return result;
}

/* A damaged registry is refused at the start rather than misread later. It has a few megabytes at most. */
static int check_integrity(sqlite3 *db, struct error *reterr) {
    sqlite3_stmt *statement = NULL;
    int result = 0;
    if (sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        result = fail(db, "checking the registry", reterr);
    else if (!string_equal((const char *)sqlite3_column_text(statement, 0), "ok"))
        result = error_set(reterr, E_SYSTEM, "the registry is damaged (%s)", sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return result;
}

static int apply_migration(sqlite3 *db, size_t version, struct error *reterr) {
    CLEANUP_FREE char *text = string_print("BEGIN EXCLUSIVE; %s PRAGMA user_version = %zu; PRAGMA application_id = %d; "
                                           "COMMIT",
                                           migrations[version], version + 1, APPLICATION_ID);
    if (!text) return error_set(reterr, E_NO_MEMORY, "bringing the registry up to date: out of memory");
    int result = execute(db, text, "bringing the registry up to date", reterr);
    if (result < 0 && !sqlite3_get_autocommit(db)) sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return result;
}

static int migrate(sqlite3 *db, struct error *reterr) {
    int64_t version = 0, application = 0, tables = 0;
    int result = read_integer(db, "PRAGMA user_version", &version, reterr);
    if (result == 0) result = read_integer(db, "PRAGMA application_id", &application, reterr);
    if (result == 0) result = read_integer(db, "SELECT count(*) FROM sqlite_master", &tables, reterr);
    if (result < 0) return result;
    if (application != APPLICATION_ID && (application != 0 || version != 0 || tables != 0))
        return error_set(reterr, E_SYSTEM, "the file is a database, but not a registry of ours");
    if (version < 0 || (size_t)version > ARRAY_SIZE(migrations))
        return error_set(reterr, E_SYSTEM,
                         "the registry was written by a newer version (schema %lld; this one knows up to %zu)",
                         (long long)version, ARRAY_SIZE(migrations));
    if (version > 0) result = check_integrity(db, reterr);
    for (size_t i = (size_t)version; result == 0 && i < ARRAY_SIZE(migrations); i++)
        result = apply_migration(db, i, reterr);
    return result;
}

static int prepare_statements(struct store_sql *sql, struct error *reterr) {
    for (int i = 0; i < STATEMENTS; i++)
        if (sqlite3_prepare_v3(sql->db, statement_text[i], -1, SQLITE_PREPARE_PERSISTENT, &sql->statements[i], NULL) !=
            SQLITE_OK)
            return fail(sql->db, "preparing the registry's statements", reterr);
    return 0;
}

/* The registry holds the nodes' secrets in a folder that others can enter, so only the service may read it. SQLite
   gives its other files the same mode. */
static int make_private_file(const char *path, struct error *reterr) {
    CLEANUP_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return error_errno(reterr, errno, "opening '%s'", path);
    if (fchmod(fd, 0600) < 0) return error_errno(reterr, errno, "making '%s' private", path);
    return 0;
}

static int open_database(struct store_sql *sql, const char *path, struct error *reterr) {
    int result = make_private_file(path, reterr);
    if (result < 0) return result;
    if (sqlite3_open_v2(path, &sql->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        return sql->db ? fail(sql->db, path, reterr) : error_set(reterr, E_NO_MEMORY, "opening '%s'", path);
    sqlite3_busy_timeout(sql->db, BUSY_TIMEOUT_MS);
    result =
        execute(sql->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 4194304",
                path, reterr);
    if (result == 0 && (result = migrate(sql->db, reterr)) < 0) error_prefix(reterr, "%s", path);
    if (result == 0) result = execute(sql->db, forget_orphans, path, reterr);
    return result < 0 ? result : prepare_statements(sql, reterr);
}

int store_sql_open(const char *path, struct store_sql **ret, struct error *reterr) {
    struct error error;
    struct store_sql *sql = calloc(1, sizeof *sql);
    if (!sql) return error_set(reterr, E_NO_MEMORY, "opening '%s'", path);
    int result = open_database(sql, path, &error);
    if (result < 0) {
        store_sql_close(sql);
        return error_set(reterr, error.code, "%s", error.detail);
    }
    *ret = sql;
    return 0;
}

struct store_sql *store_sql_close(struct store_sql *sql) {
    if (!sql) return NULL;
    for (int i = 0; i < STATEMENTS; i++) sqlite3_finalize(sql->statements[i]);
    sqlite3_close(sql->db);
    free(sql);
    return NULL;
}

static int run(struct store_sql *sql, enum statement which, const char *what, struct error *reterr) {
    sqlite3_stmt *statement = sql->statements[which];
    bool failed = sqlite3_step(statement) != SQLITE_DONE;
    int result = failed ? fail(sql->db, what, reterr) : 0;
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return result;
}

int store_sql_begin(struct store_sql *sql, bool durable, struct error *reterr) {
    if (sql->durable != durable) {
        int result = execute(sql->db, durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL",
                             "choosing durability", reterr);
        if (result < 0) return result;
        sql->durable = durable;
    }
    return run(sql, BEGIN, "beginning a transaction", reterr);
}

int store_sql_commit(struct store_sql *sql, struct error *reterr) {
    return run(sql, COMMIT, "committing to the registry", reterr);
}

void store_sql_rollback(struct store_sql *sql) {
    /* Some failures end the transaction by themselves. */
    if (!sqlite3_get_autocommit(sql->db)) run(sql, ROLLBACK, "rolling back", NULL);
}

static void bind_text(sqlite3_stmt *statement, int at, const char *text) {
    if (text) sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

static int put_sandbox(struct store_sql *sql, const struct store_sandbox *row, struct error *reterr) {
    sqlite3_stmt *statement = sql->statements[PUT_SANDBOX];
    bind_text(statement, 1, row->id);
    bind_text(statement, 2, row->status);
    bind_text(statement, 3, row->source);
    bind_text(statement, 4, row->profile);
    sqlite3_bind_int64(statement, 5, row->owner_uid);
    sqlite3_bind_int64(statement, 6, row->created_at_ms);
    sqlite3_bind_int64(statement, 7, row->updated_at_ms);
    sqlite3_bind_int64(statement, 8, row->restart_count);
    bind_text(statement, 9, row->node);
    bind_text(statement, 10, row->secret);
    bind_text(statement, 11, row->build);
    bind_text(statement, 12, row->config);
    bind_text(statement, 13, row->last_error);
    return run(sql, PUT_SANDBOX, "writing a sandbox to the registry", reterr);
}

static int trim_events(struct store_sql *sql, struct error *reterr) {
    sql->events_since_trim = 0;
    sqlite3_bind_int64(sql->statements[TRIM_EVENTS], 1, EVENTS_KEPT);
    return run(sql, TRIM_EVENTS, "forgetting old events", reterr);
}

static int add_event(struct store_sql *sql, const struct store_write *write, struct error *reterr) {
    sqlite3_stmt *statement = sql->statements[ADD_EVENT];
    sqlite3_bind_int64(statement, 1, write->event_seq);
    bind_text(statement, 2, write->event);
    int result = run(sql, ADD_EVENT, "writing an event", reterr);
    if (result < 0 || ++sql->events_since_trim < EVENTS_PER_TRIM) return result;
    return trim_events(sql, reterr);
}

static int put_history(struct store_sql *sql, const struct store_history *row, struct error *reterr) {
    sqlite3_stmt *statement = sql->statements[PUT_HISTORY];
    bind_text(statement, 1, row->sandbox);
    bind_text(statement, 2, row->module);
    bind_text(statement, 3, row->text);
    return run(sql, PUT_HISTORY, "writing a module's history", reterr);
}

static int put_histories(struct store_sql *sql, const struct store_write *write, struct error *reterr) {
    const char *at = write->rows, *end = at + write->rows_bytes;
    int result = 0;
    while (at < end && result == 0) {
        struct store_history row = {write->sandbox, at, at + strlen(at) + 1};
        result = put_history(sql, &row, reterr);
        at = row.text + strlen(row.text) + 1;
    }
    return result;
}

static int trim_usage(struct store_sql *sql, const char *sandbox, int64_t up_to_ms, struct error *reterr) {
    sqlite3_stmt *statement = sql->statements[TRIM_USAGE];
    bind_text(statement, 1, sandbox);
    sqlite3_bind_int64(statement, 2, up_to_ms);
    return run(sql, TRIM_USAGE, "forgetting what a sandbox used", reterr);
}

static int add_usage(struct store_sql *sql, const struct store_usage *row, struct error *reterr) {
    sqlite3_stmt *statement = sql->statements[ADD_USAGE];
    bind_text(statement, 1, row->sandbox);
    sqlite3_bind_int64(statement, 2, row->at_ms);
    bind_text(statement, 3, row->text);
    int result = run(sql, ADD_USAGE, "writing what a sandbox used", reterr);
    return result < 0 ? result : trim_usage(sql, row->sandbox, row->at_ms - USAGE_KEPT_MS, reterr);
}

static int delete_sandbox(struct store_sql *sql, const char *id, struct error *reterr) {
    bind_text(sql->statements[DELETE_SANDBOX], 1, id);
    int result = run(sql, DELETE_SANDBOX, "removing a sandbox from the registry", reterr);
    if (result < 0) return result;
    bind_text(sql->statements[DELETE_HISTORIES], 1, id);
    result = run(sql, DELETE_HISTORIES, "removing a sandbox's history", reterr);
    return result < 0 ? result : trim_usage(sql, id, INT64_MAX, reterr);
}

int store_sql_apply(struct store_sql *sql, const struct store_write *write, struct error *reterr) {
    switch (write->kind) {
    case WRITE_PUT_SANDBOX: return put_sandbox(sql, &write->row, reterr);
    case WRITE_DELETE_SANDBOX: return delete_sandbox(sql, write->row.id, reterr);
    case WRITE_PUT_HISTORIES: return put_histories(sql, write, reterr);
    case WRITE_ADD_USAGE: return add_usage(sql, &write->usage, reterr);
    case WRITE_ADD_EVENT: return add_event(sql, write, reterr);
    }
    return error_set(reterr, E_SYSTEM, "unknown kind of write %d", write->kind);
}

static const char *text_at(sqlite3_stmt *statement, int column) {
    return (const char *)sqlite3_column_text(statement, column);
}

static struct store_sandbox sandbox_of_row(sqlite3_stmt *statement) {
    return (struct store_sandbox){
        .id = text_at(statement, 0),
        .status = text_at(statement, 1),
        .source = text_at(statement, 2),
        .profile = text_at(statement, 3),
        .owner_uid = (uint32_t)sqlite3_column_int64(statement, 4),
        .created_at_ms = sqlite3_column_int64(statement, 5),
        .updated_at_ms = sqlite3_column_int64(statement, 6),
        .restart_count = (uint32_t)sqlite3_column_int64(statement, 7),
        .node = text_at(statement, 8),
        .secret = text_at(statement, 9),
        .build = text_at(statement, 10),
        .config = text_at(statement, 11),
        .last_error = text_at(statement, 12),
    };
}

static void cleanup_statement(sqlite3_stmt **statement) {
    sqlite3_finalize(*statement);
}

/* Readers have their own connection to a registry that store_sql_open has checked. */
static int open_reader(const char *path, sqlite3 **ret, struct error *reterr) {
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK) {
        sqlite3_busy_timeout(db, BUSY_TIMEOUT_MS);
        *ret = db;
        return 0;
    }
    int result = db ? fail(db, path, reterr) : error_set(reterr, E_NO_MEMORY, "opening '%s'", path);
    sqlite3_close(db);
    return result;
}

static void cleanup_database(sqlite3 **db) {
    sqlite3_close(*db);
}

int store_sql_each_sandbox(const char *path, void (*each)(void *data, const struct store_sandbox *row), void *data,
                           struct error *reterr) {
    CLEANUP(cleanup_database) sqlite3 *db = NULL;
    CLEANUP(cleanup_statement) sqlite3_stmt *statement = NULL;
    int result = open_reader(path, &db, reterr);
    if (result < 0) return result;
    const char *text = "SELECT " SANDBOX_COLUMNS " FROM sandboxes ORDER BY id";
    if (sqlite3_prepare_v2(db, text, -1, &statement, NULL) != SQLITE_OK)
        return fail(db, "reading the sandboxes", reterr);
    int step;
    while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
        struct store_sandbox row = sandbox_of_row(statement);
        if (!row.id || !row.status) return error_set(reterr, E_NO_MEMORY, "reading the sandboxes: out of memory");
        each(data, &row);
    }
    return step == SQLITE_DONE ? 0 : fail(db, "reading the sandboxes", reterr);
}

static int give_event(const char *text, void (*each)(void *data, json_t *event), void *data, struct error *reterr) {
    json_t *event = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (!event) return error_set(reterr, E_SYSTEM, "the registry is damaged (an event is not JSON)");
    each(data, event);
    json_decref(event);
    return 0;
}

int store_sql_each_event(const char *path, size_t limit, void (*each)(void *data, json_t *event), void *data,
                         struct error *reterr) {
    CLEANUP(cleanup_database) sqlite3 *db = NULL;
    CLEANUP(cleanup_statement) sqlite3_stmt *statement = NULL;
    int result = open_reader(path, &db, reterr);
    if (result < 0) return result;
    const char *text = "SELECT event FROM (SELECT seq, event FROM events ORDER BY seq DESC LIMIT ?) ORDER BY seq";
    if (sqlite3_prepare_v2(db, text, -1, &statement, NULL) != SQLITE_OK) return fail(db, "reading the events", reterr);
    sqlite3_bind_int64(statement, 1, limit > EVENTS_KEPT ? EVENTS_KEPT : (int64_t)limit);
    int step;
    while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
        result = give_event(text_at(statement, 0), each, data, reterr);
        if (result < 0) return result;
    }
    return step == SQLITE_DONE ? 0 : fail(db, "reading the events", reterr);
}

int store_sql_each_history(const char *path, void (*each)(void *data, const struct store_history *row), void *data,
                           struct error *reterr) {
    CLEANUP(cleanup_database) sqlite3 *db = NULL;
    CLEANUP(cleanup_statement) sqlite3_stmt *statement = NULL;
    int result = open_reader(path, &db, reterr);
    if (result < 0) return result;
    const char *text = "SELECT sandbox, module, history FROM histories ORDER BY sandbox, module";
    if (sqlite3_prepare_v2(db, text, -1, &statement, NULL) != SQLITE_OK)
        return fail(db, "reading the histories", reterr);
    int step;
    while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
        struct store_history row = {text_at(statement, 0), text_at(statement, 1), text_at(statement, 2)};
        if (!row.sandbox || !row.module || !row.text)
            return error_set(reterr, E_NO_MEMORY, "reading the histories: out of memory");
        each(data, &row);
    }
    return step == SQLITE_DONE ? 0 : fail(db, "reading the histories", reterr);
}

int store_sql_each_usage(const char *path, void (*each)(void *data, const struct store_usage *row), void *data,
                         struct error *reterr) {
    CLEANUP(cleanup_database) sqlite3 *db = NULL;
    CLEANUP(cleanup_statement) sqlite3_stmt *statement = NULL;
    int result = open_reader(path, &db, reterr);
    if (result < 0) return result;
    const char *text = "SELECT sandbox, at_ms, usage FROM usage ORDER BY sandbox, at_ms";
    if (sqlite3_prepare_v2(db, text, -1, &statement, NULL) != SQLITE_OK)
        return fail(db, "reading what was used", reterr);
    int step;
    while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
        struct store_usage row = {text_at(statement, 0), sqlite3_column_int64(statement, 1), text_at(statement, 2)};
        if (!row.sandbox || !row.text) return error_set(reterr, E_NO_MEMORY, "reading what was used: out of memory");
        each(data, &row);
    }
    return step == SQLITE_DONE ? 0 : fail(db, "reading what was used", reterr);
}
