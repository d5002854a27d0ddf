/* Collects the loaded versions of a sandbox's modules into a few writes, before the loop queues them. */
#include <stdlib.h>
#include <string.h>

#include "store/store_internal.h"

enum { WRITE_BYTES = 256 << 10 }; /* of rows in one write */

struct store_histories {
    char *sandbox;
    struct buf rows; /* not yet in a write */
    struct store_write_list writes;
};

struct store_histories *store_histories_new(const char *sandbox) {
    struct store_histories *histories = calloc(1, sizeof *histories);
    if (!histories) return NULL;
    STAILQ_INIT(&histories->writes);
    histories->sandbox = strdup(sandbox);
    if (histories->sandbox) return histories;
    store_histories_free(histories);
    return NULL;
}

static bool flush(struct store_histories *histories) {
    struct buf *rows = &histories->rows;
    size_t name = strlen(histories->sandbox) + 1;
    if (rows->size == 0) return !rows->failed;
    struct store_write *write =
        rows->failed ? NULL : store_new_write(WRITE_PUT_HISTORIES, name + rows->size, NULL, NULL);
    if (!write) return false;
    write->sandbox = memcpy(write->text, histories->sandbox, name);
    write->rows = memcpy(write->text + name, rows->data, rows->size);
    write->rows_bytes = rows->size;
    STAILQ_INSERT_TAIL(&histories->writes, write, link);
    buf_clear(rows);
    return true;
}

bool store_histories_add(struct store_histories *histories, const char *module, const char *text) {
    buf_append(&histories->rows, module, strlen(module) + 1);
    buf_append(&histories->rows, text, strlen(text) + 1);
    return histories->rows.size < WRITE_BYTES ? !histories->rows.failed : flush(histories);
}

void store_histories_free(struct store_histories *histories) {
    if (!histories) return;
    while (!STAILQ_EMPTY(&histories->writes)) {
        struct store_write *write = STAILQ_FIRST(&histories->writes);
        STAILQ_REMOVE_HEAD(&histories->writes, link);
        free(write);
    }
    buf_free(&histories->rows);
    free(histories->sandbox);
    free(histories);
}

void histories_queue(struct store_thread *thread, struct store_histories *histories) {
    struct error error;
    if (!flush(histories)) {
        error_set(&error, E_NO_MEMORY, "no memory to queue a write to the registry");
        store_thread_note_loss(thread, &error);
    }
    while (!STAILQ_EMPTY(&histories->writes)) {
        struct store_write *write = STAILQ_FIRST(&histories->writes);
        STAILQ_REMOVE_HEAD(&histories->writes, link);
        store_thread_queue(thread, write);
    }
    store_histories_free(histories);
}
