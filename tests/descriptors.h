/* Descriptors sent along with messages: one whose close waits, and a kernel that can't refuse any. */
#ifndef TESTS_DESCRIPTORS_H
#define TESTS_DESCRIPTORS_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TEST_SO_PASSRIGHTS = 83, TEST_LINGER_S = 60 };

/* From now on this process knows no SO_PASSRIGHTS, as before Linux 6.16. */
static inline bool test_pretend_old_kernel(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setsockopt, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TEST_SO_PASSRIGHTS, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Sends bytes and a descriptor; false when the kernel refuses (errno says why). */
static inline bool test_send_descriptor(int socket, int passed, const void *bytes, size_t size) {
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } control = {0};
    struct iovec part = {(void *)bytes, size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof passed);
    memcpy(CMSG_DATA(&control.header), &passed, sizeof passed);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)size;
}

/* A TCP connection to itself on loopback with a full send buffer: the last close of ret[0] waits for a minute. */
static inline bool test_open_lingering(int ret[2]) {
    static const char zeros[65536];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger linger = {.l_onoff = 1, .l_linger = TEST_LINGER_S};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool listens = listener >= 0 && bind(listener, (struct sockaddr *)&address, size) == 0 &&
                   listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&address, &size) == 0;
    ret[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_open = listens && ret[0] >= 0 && connect(ret[0], (struct sockaddr *)&address, size) == 0 &&
                   setsockopt(ret[0], SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0;
    ret[1] = is_open ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    if (listener >= 0) close(listener);
    while (ret[1] >= 0 && send(ret[0], zeros, sizeof zeros, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) continue;
    return ret[1] >= 0;
}

#endif
