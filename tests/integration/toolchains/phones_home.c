/* A library of a user's toolchain that tries what gains its user something: other users' files, the network, the
   service, its own files. What came of each it prints, in the place of what a VM says. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((visibility("default"))) int phones_home(void);

int phones_home(void) {
    return 3;
}

static void tell(const char *what, long result) {
    char line[96];
    int length = snprintf(line, sizeof line, "%s=%s ", what, result < 0 ? strerrorname_np(errno) : "DONE");
    if (write(STDOUT_FILENO, line, (size_t)length) < 0) _exit(4);
}

static long dial_out(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(80), .sin_addr.s_addr = htonl(0x08080808)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? fd : connect(fd, (struct sockaddr *)&address, sizeof address);
}

static long run_shell(void) {
    char *const arguments[] = {"/bin/sh", "-c", "id", NULL};
    return execv(arguments[0], arguments);
}

__attribute__((constructor)) static void phone_home(void) {
    tell("passwd", open("/etc/passwd", O_RDONLY | O_CLOEXEC));
    tell("shadow", open("/etc/shadow", O_RDONLY | O_CLOEXEC));
    tell("home", open("/home", O_RDONLY | O_CLOEXEC));
    tell("registry", open("/var/lib/sandbox", O_RDONLY | O_CLOEXEC));
    tell("change", open("/toolchain/otp/changed", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    tell("setuid", setuid(0));
    tell("network", dial_out());
    tell("shell", run_shell());
}
