/* Tests that no passed descriptor is received from a stranger's socket, and that none delays a close: on this kernel,
   and as on an older one. */
#include "base/base_test.h"
#include "descriptors.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/un.h>

enum { DEADLINE_MS = 30000, SOON_MS = 30000, LINGERING = 6 };

static int listen_unnamed(struct sockaddr_un *ret, socklen_t *ret_size) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    *ret_size = sizeof *ret;
    assert_int_equal(bind(fd, (struct sockaddr *)ret, sizeof(sa_family_t)), 0); /* the kernel finds a name */
    assert_int_equal(getsockname(fd, (struct sockaddr *)ret, ret_size), 0);
    return fd;
}

static int dial(const struct sockaddr_un *address, socklen_t size) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)address, size), 0);
    return fd;
}

/* Before a connection is accepted, and after. */
static void test_the_kernel_refuses(void **state) {
    (void)state;
    struct sockaddr_un address;
    socklen_t size;
    int listener = listen_unnamed(&address, &size);
    if (!stranger_refuse_descriptors(listener)) skip();
    assert_int_equal(listen(listener, 4), 0);
    int peer = dial(&address, size);
    assert_false(test_send_descriptor(peer, peer, "x", 1));
    assert_int_equal(errno, EPERM);
    int accepted = accept(listener, NULL, NULL);
    assert_false(test_send_descriptor(peer, peer, "x", 1));
    assert_int_equal(errno, EPERM);
    assert_int_equal(send(peer, "y", 1, 0), 1);
    assert_int_equal(recv(accepted, &(char[2]){0}, 2, 0), 1);
    close(peer);
    close(accepted);
    close(listener);
}

static void test_an_old_kernel_does_not(void **state) {
    (void)state;
    struct sockaddr_un address;
    socklen_t size;
    int listener = listen_unnamed(&address, &size);
    assert_false(stranger_refuse_descriptors(listener));
    close(listener);
}

static void test_bytes_come_as_they_are(void **state) {
    (void)state;
    int pair[2];
    char bytes[8];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(stranger_receive(pair[0], bytes, sizeof bytes), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(send(pair[1], "abcde", 5, 0), 5);
    assert_int_equal(stranger_receive(pair[0], bytes, 3), 3);
    assert_memory_equal(bytes, "abc", 3);
    assert_int_equal(stranger_receive(pair[0], bytes, sizeof bytes), 2);
    assert_memory_equal(bytes, "de", 2);
    close(pair[1]);
    assert_int_equal(stranger_receive(pair[0], bytes, sizeof bytes), 0);
    close(pair[0]);
}

static int lowest_free(void) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd;
}

static void test_descriptors_are_not_received(void **state) {
    (void)state;
    int pair[2];
    char bytes[8];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(send(pair[1], "ab", 2, 0), 2);
    assert_true(test_send_descriptor(pair[1], pair[1], "c", 1));
    int before = lowest_free();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stranger_receive(pair[0], bytes, sizeof bytes), -1);
        assert_int_equal(errno, EBADMSG);
    }
    assert_int_equal(lowest_free(), before);
    close(pair[1]);
    stranger_close(pair[0]);
}

static void send_lingering(int to) {
    int tcp[2];
    assert_true(test_open_lingering(tcp));
    assert_true(test_send_descriptor(to, tcp[0], "x", 1));
    close(tcp[0]); /* the message has the last reference */
}

static bool sees_end(int fd) {
    ssize_t count = recv(fd, &(char){0}, 1, MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno == ECONNRESET);
}

/* Closing here takes no time, and what is closed behind it is closed soon. */
static void test_a_lingering_descriptor_holds_nobody_up(void **state) {
    (void)state;
    int told[2];
    uint64_t begun_ms = clock_monotonic_ms();
    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    for (int i = 0; i <= LINGERING; i++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        if (i < LINGERING)
            send_lingering(pair[1]);
        else
            assert_true(test_send_descriptor(pair[1], told[1], "x", 1));
        stranger_close(pair[0]);
        assert_true(sees_end(pair[1])); /* at once */
        close(pair[1]);
    }
    close(told[1]);
    assert_int_equal(poll(&(struct pollfd){.fd = told[0], .events = POLLIN}, 1, DEADLINE_MS), 1);
    assert_int_equal(read(told[0], &(char){0}, 1), 0);
    assert_true(clock_monotonic_ms() - begun_ms < SOON_MS);
    close(told[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_kernel_refuses),
        cmocka_unit_test(test_bytes_come_as_they_are),
        cmocka_unit_test(test_descriptors_are_not_received),
        cmocka_unit_test(test_a_lingering_descriptor_holds_nobody_up),
    };
    const struct CMUnitTest on_old_kernels[] = {cmocka_unit_test(test_an_old_kernel_does_not)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (!test_pretend_old_kernel()) return 1;
    return failed + cmocka_run_group_tests(on_old_kernels, NULL, NULL);
}
