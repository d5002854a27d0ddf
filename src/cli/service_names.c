/* Services by name: the command line looks the name up, as its user, and once. The service gets an address. */
#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>

#include "cli/cli_internal.h"

/* "[NAME=]HOST:PORT", where HOST is neither an address nor a path: its length and place; 0: there is none. */
static size_t find_host(const char *text, const char **ret) {
    const char *equals = strchr(text, '='), *place = equals ? equals + 1 : text, *colon = strrchr(place, ':');
    struct in_addr address;
    char host[NI_MAXHOST];
    if (string_starts(place, "unix:") || place[0] == '[' || !colon) return 0;
    size_t length = (size_t)(colon - place);
    if (length == 0 || string_format(host, sizeof host, NULL, "%.*s", (int)length, place) < 0) return 0;
    *ret = place;
    return inet_pton(AF_INET, host, &address) == 1 || strcmp(host, "localhost") == 0 ? 0 : length;
}

static int look_up(const char *host, char ret[NI_MAXHOST], struct error *reterr) {
    static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list;
    char address[NI_MAXHOST];
    int failure = getaddrinfo(host, NULL, &hints, &list);
    if (failure) return error_set(reterr, E_INVALID, "%.80s: %s", host, gai_strerror(failure));
    bool is_v6 = list->ai_family == AF_INET6;
    failure = getnameinfo(list->ai_addr, list->ai_addrlen, address, sizeof address, NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(list);
    if (failure) return error_set(reterr, E_INVALID, "%.80s: %s", host, gai_strerror(failure));
    return string_format(ret, NI_MAXHOST, reterr, is_v6 ? "[%s]" : "%s", address);
}

static int resolve(const char *text, json_t **ret, struct error *reterr) {
    const char *place = text;
    char host[NI_MAXHOST], address[NI_MAXHOST];
    size_t length = find_host(text, &place);
    if (length == 0) return 0;
    int result = string_format(host, sizeof host, reterr, "%.*s", (int)length, place);
    if (result == 0) result = look_up(host, address, reterr);
    if (result == 0) *ret = json_sprintf("%.*s%s%s", (int)(place - text), text, address, place + length);
    return result;
}

int service_names_resolve(json_t *params, struct error *reterr) {
    size_t i;
    json_t *text, *services = json_object_get(params, "connect");
    json_array_foreach(services, i, text) {
        json_t *resolved = NULL;
        int result = resolve(json_string_value(text), &resolved, reterr);
        if (result < 0) return error_prefix(reterr, "--connect");
        if (resolved) json_array_set_new(services, i, resolved);
    }
    return 0;
}
