/* Sockets that strangers write to. A message may carry descriptors, and the last reference to one is dropped by the
   thread that reads the message, or that closes the socket with the message unread. Dropping it can wait for as long as
   its sender likes (a TCP socket with SO_LINGER). So nothing here receives a descriptor, and no close waits. */
#ifndef BASE_IO_STRANGER_H
#define BASE_IO_STRANGER_H

#include <stdbool.h>
#include <sys/types.h>

/* Have the kernel refuse descriptors on a socket and on all that it accepts from now on; to be called before listen.
   False: this kernel can't (before Linux 6.16), and the two functions below must be used on what it accepts. */
bool stranger_refuse_descriptors(int listener);

/* As recv without waiting. -1 with errno EBADMSG: what comes next carries descriptors. They stay where they are; the
   socket is to be closed by stranger_close. */
ssize_t stranger_receive(int fd, void *data, size_t size);

/* Shut a socket down at once, and close it on a thread that may wait. A listening socket too: connections that it has
   not accepted may hold descriptors. */
void stranger_close(int fd);

#endif
