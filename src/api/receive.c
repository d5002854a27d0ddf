/* How bytes of callers are read, so that no descriptor is received with them (base/stranger.h). The HTTP server reads
   its connections itself, by recv, and takes no function of ours instead. So the program has a recv of its own, which
   the server's library finds before libc's; it differs while the server runs on a kernel that refuses no descriptors.
 */
#include "api/api_internal.h"

#include <errno.h>
#include <sys/socket.h>

static _Thread_local struct api *served;

void receive_begin(struct api *api) {
    served = api->is_careful ? api : NULL;
}

void receive_end(void) {
    served = NULL;
}

static void on_descriptor(struct api *api, int fd) {
    struct connection *connection;
    TAILQ_FOREACH(connection, &api->connections, link) {
        if (connection->fd != fd) continue;
        record_passed_descriptor(api, connection->caller.uid);
        return;
    }
}

ssize_t receive_bytes(struct api *api, int fd, void *data, size_t size) {
    if (!api->is_careful) return recvfrom(fd, data, size, MSG_DONTWAIT, NULL, NULL);
    ssize_t count = stranger_receive(fd, data, size);
    if (count >= 0 || errno != EBADMSG) return count;
    on_descriptor(api, fd);
    errno = ECONNRESET; /* which ends the connection */
    return -1;
}

/* clang takes libc's checked inline function for an earlier definition. NOLINTNEXTLINE */
__attribute__((visibility("default"))) ssize_t recv(int fd, void *data, size_t size, int flags) {
    return served ? receive_bytes(served, fd, data, size) : recvfrom(fd, data, size, flags, NULL, NULL);
}
