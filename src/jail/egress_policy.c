/* What a node may reach, as text and as values. Pure. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "jail/egress_policy.h"
#include "jail/plan.h"

enum { V4_BITS = 32, V6_BITS = 128, PORT_MAX = 65535, LABEL_MAX = 63, PORTS_TEXT_BYTES = 16 };

static const char *const network_names[] = {"none", "loopback", "outgoing"};
static const char *const reach_names[] = {"listed", "public", "anywhere"};

const char *jail_network_name(enum jail_network network) {
    return network_names[network];
}

const char *jail_reach_name(enum jail_reach reach) {
    return reach_names[reach];
}

int jail_reach_find(const char *name, enum jail_reach *ret) {
    for (size_t i = 0; i < ARRAY_SIZE(reach_names); i++) {
        if (strcmp(reach_names[i], name) != 0) continue;
        *ret = (enum jail_reach)i;
        return 0;
    }
    return -1;
}

static bool parse_port(const char *text, uint16_t *ret) {
    uint64_t number;
    if (!parse_u64(text, &number) || number == 0 || number > PORT_MAX) return false;
    *ret = (uint16_t)number;
    return true;
}

/* "443", "8000-8010" */
static bool parse_ports(char *text, struct jail_host *host) {
    char *dash = strchr(text, '-');
    if (dash) *dash++ = '\0';
    return parse_port(text, &host->first_port) && parse_port(dash ? dash : text, &host->last_port) &&
           host->first_port <= host->last_port;
}

/* "10.1.0.0/16", "2001:db8::1" */
static bool parse_prefix(char *text, struct jail_host *host) {
    uint64_t bits, most;
    char *slash = strchr(text, '/');
    if (slash) *slash++ = '\0';
    host->is_v6 = strchr(text, ':') != NULL;
    most = bits = host->is_v6 ? V6_BITS : V4_BITS;
    if (inet_pton(host->is_v6 ? AF_INET6 : AF_INET, text, host->address) != 1) return false;
    if (slash && (!parse_u64(slash, &bits) || bits > most)) return false;
    host->bits = (uint8_t)bits;
    return true;
}

/* Where the address ends and the ports begin; NULL: there are none. In a v6 address a colon means something else. */
static char *cut_ports(char **text) {
    char *end, *colon;
    if (**text == '[') {
        end = strchr(++*text, ']');
        if (!end) return *text; /* no ports can be read there, which fails it */
        *end = '\0';
        return end[1] ? end + 1 + (end[1] == ':') : NULL;
    }
    colon = strchr(*text, ':');
    if (!colon || strchr(colon + 1, ':')) return NULL;
    *colon = '\0';
    return colon + 1;
}

static void clear_rest(struct jail_host *host) {
    for (unsigned bit = host->bits; bit < V6_BITS; bit++)
        host->address[bit / 8] = (uint8_t)(host->address[bit / 8] & ~(0x80u >> bit % 8));
}

int jail_host_parse(const char *text, struct jail_host *ret, struct error *reterr) {
    char copy[JAIL_HOST_TEXT_BYTES], *address = copy;
    struct jail_host host = {0};
    bool fits = string_format(copy, sizeof copy, NULL, "%s", text) == 0;
    char *ports = fits ? cut_ports(&address) : NULL;
    if (!fits || !parse_prefix(address, &host) || (ports && !parse_ports(ports, &host)))
        return error_set(reterr, E_INVALID,
                         "'%.60s' is no host; it is an address or ADDRESS/BITS, and may end with :PORT or :FIRST-LAST "
                         "(a v6 address with ports is in brackets)",
                         text);
    clear_rest(&host);
    *ret = host;
    return 0;
}

static void print_ports(uint16_t first, uint16_t last, char ret[PORTS_TEXT_BYTES]) {
    *ret = '\0';
    if (first && first == last)
        snprintf(ret, PORTS_TEXT_BYTES, ":%u", first);
    else if (first)
        snprintf(ret, PORTS_TEXT_BYTES, ":%u-%u", first, last);
}

void jail_host_print(const struct jail_host *host, char ret[JAIL_HOST_TEXT_BYTES]) {
    char address[INET6_ADDRSTRLEN], bits[8] = "", ports[PORTS_TEXT_BYTES];
    bool is_whole = host->bits == (host->is_v6 ? V6_BITS : V4_BITS), brackets = host->is_v6 && host->first_port;
    inet_ntop(host->is_v6 ? AF_INET6 : AF_INET, host->address, address, sizeof address);
    if (!is_whole) snprintf(bits, sizeof bits, "/%u", host->bits);
    print_ports(host->first_port, host->last_port, ports);
    snprintf(ret, JAIL_HOST_TEXT_BYTES, "%s%s%s%s%s", brackets ? "[" : "", address, bits, brackets ? "]" : "", ports);
}

/* Labels of letters, digits and dashes; the last one has a letter, or it would be an address. */
static bool is_domain(const char *text) {
    const char *last = strrchr(text, '.');
    for (const char *label = text;; label++) {
        size_t length = strspn(label, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-");
        if (length == 0 || length > LABEL_MAX || label[0] == '-' || label[length - 1] == '-') return false;
        label += length;
        if (*label == '\0') break;
        if (*label != '.') return false;
    }
    return strpbrk(last ? last : text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") != NULL;
}

int jail_named_parse(const char *text, struct jail_named *ret, struct error *reterr) {
    char copy[JAIL_DOMAIN_BYTES + PORTS_TEXT_BYTES], *name = copy;
    struct jail_host host = {0};
    bool fits = string_format(copy, sizeof copy, NULL, "%s", text) == 0;
    char *ports = fits ? cut_ports(&name) : NULL;
    struct jail_named named = {0};
    if (!fits || !is_domain(name) || string_format(named.name, sizeof named.name, NULL, "%s", name) < 0 ||
        (ports && !parse_ports(ports, &host)))
        return error_set(reterr, E_INVALID,
                         "'%.60s' is no host; it is a name, an address or ADDRESS/BITS, and may end with :PORT or "
                         ":FIRST-LAST (a v6 address with ports is in brackets)",
                         text);
    named.first_port = host.first_port;
    named.last_port = host.last_port;
    *ret = named;
    return 0;
}

void jail_named_print(const struct jail_named *named, struct buf *ret) {
    char ports[PORTS_TEXT_BYTES];
    print_ports(named->first_port, named->last_port, ports);
    buf_printf(ret, "%s%s", named->name, ports);
}

struct jail_egress jail_egress_bounded(const struct jail_egress *egress, const struct jail_limits *limits) {
    struct jail_egress bounded = *egress;
    bounded.network_rate_bytes = limits->network_rate_bytes;
    bounded.network_total_bytes = limits->network_total_bytes;
    bounded.connections = limits->connections;
    return bounded;
}

struct jail_limits jail_egress_bounds(const struct jail_egress *egress) {
    return (struct jail_limits){.network_rate_bytes = egress->network_rate_bytes,
                                .network_total_bytes = egress->network_total_bytes,
                                .connections = egress->connections};
}

void jail_egress_resolve(struct jail_egress *egress, const struct jail_host *hosts, size_t count) {
    egress->resolved_count = count < JAIL_RESOLVED_MAX ? count : JAIL_RESOLVED_MAX;
    if (count) memcpy(egress->resolved, hosts, egress->resolved_count * sizeof *hosts);
}

/* ---- as lines of a plan ---- */

static int write_hosts(struct jail_plan *plan, enum jail_plan_verb verb, const struct jail_host *hosts, size_t count,
                       struct error *reterr) {
    int result = 0;
    for (size_t i = 0; result == 0 && i < count; i++) {
        char host[JAIL_HOST_TEXT_BYTES];
        jail_host_print(&hosts[i], host);
        result = plan_add(plan, verb, host, NULL, 0, reterr);
    }
    return result;
}

int egress_write_resolved(const struct jail_host *hosts, size_t count, struct jail_plan *plan, struct error *reterr) {
    return write_hosts(plan, JAIL_PLAN_RESOLVED, hosts, count, reterr);
}

int egress_write(const struct jail_egress *egress, struct jail_plan *plan, struct error *reterr) {
    int result = plan_add(plan, JAIL_PLAN_REACH, jail_reach_name(egress->reach), NULL, 0, reterr);
    if (result == 0) result = write_hosts(plan, JAIL_PLAN_HOST, egress->hosts, egress->host_count, reterr);
    if (result == 0) result = egress_write_resolved(egress->resolved, egress->resolved_count, plan, reterr);
    for (size_t i = 0; result == 0 && i < egress->port_count; i++)
        result = plan_add(plan, JAIL_PLAN_PORT, NULL, NULL, egress->ports[i], reterr);
    return result;
}

/* By their lines, which say all of it. */
bool egress_is_same(const struct jail_egress *left, const struct jail_egress *right) {
    CLEANUP(jail_plan_free) struct jail_plan left_plan = {0};
    CLEANUP(jail_plan_free) struct jail_plan right_plan = {0};
    CLEANUP(buf_free) struct buf left_text = BUF_INIT;
    CLEANUP(buf_free) struct buf right_text = BUF_INIT;
    if (egress_write(left, &left_plan, NULL) < 0 || egress_write(right, &right_plan, NULL) < 0) return false;
    jail_plan_print(&left_plan, &left_text);
    jail_plan_print(&right_plan, &right_text);
    return !left_text.failed && !right_text.failed && string_equal(buf_string(&left_text), buf_string(&right_text));
}

static int read_host(const char *text, struct jail_host *hosts, size_t max, size_t *count, struct error *reterr) {
    if (*count == max) return error_set(reterr, E_INVALID, "the plan has too many hosts");
    return jail_host_parse(text, &hosts[(*count)++], reterr);
}

static int read_line(const struct jail_plan_op *op, struct jail_egress *egress, struct error *reterr) {
    switch (op->verb) {
    case JAIL_PLAN_HOST: return read_host(op->words[0], egress->hosts, JAIL_HOSTS_MAX, &egress->host_count, reterr);
    case JAIL_PLAN_RESOLVED:
        return read_host(op->words[0], egress->resolved, JAIL_RESOLVED_MAX, &egress->resolved_count, reterr);
    case JAIL_PLAN_PORT:
        if (egress->port_count == JAIL_PORTS_MAX || op->number == 0 || op->number > PORT_MAX)
            return error_set(reterr, E_INVALID, "the plan has too many ports, or one that is none");
        egress->ports[egress->port_count++] = (uint16_t)op->number;
        return 0;
    default: return 0;
    }
}

int egress_read_resolved(const struct jail_plan *plan, struct jail_egress *egress, struct error *reterr) {
    struct jail_egress read = {0};
    for (size_t i = 0; i < plan->count; i++)
        if (plan->ops[i].verb == JAIL_PLAN_RESOLVED && read_line(&plan->ops[i], &read, reterr) < 0) return -1;
    memcpy(egress->resolved, read.resolved, sizeof read.resolved);
    egress->resolved_count = read.resolved_count;
    return 0;
}

int egress_read(const struct jail_plan *plan, struct jail_egress *ret, struct error *reterr) {
    struct jail_egress egress = {0};
    struct jail_limits limits;
    const char *reach = jail_plan_word(plan, JAIL_PLAN_REACH, 0);
    if (!reach || jail_reach_find(reach, &egress.reach) < 0)
        return error_set(reterr, E_INVALID, "the plan does not say how far its egress reaches");
    for (size_t i = 0; i < plan->count; i++)
        if (read_line(&plan->ops[i], &egress, reterr) < 0) return -1;
    if (plan_limits(plan, &limits, reterr) < 0) return -1;
    *ret = jail_egress_bounded(&egress, &limits);
    return 0;
}
