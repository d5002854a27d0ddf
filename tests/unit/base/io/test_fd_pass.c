/* Descriptors through sockets: they arrive, none is lost and none is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/io/fd_pass.h"

static size_t descriptors_open(void) {
    size_t count = 0;
    DIR *listing = opendir("/proc/self/fd");
    assert_non_null(listing);
    while (readdir(listing)) count++;
    closedir(listing);
    return count;
}

struct scene {
    int sockets[2];
    int null_fd;
    size_t open_before;
};

static int set_up(void **state) {
    static struct scene scene;
    scene.open_before = descriptors_open();
    scene.null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    *state = &scene;
    return scene.null_fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, scene.sockets);
}

static int tear_down(void **state) {
    const struct scene *scene = *state;
    close(scene->sockets[0]);
    close(scene->sockets[1]);
    close(scene->null_fd);
    assert_int_equal(descriptors_open(), scene->open_before);
    return 0;
}

static bool is_same_file(int left, int right) {
    struct stat first, second;
    return fstat(left, &first) == 0 && fstat(right, &second) == 0 && first.st_ino == second.st_ino &&
           first.st_dev == second.st_dev;
}

static void descriptors_come_with_the_bytes(void **state) {
    const struct scene *scene = *state;
    int fds[FD_PASS_MAX];
    char text[8] = "";
    int sent[] = {scene->null_fd, scene->sockets[0]};
    assert_int_equal(fd_send(scene->sockets[0], "hello", 5, sent, 2, 0), 5);
    assert_int_equal(fd_receive(scene->sockets[1], text, sizeof text, fds, FD_PASS_MAX, 0), 5);
    assert_string_equal(text, "hello");
    for (size_t i = 0; i < 2; i++) {
        assert_true(is_same_file(fds[i], sent[i]));
        assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
        close(fds[i]);
    }
    assert_int_equal(fds[2], -1);
    assert_int_equal(fds[3], -1);
}

static void a_message_may_have_none(void **state) {
    const struct scene *scene = *state;
    int fd = scene->null_fd;
    char byte;
    assert_int_equal(fd_send(scene->sockets[0], "x", 1, NULL, 0, 0), 1);
    assert_int_equal(fd_receive(scene->sockets[1], &byte, 1, &fd, 1, 0), 1);
    assert_int_equal(fd, -1);
}

static void more_than_wanted_are_closed(void **state) {
    const struct scene *scene = *state;
    int fd;
    char byte;
    int sent[] = {scene->null_fd, scene->null_fd, scene->sockets[1]};
    assert_int_equal(fd_send(scene->sockets[0], "x", 1, sent, 3, 0), 1);
    assert_int_equal(fd_receive(scene->sockets[1], &byte, 1, &fd, 1, 0), 1);
    assert_true(is_same_file(fd, scene->null_fd));
    close(fd);
}

static void too_many_are_not_sent(void **state) {
    const struct scene *scene = *state;
    int sent[FD_PASS_MAX + 1];
    for (size_t i = 0; i < ARRAY_SIZE(sent); i++) sent[i] = scene->null_fd;
    assert_int_equal(fd_send(scene->sockets[0], "x", 1, sent, ARRAY_SIZE(sent), 0), -1);
    assert_int_equal(errno, EINVAL);
}

/* As a hostile process sends them. */
static void send_many(int socket_fd, int fd, size_t count) {
    enum { MOST = 16 };
    union {
        char bytes[CMSG_SPACE(MOST * sizeof(int))];
        struct cmsghdr header;
    } control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct msghdr message = {.msg_iov = &(struct iovec){(char *)"x", 1},
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(count * sizeof fd)};
    control.header.cmsg_len = CMSG_LEN(count * sizeof fd);
    for (size_t i = 0; i < count; i++) memcpy(CMSG_DATA(&control.header) + i * sizeof fd, &fd, sizeof fd);
    assert_int_equal(sendmsg(socket_fd, &message, MSG_NOSIGNAL), 1);
}

static void of_many_the_first_are_received(void **state) {
    const struct scene *scene = *state;
    int fds[FD_PASS_MAX];
    char byte;
    send_many(scene->sockets[0], scene->null_fd, FD_PASS_MAX + 3);
    assert_int_equal(fd_receive(scene->sockets[1], &byte, 1, fds, FD_PASS_MAX, 0), 1);
    for (size_t i = 0; i < FD_PASS_MAX; i++) {
        assert_true(is_same_file(fds[i], scene->null_fd));
        close(fds[i]);
    }
}

static void a_packet_that_does_not_fit_is_refused(void **state) {
    const struct scene *scene = *state;
    int fd;
    char text[4];
    assert_int_equal(fd_send(scene->sockets[0], "longer", 6, &scene->null_fd, 1, 0), 6);
    assert_int_equal(fd_receive(scene->sockets[1], text, sizeof text, &fd, 1, 0), -1);
    assert_int_equal(errno, EMSGSIZE);
    assert_int_equal(fd, -1);
}

static void nothing_there_and_the_end_are_told_apart(void **state) {
    struct scene *scene = *state;
    int fd;
    char byte;
    assert_int_equal(fd_receive(scene->sockets[1], &byte, 1, &fd, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    shutdown(scene->sockets[0], SHUT_RDWR);
    assert_int_equal(fd_receive(scene->sockets[1], &byte, 1, &fd, 1, 0), 0);
    assert_int_equal(fd_send(scene->sockets[1], "x", 1, NULL, 0, 0), -1);
    assert_int_equal(errno, EPIPE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(descriptors_come_with_the_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_may_have_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_than_wanted_are_closed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_many_are_not_sent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_many_the_first_are_received, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_packet_that_does_not_fit_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_there_and_the_end_are_told_apart, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
