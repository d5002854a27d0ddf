/* Any bytes as what the kernel tells of refused packets, which hold what a node sent: each becomes an address that can
   be printed, of a node that there may be. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fuzz/harness/fuzz.h"
#include "launcher/egress/netlink.h"
#include "launcher/egress/network.h"

enum { REFUSALS_MAX = 32, DATAGRAM_MAX_BYTES = 32768 };

static int fds[2] = {-1, -1};

static void check(bool holds) {
    if (!holds) abort();
}

void fuzz_prepare(void) {
    check(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds) == 0);
}

static void check_refusal(const struct egress_refusal *refusal) {
    char host[JAIL_HOST_TEXT_BYTES];
    struct jail_host again;
    check(refusal->kind && refusal->kind[0]);
    check(memchr(refusal->bound, '\0', sizeof refusal->bound) &&
          memchr(refusal->protocol, '\0', sizeof refusal->protocol));
    jail_host_print(&refusal->host, host);
    check(jail_host_parse(host, &again, NULL) == 0 && again.is_v6 == refusal->host.is_v6 &&
          memcmp(again.address, refusal->host.address, sizeof again.address) == 0);
}

void fuzz_one(const uint8_t *data, size_t size) {
    struct egress_refusal refusals[REFUSALS_MAX];
    struct netlink netlink = {.fd = fds[0]};
    if (size > DATAGRAM_MAX_BYTES) return;
    check(send(fds[1], data, size, MSG_DONTWAIT) == (ssize_t)size);
    size_t count = egress_log_read(&netlink, refusals, REFUSALS_MAX);
    check(count <= REFUSALS_MAX);
    for (size_t i = 0; i < count; i++) check_refusal(&refusals[i]);
}
