/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a child process, with the cause when it cannot be started.
 *
 * The child is made by vfork-like clone or fork; the failure of chdir or exec in the child is
 * reported to the caller through a close-on-exec pipe, so that "not found" and "not executable"
 * are known before rg_spawn returns.
 *
 * Thread rule: main thread of a program. Blocks until the child has called exec (microseconds).
 */
#ifndef RG_BASE_PROCESS_SPAWN_H
#define RG_BASE_PROCESS_SPAWN_H

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

struct rg_spawn {
    char *const *argv;         /* argv[0] is looked up in PATH of envp unless it has a slash */
    char *const *envp;         /* NULL: the caller's */
    const char *cwd;           /* NULL: the caller's */
    int fds[3];                /* become 0, 1, 2; -1: /dev/null. Borrowed. */
    int extra_fd;              /* becomes 3 in the child when extra_fd_set; borrowed */
    bool extra_fd_set;
    bool new_session;          /* setsid: own session and process group */
    bool new_group;            /* setpgid only */
    bool controlling_tty;      /* with new_session: fds[0] becomes the controlling terminal */
    int death_signal;          /* PR_SET_PDEATHSIG, 0 for none */
    const cpu_set_t *affinity; /* NULL: the caller's */
    const struct rlimit *nofile; /* RLIMIT_NOFILE; NULL: the caller's */
};

/* Start it. All signals are unblocked and set to their defaults in the child. 0 and *ret_pid;
 * -ENOENT (exit_code 127 in err), -EACCES or -ENOEXEC (126), -ENOTDIR/-ENOENT for cwd (2), or
 * another -errno; err names the program and the cause. */
int rg_spawn(const struct rg_spawn *spec, pid_t *ret_pid, struct rg_error *err);

/* Run a program in a session of its own, to its end or for so long, and keep the beginning of what
 * it writes to standard output, with all to standard error as well: NUL-terminated, "" without any.
 * What it leaves behind is not waited for. argv, envp: as of rg_spawn. Its exit code, or 128 + n;
 * -ETIMEDOUT when it was killed for not ending; -ECHILD: somebody else has waited for it; -errno of
 * rg_spawn. Blocks. */
int rg_capture(const char *const *argv, char *const *envp, bool all, unsigned timeout_ms,
               char *ret_text, size_t room);
/* The same of all of its standard output, at most max_nbytes, into *ret_text, which is the caller's
 * then. -EFBIG: it has written more; -ENOMEM. */
int rg_spawn_ask(char *const *argv, unsigned timeout_ms, size_t max_nbytes, char **ret_text);

/* The file that a PATH has for a program of this name, of so many bytes: the first that is no
 * folder and may be run. path: NULL for the directories that are usual. False: there is none. */
bool rg_path_find(const char *path, const char *name, size_t length, char ret_path[PATH_MAX]);

/* Wait for a child to end, for at most so long; then it, and its process group if it leads one, is
 * killed and waited for. Its wait status. */
int rg_spawn_wait(pid_t pid, uint64_t timeout_ms);

/* Take out of an environment what ties a process to the launcher that started it as one rank of
 * many (mpirun, srun, torchrun, horovodrun): for children that are ranks of another job, which
 * would take themselves for that rank. Cannot fail. */
void rg_env_forget_launchers(struct rg_strv *env);

/* What a wait status means: the exit code, or 128 + n for signal n. */
int rg_status_code(int wait_status);

/* "exit code 7", "signal 9 (Killed)": into buf, which is returned. */
const char *rg_status_text(int wait_status, char *buf, size_t nbytes);

#endif
