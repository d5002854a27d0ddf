/* What a VM itself prints, such as why it could not boot: read from a pipe, no faster than its pace allows. */
#include <string.h>
#include <unistd.h>

#include "node/node_internal.h"

enum { OUTPUT_NEXT_TURN_MS = 1, PIPE_BYTES = 64 * 1024 };

static void on_output_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret) {
    (void)suggested;
    struct node *node = handle->data;
    *ret = uv_buf_init(node->host->read_buffer, sizeof node->host->read_buffer);
}

static void on_output(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes);

static void on_output_pause_over(uv_timer_t *timer) {
    struct node *node = timer->data;
    if (node->output_open) uv_read_start((uv_stream_t *)&node->output, on_output_alloc, on_output);
}

/* The end of all that was printed so far. */
static void keep_last_words(struct node *node, const char *bytes, size_t size) {
    size_t max = sizeof node->last_words;
    if (size > max) {
        bytes += size - max;
        size = max;
    }
    size_t kept = node->last_words_size > max - size ? max - size : node->last_words_size;
    memmove(node->last_words, node->last_words + node->last_words_size - kept, kept);
    memcpy(node->last_words + kept, bytes, size);
    node->last_words_size = kept + size;
}

static void on_output(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes) {
    struct node *node = stream->data;
    if (count < 0) node_close_handle(&node->output_open, &node->output);
    if (count <= 0) return;
    uint64_t pause_ms = pace_spend(&node->output_pace, (uint64_t)count, uv_now(node->host->loop));
    /* libuv goes on for 32 buffers while each is filled: one is a turn. */
    if (pause_ms == 0 && (size_t)count == bytes->len) pause_ms = OUTPUT_NEXT_TURN_MS;
    if (pause_ms > 0) {
        uv_read_stop(stream);
        uv_timer_start(&node->output_pause, on_output_pause_over, pause_ms, 0);
    }
    if (!node->has_greeted)
        keep_last_words(node, bytes->base, (size_t)count);
    else if (node->handler.output)
        node->handler.output(node->data, node, bytes->base, (size_t)count);
}

void node_end_boot_words(struct node *node) {
    char bytes[4096];
    size_t taken = 0;
    int fd;
    if (!node->output_open || uv_fileno((uv_handle_t *)&node->output, &fd) < 0) return;
    for (ssize_t count; taken < PIPE_BYTES && (count = read(fd, bytes, sizeof bytes)) > 0; taken += (size_t)count)
        keep_last_words(node, bytes, (size_t)count);
}

void node_watch_output(struct node *node, int fd) {
    if (fd < 0) return;
    uv_pipe_init(node->host->loop, &node->output, 0);
    node->output.data = node;
    node->output_open = true;
    uv_timer_init(node->host->loop, &node->output_pause);
    node->output_pause.data = node;
    node->output_pause_open = true;
    node->open_handles += 2;
    pace_start(&node->output_pace, OUTPUT_BURST_BYTES, OUTPUT_BYTES_PER_MS, uv_now(node->host->loop));
    if (uv_pipe_open(&node->output, fd) < 0) {
        fd_close(fd);
        node_close_handle(&node->output_open, &node->output);
        return;
    }
    uv_read_start((uv_stream_t *)&node->output, on_output_alloc, on_output);
}
