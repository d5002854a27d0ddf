/* Files of a running sandbox, piece by piece: `cp` of the command line is made of these. The launcher's helper inside
   the node reads and writes them; here they become JSON. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/core_internal.h"
#include "core/sandbox/sandbox.h"
#include "jail/files.h"
#include "jail/wire.h"

struct asking {
    struct loop_work work; /* first, so that it leads back here */
    struct engine *engine;
    struct request *request;
    int content_fd; /* what the launcher answered */
    json_t *(*read)(char *content, size_t size);
    json_t *result;
};

static struct sandbox *find_running(struct engine *engine, struct request *request, struct error *reterr) {
    struct sandbox *sandbox = sandbox_find(engine, request, reterr);
    if (!sandbox || sandbox->node) return sandbox;
    error_set(reterr, E_CONFLICT, "the sandbox '%s' is %s: its files can be reached while it runs", sandbox->id,
              status_name(sandbox->status));
    return NULL;
}

static uint64_t number_of(const struct request *request, const char *name) {
    return (uint64_t)json_integer_value(json_object_get(request->params, name));
}

/* What came as a memory file; NULL when it can't be had. */
static char *read_content(int fd, size_t *ret_size) {
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0) return NULL;
    char *content = malloc((size_t)status.st_size + 1);
    ssize_t size = content ? pread(fd, content, (size_t)status.st_size, 0) : -1;
    if (size < 0) {
        free(content);
        return NULL;
    }
    content[size] = '\0';
    *ret_size = (size_t)size;
    return content;
}

/* ---- listing ---- */

/* "F 644 12 name": names that are no UTF-8 have no form in JSON, and are counted. */
static bool read_entry(char *line, json_t *entries, json_t **ret_self, unsigned *skipped) {
    char type = line[0];
    unsigned mode;
    unsigned long long size;
    int used = 0;
    if (sscanf(line + 1, " %o %llu %n", &mode, &size, &used) != 2 || used == 0) return false;
    char *at = line + 1 + used, *name = wire_next_word(&at);
    if (!name || !strchr("FDO", type)) return false;
    if (!utf8_valid((const uint8_t *)name, strlen(name))) {
        ++*skipped;
        return true;
    }
    json_t *entry = json_pack("{s:s, s:s, s:i, s:I}", "name", name, "type",
                              type == 'F'   ? "file"
                              : type == 'D' ? "folder"
                                            : "other",
                              "mode", (int)mode, "size_bytes", (json_int_t)size);
    if (name[0])
        json_array_append_new(entries, entry);
    else
        *ret_self = entry;
    return true;
}

static json_t *read_listing(char *text, size_t size) {
    (void)size;
    json_t *entries = json_array(), *self = NULL;
    unsigned skipped = 0;
    bool is_good = true;
    for (char *line; is_good && (line = wire_next_line(&text));) is_good = read_entry(line, entries, &self, &skipped);
    if (!is_good || !self) {
        json_decref(entries);
        json_decref(self);
        return NULL;
    }
    json_object_del(self, "name");
    json_object_set_new(self, "entries", entries);
    json_object_set_new(self, "skipped", json_integer(skipped));
    return self;
}

static json_t *read_piece(char *content, size_t size) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    base64_encode((const uint8_t *)content, size, &text);
    return json_pack("{s:s, s:i}", "data", buf_string(&text), "size_bytes", (int)size);
}

/* ---- answers ---- */

static void end(struct asking *asking, json_t *result, const struct error *error) {
    struct engine *engine = asking->engine;
    if (error)
        answer_error(engine, asking->request, error, NULL);
    else
        answer_ok(engine, asking->request, result);
    free(asking);
    engine_part_closed(engine);
}

/* On a thread: a folder may have thousands of entries. */
static void take_content(struct loop_work *work) {
    struct asking *asking = (struct asking *)work;
    size_t size = 0;
    CLEANUP_FREE char *content = read_content(asking->content_fd, &size);
    asking->content_fd = fd_close(asking->content_fd);
    asking->result = content ? asking->read(content, size) : NULL;
}

static void on_taken(struct loop_work *work) {
    struct asking *asking = (struct asking *)work;
    struct error malformed;
    loop_note(asking->engine->loop, "files of a sandbox", NULL);
    if (asking->result) {
        end(asking, asking->result, NULL);
        return;
    }
    error_set(&malformed, E_LAUNCHER, "the launcher's answer is malformed");
    end(asking, NULL, &malformed);
}

static void on_content(struct asking *asking, int fd, const struct error *error, json_t *(*read)(char *, size_t)) {
    if (error) {
        end(asking, NULL, error);
        return;
    }
    uid_t uid = asking->request->caller.uid;
    asking->read = read;
    asking->content_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    asking->work = (struct loop_work){.run = take_content, .done = on_taken};
    loop_work_submit(&asking->engine->host.workers, uid, &asking->work);
}

static void on_listing(void *data, int fd, const struct error *error) {
    on_content(data, fd, error, read_listing);
}

static void on_piece(void *data, int fd, const struct error *error) {
    on_content(data, fd, error, read_piece);
}

static void on_done(void *data, int fd, const struct error *error) {
    (void)fd;
    end(data, error ? NULL : json_object(), error);
}

static void ask(struct engine *engine, struct request *request, const char *kind, int data_fd, link_file_fn done) {
    struct error error;
    struct sandbox *sandbox = find_running(engine, request, &error);
    if (!sandbox) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    struct link_file file = {.kind = kind,
                             .path = json_string_value(json_object_get(request->params, "path")),
                             .offset = number_of(request, "offset"),
                             .length = number_of(request, "length"),
                             .mode = (unsigned)number_of(request, "mode")};
    struct asking *asking = new_or_abort(struct asking);
    *asking = (struct asking){.engine = engine, .request = request, .content_fd = -1};
    engine_part_open(engine);
    link_file(engine->host.link, node_name(sandbox->node), &file, data_fd, done, asking);
}

void engine_file_list(struct engine *engine, struct request *request) {
    ask(engine, request, "list", -1, on_listing);
}

void engine_file_read(struct engine *engine, struct request *request) {
    ask(engine, request, "read", -1, on_piece);
}

void engine_file_mkdir(struct engine *engine, struct request *request) {
    ask(engine, request, "mkdir", -1, on_done);
}

/* In a memory file, which goes to the launcher. */
static int keep(const char *text, size_t *ret_size, struct error *reterr) {
    CLEANUP(buf_free) struct buf content = BUF_INIT;
    if (!base64_decode(text, strlen(text), &content) || content.size > JAIL_FILE_PIECE)
        return error_set(reterr, E_INVALID, "data is not base64, or longer than %d bytes", JAIL_FILE_PIECE);
    CLEANUP_FD int fd = memfd_create("file", MFD_CLOEXEC);
    if (fd < 0 || file_write_all(fd, content.data, content.size) < 0)
        return error_set(reterr, E_NO_MEMORY, "no memory for a piece of a file");
    *ret_size = content.size;
    return take_fd(&fd);
}

void engine_file_write(struct engine *engine, struct request *request) {
    struct error error;
    size_t size = 0;
    const char *text = json_string_value(json_object_get(request->params, "data"));
    CLEANUP_FD int fd = keep(text, &size, &error);
    if (fd < 0) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    json_object_set_new(request->params, "length", json_integer((json_int_t)size));
    ask(engine, request, "write", fd, on_done);
}
