/* The node's pid 1, already jailed: it filters itself and hands the listener out, starts the program, and from then on
   only reaps, and stops every process when it is told to. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/privileges.h"
#include "launcher/start/spawn.h"

enum { SYNC_FD = 3, SIGNALED_STATUS = 128 };

/* 0, 1, 2, the socket to the launcher, and room for the listener: nothing else of the launcher's stays open. */
static int arrange_descriptors(const struct spawn *spawn, struct error *reterr) {
    if (dup2(spawn->null_fd, STDIN_FILENO) < 0 || dup2(spawn->output_fd, STDOUT_FILENO) < 0 ||
        dup2(spawn->output_fd, STDERR_FILENO) < 0 ||
        (spawn->sync_fd != SYNC_FD && dup3(spawn->sync_fd, SYNC_FD, O_CLOEXEC) < 0) ||
        close_range(JAILED_LISTENER_FD, ~0U, 0) < 0)
        return error_errno(reterr, errno, "arrange descriptors");
    return 0;
}

static int install_silent_filter(const struct sock_fprog *filter, struct error *reterr) {
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, filter) < 0)
        return error_errno(reterr, errno, "install the system-call filter");
    return 0;
}

static int install_filter(const struct sock_fprog *filter, struct error *reterr) {
    /* Not WAIT_KILLABLE_RECV: a call taken by a launcher that then died must be open to interruption, or it waits for
       ever. */
    long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, filter);
    if (fd < 0) return error_errno(reterr, errno, "install the system-call filter");
    if (fd != JAILED_LISTENER_FD) return error_set(reterr, E_SYSTEM, "the listener is descriptor %ld", fd);
    return 0;
}

/* With the listener, where there is one. */
static int say_filtered(bool has_listener, struct error *reterr) {
    if (fd_send(SYNC_FD, "F", 1, (int[]){JAILED_LISTENER_FD}, has_listener, 0) < 0)
        return error_errno(reterr, errno, "hand out the listener");
    return 0;
}

static int enter_filter(const struct spawn *spawn, struct error *reterr) {
    bool notifies = launcher_notifies(spawn->launcher);
    if ((notifies ? install_filter : install_silent_filter)(spawn->filter, reterr) < 0) return -1;
    return say_filtered(notifies, reterr);
}

static char **collect_words(const struct jail_plan *plan, enum jail_plan_verb verb) {
    char **words = calloc(plan->count + 1, sizeof *words);
    size_t count = 0;
    for (size_t i = 0; words && i < plan->count; i++)
        if (plan->ops[i].verb == verb) words[count++] = plan->ops[i].words[0];
    return words;
}

/* The program's own process: everything but 0, 1 and 2 closes as it starts. */
static _Noreturn void start_program(const char *program, char *const *arguments, char *const *environment) {
    struct error error = {0};
    /* A file that would grow too large is an error to the writer, not its end; that it happened stays to be seen
       from outside. */
    sigset_t too_large;
    sigemptyset(&too_large);
    sigaddset(&too_large, SIGXFSZ);
    sigprocmask(SIG_BLOCK, &too_large, NULL);
    execve(program, arguments, environment);
    error_errno(&error, errno, "start %s", program);
    send(SYNC_FD, &error, sizeof error, MSG_NOSIGNAL);
    _exit(EXIT_FAILURE);
}

/* To all of the namespace but itself. The kernel does it in one step, before a fork or after it: no process is left
   out. */
static void stop_all(int number) {
    (void)number;
    kill(-1, SIGSTOP);
}

static void let_all_go_on(int number) {
    (void)number;
    kill(-1, SIGCONT);
}

/* The launcher's wishes where there is no freezer. When both came while it had no turn, the lower number is heard
   first, and none interrupts the other: every process goes on, unless the launcher insists. A node that sends them
   itself stops itself. */
static void hear_launcher(void) {
    struct sigaction stop = {.sa_handler = stop_all, .sa_flags = SA_RESTART}, go_on = stop;
    _Static_assert(JAILED_SIGNAL_STOP < JAILED_SIGNAL_GO_ON, "to go on is the last word");
    sigaddset(&stop.sa_mask, JAILED_SIGNAL_GO_ON);
    go_on.sa_handler = let_all_go_on;
    sigaction(JAILED_SIGNAL_STOP, &stop, NULL);
    sigaction(JAILED_SIGNAL_GO_ON, &go_on, NULL);
}

/* When the program ends so does the namespace with all that is in it. A signal is told as shells do. */
static _Noreturn void reap_until(pid_t program) {
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        if (pid == program) _exit(WIFSIGNALED(status) ? SIGNALED_STATUS + WTERMSIG(status) : WEXITSTATUS(status));
        if (pid < 0 && errno != EINTR) _exit(EXIT_FAILURE);
    }
}

/* The command line that the node can read of its init names nothing of the host. */
static void take_name(const struct launcher *launcher) {
    static const char name[] = "sandbox-init";
    prctl(PR_SET_NAME, name, 0, 0, 0);
    memset(launcher->command_line, 0, launcher->command_line_size);
    if (launcher->command_line_size >= sizeof name) memcpy(launcher->command_line, name, sizeof name);
}

int init_run(struct spawn *spawn, struct error *reterr) {
    const char *program = jail_plan_word(spawn->plan, JAIL_PLAN_PROGRAM, 0);
    CLEANUP_FREE char **arguments = collect_words(spawn->plan, JAIL_PLAN_ARGUMENT);
    CLEANUP_FREE char **environment = collect_words(spawn->plan, JAIL_PLAN_ENV);
    bool keeps_listener = spawn->launcher->root;
    if (!arguments || !environment) return error_set(reterr, E_NO_MEMORY, "no memory for arguments");
    /* Non-dumpable: the node must not reach into its init, which holds the listener. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) return error_errno(reterr, errno, "become non-dumpable");
    take_name(spawn->launcher);
    signals_reset();
    priority_reset();
    if (arrange_descriptors(spawn, reterr) < 0 || enter_filter(spawn, reterr) < 0) return -1;
    pid_t pid = fork();
    if (pid < 0) return error_errno(reterr, errno, "start the program's process");
    if (pid == 0) start_program(program, arguments, environment);
    close(SYNC_FD);
    /* Where no later launcher could take it, it is better closed: then forbidden calls fail instead of waiting. */
    if (!keeps_listener) close(JAILED_LISTENER_FD);
    hear_launcher();
    reap_until(pid);
}
