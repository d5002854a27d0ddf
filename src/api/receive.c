/* How bytes of callers are read, so that no descriptor is received with them (base/io/stranger.h). */
#include "api/api_internal.h"

#include <errno.h>
#include <sys/socket.h>

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
