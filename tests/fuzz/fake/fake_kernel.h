/* A kernel for the launcher's code that does nothing: no process, mount, cgroup, file or rule is made. What its calls
   return is chosen by bytes of the input, so that the paths of every failure can be reached. */
#ifndef FUZZ_FAKE_KERNEL_H
#define FUZZ_FAKE_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* From here on calls are ours; descriptors and time start afresh. */
void fake_begin(void);
/* The descriptors that processes of this kernel hold are closed, and calls are the real kernel's again. */
void fake_end(void);
/* One byte for each call from now on. '.', and all after the last one: it succeeds. From 'a': it fails. Others: it
   succeeds oddly, where there is a way to. */
void fake_decide(const uint8_t *choices, size_t count);
void fake_pass_time(uint64_t ms);
/* What the next accept4 returns, and the uid at its other end. */
void fake_accept_next(int fd, uid_t uid);

#endif
