/* Reads what a run's program needs of its caller: the text of a script, and the standard input. A thread sends the
   input piece by piece while the run's answer is read. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli_internal.h"

enum { LINE_BYTES = 256, PIECE_BYTES = 48 << 10, SCRIPT_MAX_BYTES = 1 << 20 /* as the operation takes */ };

/* ---- the script ---- */

static bool is_file(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static bool is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* The word "-" has become a path in the working directory, as every relative word. */
static bool is_input(const char *path) {
    return string_ends(path, "/-") && access(path, F_OK) < 0;
}

/* The first line of a file that begins with #!, else "". */
static void read_hash_bang(const char *path, char ret[LINE_BYTES]) {
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, ret, LINE_BYTES - 1);
    ret[size > 0 ? size : 0] = '\0';
    ret[string_starts(ret, "#!") ? strcspn(ret, "\n") : 0] = '\0';
}

bool run_is_escript(const char *source) {
    char line[LINE_BYTES];
    if (!is_file(source)) return false;
    read_hash_bang(source, line);
    return strstr(line, "escript");
}

/* Refuses at once what the service would refuse only after compiling. */
static int check_program(const json_t *params, const char *source, struct error *reterr) {
    char line[LINE_BYTES] = "";
    if (is_folder(source) && json_array_size(json_object_get(params, "args")) > 0)
        return error_set(reterr, E_INVALID, "only a script, an escript or an Erlang file with main/1 takes arguments");
    if (is_file(source)) read_hash_bang(source, line);
    if (line[0] && !strstr(line, "escript"))
        return error_set(reterr, E_INVALID, "%s is a script of another interpreter: %s", source, line);
    return 0;
}

int run_take_script(json_t *params, struct error *reterr) {
    const char *source = json_string_value(json_object_get(params, "source"));
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    if (!source && !json_object_get(params, "code"))
        return error_set(reterr, E_INVALID, "SOURCE is missing: a project, a script, an escript, or - for the input");
    if (!source) return 0;
    bool is_script = string_ends(source, ".exs") && is_file(source);
    if (!is_script && !is_input(source)) return check_program(params, source, reterr);
    CLEANUP_FD int fd = is_script ? open(source, O_RDONLY | O_CLOEXEC) : dup(STDIN_FILENO);
    if (fd < 0) return error_errno(reterr, errno, "opening %s", source);
    int result = given_text_read(fd, is_script ? source : "the standard input", SCRIPT_MAX_BYTES, &text, reterr);
    if (result < 0) return result;
    if (text.size == 0) return error_set(reterr, E_INVALID, "the script is empty");
    json_t *code = json_stringn((const char *)text.data, text.size);
    if (!code) return error_set(reterr, E_INVALID, "the script is not UTF-8 text");
    json_object_set_new(params, "file", json_string(is_script ? strrchr(source, '/') + 1 : "stdin.exs"));
    json_object_set_new(params, "code", code);
    json_object_del(params, "source");
    return 0;
}

/* ---- the standard input ---- */

struct input_sender {
    const char *home;
    char id[OP_ID_MAX_BYTES + 1];
};

/* False: the program has ended, or wants no more. */
static bool send_piece(struct sbx *sbx, const char *id, const uint8_t *bytes, size_t size) {
    CLEANUP(buf_free) struct buf encoded = BUF_INIT;
    CLEANUP_FREE char *answer = NULL;
    struct sbx_error error;
    base64_encode(bytes, size, &encoded);
    CLEANUP_JSON json_t *params =
        json_pack("{s:s, s:{s:s}, s:b}", "id", id, "data", "stdin", buf_string(&encoded), "end", size == 0);
    CLEANUP_FREE char *text = json_dumps(params, JSON_COMPACT);
    if (sbx_op(sbx, "input", text, &answer, &error) == 0) return size > 0;
    sbx_error_clear(&error);
    return false;
}

static void *send_all(void *data) {
    struct input_sender *sender = data;
    struct sbx_options options = SBX_OPTIONS_INIT;
    struct sbx *sbx = NULL;
    struct sbx_error error;
    uint8_t piece[PIECE_BYTES];
    ssize_t size = 1;
    options.home = sender->home;
    options.flags = SBX_NO_AUTOSTART;
    if (sbx_open_with(&options, &sbx, &error) < 0) {
        sbx_error_clear(&error);
        size = 0;
    }
    while (size > 0) {
        size = read(STDIN_FILENO, piece, sizeof piece);
        if (size < 0 && errno == EINTR)
            size = 1;
        else if (!send_piece(sbx, sender->id, piece, size > 0 ? (size_t)size : 0))
            break;
    }
    sbx_close(sbx);
    free(sender);
    return NULL;
}

void run_send_input(const struct cli *cli, const char *id) {
    pthread_t thread;
    struct input_sender *sender = calloc(1, sizeof *sender);
    if (!sender) return;
    sender->home = cli->home;
    snprintf(sender->id, sizeof sender->id, "%s", id);
    if (pthread_create(&thread, NULL, send_all, sender) == 0)
        pthread_detach(thread);
    else
        free(sender);
}
