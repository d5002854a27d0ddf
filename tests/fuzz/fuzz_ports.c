/* Any text as a port: what is read is printed as text that is read back as the same, and what is refused to every
   sandbox stays so. The input: a byte for the way, then the text. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/harness/fuzz.h"
#include "jail/ports.h"

static void check(bool holds) {
    if (!holds) abort();
}

void fuzz_one(const uint8_t *data, size_t size) {
    struct jail_port port, again;
    struct jail_port_ranges ranges;
    char text[JAIL_PORT_TEXT_BYTES], back[JAIL_PORT_TEXT_BYTES];
    if (size == 0) return;
    enum jail_port_way way = data[0] & 1 ? JAIL_PORT_OUT : JAIL_PORT_IN;
    char *input = strndup((const char *)data + 1, size - 1);
    check(input != NULL);
    if (jail_port_ranges_parse(input, &ranges, NULL) < 0) ranges.count = 0;
    if (jail_port_parse(way, input, &port, NULL) == 0) {
        jail_port_print(&port, text);
        check(jail_port_parse(way, text, &again, NULL) == 0);
        jail_port_print(&again, back);
        check(strcmp(text, back) == 0);
        check(memcmp(&port.host, &again.host, sizeof port.host) == 0 && port.port == again.port &&
              port.proxy == again.proxy && port.protocol == again.protocol);
        check(jail_port_check(&port, &ranges, NULL) == jail_port_check(&again, &ranges, NULL));
        if (way == JAIL_PORT_IN) check(port.port != 0);
    }
    free(input);
}
