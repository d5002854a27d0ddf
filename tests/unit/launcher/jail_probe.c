/* Runs inside a jail and says what it could do: each argument names an attempt, each answer is a line "name=result".
   Results are "ok", an errno's name, or a value. Linked statically: a jail needs nothing but this file. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/bpf.h>
#include <linux/keyctl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FLOOD = 2000, MANY = 24, RELAYS = 4, EXHAUST_BYTES = 64 << 20, GORGE_TIMES = 4 };

static const char *own_path;
static char lock_path[4096];

static void say(const char *name, long result) {
    printf("%s=%s\n", name, result < 0 ? strerrorname_np(errno) : "ok");
}

static void probe_ids(const char *name) {
    gid_t groups[16];
    int count = getgroups(16, groups);
    printf("%s=%u:%u:%d\n", name, getuid(), getgid(), count);
}

/* A field of /proc/self/status. */
static void say_status(const char *name, const char *field) {
    char line[256];
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0) printf("%s=%s", name, line + strlen(field) + 1);
    if (file) fclose(file);
}

static void probe_capabilities(const char *name) {
    unsigned in_bounding_set = 0;
    for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
        in_bounding_set += prctl(PR_CAPBSET_READ, capability, 0, 0, 0) > 0;
    printf("%s=%u\n", name, in_bounding_set);
    say_status("effective", "CapEff:");
    say_status("no_new_privs", "NoNewPrivs:");
    say_status("seccomp", "Seccomp:");
}

static void probe_pid(const char *name) {
    printf("%s=%d:%d\n", name, getpid(), getppid());
}

static void count_entries(const char *name, const char *path, const char *first) {
    int count = 0;
    DIR *directory = opendir(path);
    if (!directory) {
        say(name, -1);
        return;
    }
    for (struct dirent *entry; (entry = readdir(directory));) count += strchr(first, entry->d_name[0]) != NULL;
    closedir(directory);
    printf("%s=%d\n", name, count);
}

static void probe_processes(const char *name) {
    count_entries(name, "/proc", "123456789");
}

static void probe_descriptors(const char *name) {
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) count += fcntl(fd, F_GETFD) >= 0;
    printf("%s=%d\n", name, count);
}

static void probe_hostname(const char *name) {
    char host[65] = "";
    gethostname(host, sizeof host);
    printf("%s=%s\n", name, host);
}

static void probe_directory(const char *name) {
    char path[256] = "";
    printf("%s=%s\n", name, getcwd(path, sizeof path) ? path : "?");
}

static void say_open(const char *name, const char *path, int flags) {
    int fd = open(path, flags | O_CLOEXEC, 0600);
    say(name, fd);
    if (fd >= 0) close(fd);
}

static void probe_write_root(const char *name) {
    say_open(name, "/new", O_WRONLY | O_CREAT);
}

static void probe_write_data(const char *name) {
    say_open(name, "/data/new", O_WRONLY | O_CREAT);
}

static void probe_write_probe(const char *name) {
    say(name, access(own_path, W_OK)); /* opening it would fail anyway, since it runs */
}

static void probe_read_shadow(const char *name) {
    say_open(name, "/etc/shadow", O_RDONLY);
}

static void probe_read_unruled(const char *name) {
    say_open(name, "/unruled", O_RDONLY);
}

static void probe_init_memory(const char *name) {
    say_open(name, "/proc/1/mem", O_RDONLY);
}

static void probe_init_descriptors(const char *name) {
    count_entries(name, "/proc/1/fd", "0123456789");
}

static void probe_fill_data(const char *name) {
    static char block[65536];
    int fd = open("/data/full", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ssize_t written = 1;
    for (int i = 0; i < 1024 && written > 0; i++) written = write(fd, block, sizeof block);
    say(name, written);
}

static void probe_run_data(const char *name) {
    void *memory = MAP_FAILED;
    int fd = open("/data/code", O_RDWR | O_CREAT | O_CLOEXEC, 0700);
    if (fd >= 0 && ftruncate(fd, 4096) == 0) memory = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    say(name, memory == MAP_FAILED ? -1 : 0);
}

static void probe_mount(const char *name) {
    say(name, mount("none", "/data", "tmpfs", 0, NULL));
}

static void probe_ptrace(const char *name) {
    say(name, ptrace(PTRACE_SEIZE, 1, NULL, NULL));
}

static void probe_unshare(const char *name) {
    say(name, unshare(CLONE_NEWUSER));
}

static void probe_bpf(const char *name) {
    union bpf_attr attributes = {0};
    say(name, syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes));
}

static void probe_keyctl(const char *name) {
    say(name, syscall(SYS_keyctl, 0, 0, 0, 0, 0));
}

static void probe_inet(const char *name) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    say(name, fd);
}

static void probe_packet(const char *name) {
    say(name, socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
}

/* Listen and connect over the loopback. */
static void probe_loopback(const char *name) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
        client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server < 0 || bind(server, (struct sockaddr *)&address, sizeof address) < 0 || listen(server, 1) < 0 ||
        getsockname(server, (struct sockaddr *)&address, &size) < 0) {
        say(name, -1);
        return;
    }
    say(name, connect(client, (struct sockaddr *)&address, sizeof address));
}

static void probe_kill(const char *name) {
    say(name, kill(1, SIGKILL));
}

static void probe_exec(const char *name) {
    pid_t pid = fork();
    int status = -1;
    if (pid == 0) {
        execl(own_path, own_path, (char *)NULL);
        _exit(errno);
    }
    waitpid(pid, &status, 0);
    errno = WEXITSTATUS(status);
    say(name, errno ? -1 : 0);
}

static void probe_flood(const char *name) {
    for (int i = 0; i < FLOOD; i++) unshare(CLONE_NEWUSER);
    printf("%s=%d\n", name, FLOOD);
}

/* With a path that lies in a file, whose file system may never say what it holds. */
static void probe_mount_held(const char *name) {
    int fd = open("/served/held", O_RDONLY | O_CLOEXEC);
    const char *path = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    printf("mapped=%s\n", path == MAP_FAILED ? strerrorname_np(errno) : "ok");
    say(name, mount("none", path, "tmpfs", 0, NULL));
}

static void probe_app(const char *name) {
    say_open(name, "/app/one/file", O_RDONLY);
    say_open("app_write", "/app/one/new", O_WRONLY | O_CREAT);
}

static void probe_project(const char *name) {
    char text[64] = "";
    int fd = open("/src/private", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
        say(name, -1);
    else
        printf("%s=%s\n", name, text);
    say_open("project_write", "/src/new", O_WRONLY | O_CREAT);
}

/* What was handed over at /mnt/d, as far as it goes. */
static void probe_folder(const char *name) {
    char text[64] = "";
    struct stat status;
    int fd = open("/mnt/d/private", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
        say(name, -1);
    else
        printf("%s=%s\n", name, text);
    say_open("folder_others", "/mnt/d/others", O_RDONLY);
    say_open("folder_write", "/mnt/d/new", O_WRONLY | O_CREAT);
    say("folder_device", mknod("/mnt/d/disk", S_IFBLK | 0600, 7 << 8));
    say("folder_link", link("/mnt/d/others", "/mnt/d/linked"));
    say("folder_above", stat("/mnt/d/../d/../../proc/1/root/etc", &status));
    say_open("folder_beside", "/mnt/beside", O_WRONLY | O_CREAT);
    printf("folder_ids=%d:%d\n", stat("/mnt/d", &status) < 0 ? -1 : (int)status.st_uid,
           stat("/mnt/d/others", &status) < 0 ? -1 : (int)status.st_uid);
}

static void probe_exhaust(const char *name) {
    char *memory = mmap(NULL, EXHAUST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, EXHAUST_BYTES);
    say(name, memory[EXHAUST_BYTES - 1] == 1 ? 0 : -1);
}

/* More than a node needs by far, and less than it is given. */
static void probe_hold(const char *name) {
    enum { HELD_BYTES = 24 << 20 };
    char *held = mmap(NULL, HELD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(held, 1, HELD_BYTES);
    say(name, held[HELD_BYTES - 1] == 1 ? 0 : -1);
}

static void probe_data_size(const char *name) {
    struct statvfs status;
    if (statvfs("/data", &status) == 0)
        printf("%s=%llu\n", name, (unsigned long long)(status.f_blocks * status.f_frsize));
    else
        say(name, -1);
}

/* In the daemon's place: what keeps a second launcher from starting another. */
static void probe_hold_lock(const char *name) {
    int fd = open(lock_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    say(name, fd < 0 || fcntl(fd, F_SETLK, &lock) < 0 ? -1 : dprintf(fd, "%d\n", getpid()));
}

static void probe_session(const char *name) {
    mode_t mask = umask(0);
    printf("%s=%s umask=%o\n", name, getsid(0) == getpid() ? "own" : "another's", mask);
    say("input", lseek(STDIN_FILENO, 0, SEEK_CUR)); /* of a pipe or a socket it fails */
}

static void probe_environment(const char *name) {
    printf("%s=%s:%s:%s\n", name, getenv("PATH") ? "path" : "", getenv("SANDBOX_TEST") ? "ours" : "",
           getenv("SECRET") ? "secret" : "");
}

static void probe_session_key(const char *name) {
    say(name, syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", "sandbox-test", 0));
}

static void probe_crash(const char *name) {
    (void)name;
    raise(SIGSEGV);
}

static void probe_spin(const char *name) {
    (void)name;
    for (volatile bool forever = true; forever;) continue;
}

/* Many that spin, besides itself. */
static void probe_many(const char *name) {
    for (int i = 0; i < MANY; i++) {
        pid_t pid = fork();
        if (pid == 0) probe_spin(name);
        if (pid < 0) break;
    }
    printf("%s=%d\n", name, MANY);
    probe_spin(name);
}

/* Starts another process and ends; so does that one. None is there for long enough to be looked at. */
static void run_relay(volatile unsigned long *count) {
    for (;;) {
        pid_t next = fork();
        if (next > 0) _exit(0);
        if (next == 0) (*count)++;
    }
}

static void probe_relay(const char *name) {
    int fd = open("/data/relay", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *count = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, 4096) == 0) count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int i = 0; count != MAP_FAILED && i < RELAYS; i++)
        if (fork() == 0) run_relay(count);
    say(name, count == MAP_FAILED ? -1 : 0);
    for (;;) pause();
}

static void probe_wait(const char *name) {
    (void)name;
    for (;;) pause();
}

/* A forbidden call every 5 ms, for as long as it lives. */
static void probe_insist(const char *name) {
    (void)name;
    for (;; poll(NULL, 0, 5)) unshare(CLONE_NEWUSER);
}

/* More than a daemon of a test may have; one that may waits. */
static void probe_gorge(const char *name) {
    for (int i = 0; i < GORGE_TIMES; i++) {
        void *block = mmap(NULL, EXHAUST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block != MAP_FAILED) memset(block, 1, EXHAUST_BYTES);
    }
    probe_wait(name);
}

static int signal_pipe[2];

static void on_signal(int number) {
    if (write(signal_pipe[1], &number, 1) < 0) _exit(EXIT_FAILURE);
}

/* Until the test says that something is ready. */
static void probe_signal(const char *name) {
    char byte;
    ssize_t got = -1;
    if (pipe2(signal_pipe, O_CLOEXEC) == 0 && signal(SIGUSR1, on_signal) != SIG_ERR) {
        printf("listening=ok\n");
        do {
            got = read(signal_pipe[0], &byte, 1);
        } while (got < 0 && errno == EINTR);
    }
    say(name, got);
}

static void probe_fail(const char *name) {
    (void)name;
    exit(7);
}

static const struct {
    const char *name;
    void (*run)(const char *name);
} probes[] = {
    {"ids", probe_ids},
    {"capabilities", probe_capabilities},
    {"pid", probe_pid},
    {"processes", probe_processes},
    {"descriptors", probe_descriptors},
    {"hostname", probe_hostname},
    {"directory", probe_directory},
    {"write_root", probe_write_root},
    {"write_data", probe_write_data},
    {"write_probe", probe_write_probe},
    {"read_shadow", probe_read_shadow},
    {"read_unruled", probe_read_unruled},
    {"init_memory", probe_init_memory},
    {"init_descriptors", probe_init_descriptors},
    {"fill_data", probe_fill_data},
    {"run_data", probe_run_data},
    {"mount", probe_mount},
    {"ptrace", probe_ptrace},
    {"unshare", probe_unshare},
    {"bpf", probe_bpf},
    {"keyctl", probe_keyctl},
    {"inet", probe_inet},
    {"packet", probe_packet},
    {"loopback", probe_loopback},
    {"kill", probe_kill},
    {"exec", probe_exec},
    {"flood", probe_flood},
    {"mount_held", probe_mount_held},
    {"app", probe_app},
    {"project", probe_project},
    {"folder", probe_folder},
    {"exhaust", probe_exhaust},
    {"hold", probe_hold},
    {"data_size", probe_data_size},
    {"hold_lock", probe_hold_lock},
    {"session", probe_session},
    {"environment", probe_environment},
    {"session_key", probe_session_key},
    {"crash", probe_crash},
    {"spin", probe_spin},
    {"many", probe_many},
    {"relay", probe_relay},
    {"insist", probe_insist},
    {"signal", probe_signal},
    {"wait", probe_wait},
    {"gorge", probe_gorge},
    {"fail", probe_fail},
};

int main(int count, char **arguments) {
    own_path = arguments[0];
    if (count > 2) snprintf(lock_path, sizeof lock_path, "%s/daemon.lock", arguments[2]); /* after --home */
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int i = 1; i < count; i++)
        for (size_t j = 0; j < sizeof probes / sizeof probes[0]; j++)
            if (strcmp(probes[j].name, arguments[i]) == 0) probes[j].run(probes[j].name);
    return 0;
}
