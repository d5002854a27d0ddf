/* What lies beside the launcher: the daemon's program and the agent. They are opened with the launcher's own rights,
   since an installation may lie where the daemon's uid can't go: a clone in a user's home. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "launcher/launcher.h"

static int find_own_folder(char ret[PATH_MAX], struct error *reterr) {
    ssize_t size = readlink("/proc/self/exe", ret, PATH_MAX - 1);
    if (size < 0) return error_errno(reterr, errno, "find the launcher's own program");
    ret[size] = '\0';
    *strrchr(ret, '/') = '\0';
    return 0;
}

int installation_open_daemon(int *ret_fd, struct error *reterr) {
    static const char *const places[] = {"sandboxd", "../libexec/sandbox/sandboxd"};
    char own[PATH_MAX], path[PATH_MAX];
    if (find_own_folder(own, reterr) < 0) return -1;
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        if (string_format(path, sizeof path, reterr, "%s/%s", own, places[i]) < 0) return -1;
        int fd = open(path, O_PATH | O_CLOEXEC);
        if (fd < 0) continue;
        *ret_fd = fd;
        return 0;
    }
    return error_set(reterr, E_NOT_FOUND, "there is no sandboxd beside %s or in ../libexec/sandbox", own);
}

void installation_find_agent(struct launcher *launcher) {
    static const char *const places[] = {"../lib/sandbox", "../../lib/sandbox"};
    char own[PATH_MAX], path[PATH_MAX];
    struct error ignored;
    launcher->agent[0] = '\0';
    if (find_own_folder(own, &ignored) < 0) return;
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        bool fits = string_format(path, sizeof path, &ignored, "%s/%s", own, places[i]) == 0;
        if (fits && realpath(path, launcher->agent)) return;
        launcher->agent[0] = '\0';
    }
}

bool installation_is_agent(const struct launcher *launcher, const char *path) {
    size_t length = strlen(launcher->agent);
    return length > 0 && strncmp(path, launcher->agent, length) == 0 && strcmp(path + length, "/ebin") == 0;
}

uint32_t installation_agent_stamp(const struct launcher *launcher) {
    char ebin[PATH_MAX + 8];
    snprintf(ebin, sizeof ebin, "%s/ebin", launcher->agent);
    DIR *directory = opendir(ebin);
    struct dirent *entry;
    struct stat status;
    time_t newest = 0;
    while (directory && (entry = readdir(directory)))
        if (fstatat(dirfd(directory), entry->d_name, &status, 0) == 0 && status.st_mtime > newest)
            newest = status.st_mtime;
    if (directory) closedir(directory);
    return (uint32_t)newest;
}
