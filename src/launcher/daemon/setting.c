/* Settings of the daemon that the launcher goes by itself: found where the daemon looks for them, in the same order. */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "launcher/daemon/daemon.h"
#include "launcher/home.h"
#include "launcher/launcher.h"

enum { CONF_BYTES = 65536, NAME_BYTES = 64 };

/* "--name VALUE" or "--name=VALUE". */
static const char *option_value(char *const *options, const char *name) {
    size_t length = strlen(name);
    const char *value = NULL;
    for (; options && *options; options++) {
        if (!string_starts(*options, "--") || strncmp(*options + 2, name, length) != 0) continue;
        const char *rest = *options + 2 + length;
        if (!*rest && options[1]) value = options[1];
        if (*rest == '=') value = rest + 1;
    }
    return value;
}

/* "publish-addresses": SANDBOX_PUBLISH_ADDRESSES */
static const char *environment_value(const char *name) {
    char variable[NAME_BYTES];
    snprintf(variable, sizeof variable, "SANDBOX_%s", name);
    for (char *at = variable; *at; at++) *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
    return getenv(variable);
}

/* "name = value", cut out of the text; lines from the first section on are of profiles. */
static const char *line_value(char *text, const char *name) {
    for (char *line; (line = strsep(&text, "\n")) && line[0] != '[';) {
        char *equals = strchr(line, '=');
        if (!equals) continue;
        *equals = '\0';
        if (strcmp(string_trim(line), name) != 0) continue;
        char *value = equals + 1;
        value[strcspn(value, "#")] = '\0';
        return string_trim(value);
    }
    return NULL;
}

/* The file may be the daemon's, so it is read with that one's rights, and no more of it than this. */
static void read_conf(const struct launcher *launcher, char ret[CONF_BYTES]) {
    struct stat status;
    fs_rights_of_daemon(launcher);
    CLEANUP_FD int fd = openat(launcher->home.fd, "sandbox.conf", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    fs_rights_restore(launcher);
    bool is_file = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    ssize_t size = is_file ? read(fd, ret, CONF_BYTES - 1) : 0;
    ret[size > 0 ? size : 0] = '\0';
}

bool daemon_setting(const struct launcher *launcher, const char *name, char ret[DAEMON_SETTING_BYTES]) {
    char conf[CONF_BYTES];
    const char *value = option_value(launcher->daemon.options, name);
    if (!value) value = environment_value(name);
    if (!value) {
        read_conf(launcher, conf);
        value = line_value(conf, name);
    }
    return value && string_format(ret, DAEMON_SETTING_BYTES, NULL, "%s", value) == 0;
}
