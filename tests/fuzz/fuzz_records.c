/* Any text as what the launcher keeps beside the records of its nodes, which without root the daemon's user can write:
   a record, a permission, the keeper of egress, a policy. What is read can be written, and reads back the same. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/harness/fuzz.h"
#include "fuzz/harness/place.h"
#include "jail/egress_policy.h"
#include "jail/plan.h"
#include "launcher/egress/egress.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/ports/ports.h"
#include "launcher/project/project.h"
#include "launcher/record.h"

static struct launcher *launcher;

static void check(bool holds) {
    if (!holds) abort();
}

void fuzz_prepare(void) {
    launcher = calloc(1, sizeof *launcher);
    check(launcher != NULL);
    launcher->log = (struct log){-1, LOG_ERROR_LEVEL + 1};
    launcher->ports.items = calloc(JAIL_PORTS_OF_LAUNCHER, sizeof *launcher->ports.items);
    check(launcher->ports.items != NULL);
    check(jail_port_ranges_parse("0.0.0.0/0, ::/0", &launcher->publish_ranges, NULL) == 0 &&
          jail_port_ranges_parse("0.0.0.0/0, ::/0", &launcher->connect_ranges, NULL) == 0);
    launcher->slot.records_fd = open(place_path(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check(launcher->slot.records_fd >= 0);
}

static void read_record(void) {
    struct error error = {0};
    struct jailed_node node, again;
    if (record_read(launcher, "n1", &node, &error) < 0) {
        check(error.code != E_NONE && error.detail[0]);
        return;
    }
    check(node.pid >= 2 && strcmp(node.name, "n1") == 0 && node.pidfd < 0);
    memcpy(node.name, "n2", 3);
    check(record_write(launcher, &node, NULL) == 0 && record_read(launcher, "n2", &again, NULL) == 0);
    check(again.pid == node.pid && again.start_time == node.start_time && again.uid == node.uid &&
          again.execs_max == node.execs_max && again.execs_used == node.execs_used &&
          again.counts_execs == node.counts_execs);
}

static void read_grant(bool is_toolchain) {
    struct error error = {0};
    struct grant grant, again;
    if (grant_read(launcher, "n1", is_toolchain, &grant, &error) < 0) {
        check(error.code != E_NONE && error.detail[0]);
        return;
    }
    check(path_is_clean(grant.path) && grant.caller.group_count <= CALLER_GROUPS_MAX);
    check(!is_toolchain || project_is_below(grant.path, grant.below));
    check(is_toolchain == (grant.below[0] != '\0'));
    if (grant_write(launcher, "n2", &grant, NULL) < 0) return; /* written, it may be longer than it was */
    check(grant_read(launcher, "n2", is_toolchain, &again, NULL) == 0 && strcmp(grant.path, again.path) == 0 &&
          strcmp(grant.below, again.below) == 0);
    check(again.caller.uid == grant.caller.uid && again.caller.gid == grant.caller.gid &&
          again.caller.group_count == grant.caller.group_count &&
          memcmp(again.caller.groups, grant.caller.groups, grant.caller.group_count * sizeof *grant.caller.groups) ==
              0);
}

static void read_policy(void) {
    struct jailed_node node = {.name = "n1"}, again = {.name = "n2"};
    struct error error = {0};
    if (egress_policy_read(launcher, &node, &error) < 0) {
        check(error.code != E_NONE && error.detail[0] && !node.egress);
        return;
    }
    check(node.egress->host_count <= JAIL_HOSTS_MAX && node.egress->resolved_count <= JAIL_RESOLVED_MAX &&
          node.egress->port_count <= JAIL_PORTS_MAX);
    memcpy(node.name, "n2", 3);
    if (egress_policy_write(launcher, &node, NULL) == 0) {
        check(egress_policy_read(launcher, &again, NULL) == 0);
        check(again.egress && egress_is_same(node.egress, again.egress));
    }
    free(again.egress);
    free(node.egress);
}

/* One that is taken over is written anew, at its new place, and reads back the same. */
static void read_port(void) {
    struct launcher_port first;
    ports_adopt(launcher);
    /* One that no sandbox may have is gone at once. */
    bool is_read = launcher->ports.end > 0 && launcher->ports.items[0].state != PORT_FREE;
    if (is_read) {
        first = launcher->ports.items[0];
        check(first.state == PORT_KEPT && plan_name_is_valid(first.set) && first.forwarder.pidfd < 0);
        check(first.caller.group_count <= CALLER_GROUPS_MAX && first.inside <= JAIL_PORT_NAMES_MAX);
    }
    launcher->ports.items[0].state = PORT_FREE;
    launcher->ports.end = 0;
    ports_adopt(launcher);
    check(!is_read || (launcher->ports.end == 1 && jail_port_is_same(&launcher->ports.items[0].port, &first.port)) ||
          (first.port.way == JAIL_PORT_IN && first.port.host.first_port == 0));
    if (launcher->ports.end > 0) ports_remove(launcher, &launcher->ports.items[0]);
    launcher->ports.end = 0;
}

void fuzz_one(const uint8_t *data, size_t size) {
    place_write("n1", data, size);
    place_write(".grant-n1", data, size);
    place_write(".toolchain-n1", data, size);
    place_write(".egress", data, size);
    place_write(".egress-n1", data, size);
    place_write(".port-7", data, size);
    read_record();
    read_grant(false);
    read_grant(true);
    read_policy();
    egress_record_read(launcher);
    read_port();
}
