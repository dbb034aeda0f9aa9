/* SPDX-License-Identifier: Apache-2.0 */
/* Looking whether a rank that is waited for can still come, while a job starts. */
#include "coll/team/liveness.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

int rg_pidfd_open(pid_t pid)
{
#ifdef SYS_pidfd_open
    return pid > 0 ? (int) syscall(SYS_pidfd_open, pid, 0) : -1;
#else
    (void) pid;
    return -1;
#endif
}

bool rg_process_ended(pid_t pid)
{
    int fd = rg_pidfd_open(pid);
    struct pollfd pfd = { fd, POLLIN, 0 };

    if (fd < 0)
        return pid > 0 && errno == ESRCH;
    bool ended = poll(&pfd, 1, 0) > 0;

    close(fd);
    return ended;
}

int rg_liveness_check(const struct rg_team *team, struct rg_boot *boot, struct rg_error *err)
{
    int rank = -1;
    struct rg_error cause = RG_ERROR_INIT;
    int r = rg_boot_poll_start(boot, &rank, &cause);

    for (int i = 0; r != 1 && r != -EHOSTDOWN && i < team->size; i++)
        if (i != team->rank && rg_process_ended(team->peers[i].pid)) {
            r = 1;
            rank = i;
            rg_error_set(&cause, ECONNRESET, "rank %d on %s died while the job started",
                         rg_team_world_rank(team, i), team->peers[i].host);
        }
    if (r != 1 && r != -EHOSTDOWN)
        return 0;
    if (r == 1)
        rg_boot_cut_off(boot, rank);
    *err = cause;
    return -cause.errnum;
}
