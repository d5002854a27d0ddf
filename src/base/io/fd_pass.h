/* Descriptors that go through a unix socket beside the bytes of a message. */
#ifndef BASE_IO_FD_PASS_H
#define BASE_IO_FD_PASS_H

#include <stddef.h>
#include <sys/types.h>

enum { FD_PASS_MAX = 4 }; /* with one message */

/* Send the bytes with the descriptors, which stay the sender's; there may be none. flags: MSG_DONTWAIT or 0; a socket
   whose other end is closed makes no signal. What sendmsg returns; EINVAL for more than FD_PASS_MAX. */
ssize_t fd_send(int socket_fd, const void *data, size_t size, const int *fds, size_t fd_count, int flags);

/* Receive bytes, and the descriptors that come with them: close-on-exec, the receiver's from now on. ret_fds gets the
   first of them, and -1 where there is none; those past fds_max are closed. A process that can have no more open gets
   fewer, so the receiver looks for each. What recvmsg returns; EMSGSIZE, with no descriptor left, for a packet that is
   longer than size. */
ssize_t fd_receive(int socket_fd, void *ret, size_t size, int *ret_fds, size_t fds_max, int flags);

#endif
