/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Started by a process manager that speaks PMI (Hydra's mpirun of MPICH and Intel MPI, srun
 * --mpi=pmi2), in a process without an MPI library, which would speak to it itself.
 *
 * The manager takes a process that greets it and ends without saying goodbye for one that has
 * crashed, and one that says goodbye cannot greet again. So the connection stays over
 * reigen_shutdown and a later reigen_init, until the process ends.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/time.h"
#include "coll/boot/launchers.h"
#include "coll/boot/pm/pm.h"
#include "coll/boot/pm/pmi.h"

#define FD_MAX (1 << 20)

/* Kept: the connection of this process, once it is open. */
struct kept {
    struct rg_kvs kvs;  /* its address is the boot's state */
    struct rg_pmi pmi;
    pid_t owner;        /* a forked child does not speak for its parent */
    dev_t device;       /* what the descriptor was when it was opened: */
    ino_t inode;        /* it may have been closed and its number used again */
};

static int detect(struct rg_error *err)
{
    int rank, size;

    if (!rg_var("PMI_FD"))
        return 0;
    return rg_var_rank_size("PMI_RANK", "PMI_SIZE", &rank, &size, err);
}

static bool is_open(const struct kept *kept)
{
    struct stat st;

    return kept->owner == getpid() && fstat(kept->pmi.fd, &st) == 0 &&
           st.st_dev == kept->device && st.st_ino == kept->inode;
}

/* An MPI library that came later and was finalised has said it for both, and closed the
 * descriptor. */
static void leave(void *arg)
{
    struct kept *kept = arg;

    if (is_open(kept) && !kept->kvs.broken)
        rg_pmi_finalize(&kept->pmi, rg_now_ns() + RG_PMI_GOODBYE_MS * RG_NS_PER_MS);
}

static int read_fd(int *ret_fd, struct stat *ret_st, struct rg_error *err)
{
    int64_t fd;
    int r = rg_var_int("PMI_FD", 0, FD_MAX, &fd, err);

    if (r < 0)
        return r;
    if (fstat((int) fd, ret_st) < 0 || !S_ISSOCK(ret_st->st_mode))
        return rg_error_set(err, EBADF, "PMI_FD=%d is no open socket in this process: something "
                            "between the MPI launcher and this program has closed its descriptors "
                            "(Python's subprocess does, without close_fds=False); start the "
                            "program by mpirun directly, or set REIGEN_BOOT=single if it is to be "
                            "alone", (int) fd);
    *ret_fd = (int) fd;
    return 0;
}

static int connect_manager(struct kept *kept, int rank, int size, uint64_t deadline_ns,
                           struct rg_error *err)
{
    struct stat st;
    int fd = -1, r = 0;

    if (kept->owner)
        r = rg_error_set(err, EPERM, "%s", kept->owner == getpid()
                         ? "something has closed PMI_FD, the connection to the process manager"
                         : "this process is a fork of a rank, which has the connection to the "
                           "process manager: start it anew, or set REIGEN_BOOT=single in it");
    if (r == 0)
        r = read_fd(&fd, &st, err);
    if (r == 0)
        r = rg_pmi_open(&kept->pmi, fd, rank, deadline_ns, err);
    if (r < 0)
        return r;
    kept->owner = getpid();
    kept->device = st.st_dev;
    kept->inode = st.st_ino;
    kept->kvs = (struct rg_kvs) { .ops = &rg_pmi_kvs, .state = &kept->pmi, .rank = rank,
                                  .size = size,
                                  .value_max = rg_pmi_value_nbytes(kept->pmi.value_chars) };
    /* What this process starts by exec must not speak on it. */
    fcntl(fd, F_SETFD, fcntl(fd, F_GETFD) | FD_CLOEXEC);
    return 0;
}

static int open_pmi(const struct rg_config *config, void **kept_by, uint64_t deadline_ns,
                    void **ret_state, struct rg_boot_identity *ret_identity, struct rg_error *err)
{
    struct kept *kept = rg_boot_keep(kept_by, sizeof(*kept));
    struct rg_boot_identity *me = ret_identity;
    int r = rg_var_rank_size("PMI_RANK", "PMI_SIZE", &me->rank, &me->size, err);

    (void) config;
    if (!kept)
        return rg_error_set(err, ENOMEM, "out of memory");
    /* Hydra's; Slurm's ranks count themselves. */
    if (r > 0)
        r = rg_var_optional("MPI_LOCALRANKID", 0, me->size - 1, &me->local_rank, err);
    if (r == 0)
        r = rg_var_optional("MPI_LOCALNRANKS", 1, me->size, &me->local_size, err);
    if (r == 0 && me->size > 1 && !is_open(kept))
        r = connect_manager(kept, me->rank, me->size, deadline_ns, err);
    if (r == 0)
        r = rg_kvs_meet(&kept->kvs, me, deadline_ns, err);
    if (r < 0)
        return rg_error_prepend(err, "rank %d", me->rank);
    *ret_state = &kept->kvs;
    return 0;
}

const struct rg_boot_ops rg_boot_pmi = {
    .name = "pmi",
    .variables = "PMI_FD, PMI_RANK and PMI_SIZE are",
    .of_mpi = true,
    .detect = detect,
    .open = open_pmi,
    .fence = rg_kvs_fence,
    .leave = leave,
};
