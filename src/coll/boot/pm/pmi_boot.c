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
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "base/time.h"
#include "coll/boot/mpi_beside.h"
#include "coll/boot/pm/pmi.h"
#include "coll/boot/silent.h"
#include "coll/boot/single.h"
#include "coll/boot/vars.h"

#define FD_MAX (1 << 20)

/* Of this process, once it is open. */
static struct rg_pmi the_pmi;
static struct rg_kvs the_kvs;
static pid_t the_owner;      /* a forked child does not speak for its parent */
static dev_t the_device;     /* what the descriptor was when it was opened: */
static ino_t the_inode;      /* it may have been closed and its number used again */
static pthread_once_t goodbye_once = PTHREAD_ONCE_INIT;

struct pmi_boot {
    int size;
};

static int detect(const struct rg_config *config, struct rg_error *err)
{
    int rank, size;

    (void) config;
    if (!rg_var("PMI_FD"))
        return 0;
    return rg_var_rank_size("PMI_RANK", "PMI_SIZE", &rank, &size, err);
}

static bool is_open(void)
{
    struct stat st;

    return the_owner == getpid() && fstat(the_pmi.fd, &st) == 0 && st.st_dev == the_device &&
           st.st_ino == the_inode;
}

/* An MPI library that came later and was finalised has said it for both, and closed the
 * descriptor. */
static void say_goodbye(void)
{
    if (is_open() && !the_kvs.broken)
        rg_pmi_finalize(&the_pmi, rg_now_ns() + RG_PMI_GOODBYE_MS * RG_NS_PER_MS);
}

static void register_goodbye(void)
{
    atexit(say_goodbye);
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

static int connect_manager(int rank, int size, uint64_t deadline_ns, struct rg_error *err)
{
    struct stat st;
    int fd = -1, r = 0;

    if (the_owner)
        r = rg_error_set(err, EPERM, "%s", the_owner == getpid()
                         ? "something has closed PMI_FD, the connection to the process manager"
                         : "this process is a fork of a rank, which has the connection to the "
                           "process manager: start it anew, or set REIGEN_BOOT=single in it");
    if (r == 0)
        r = read_fd(&fd, &st, err);
    if (r == 0)
        r = rg_pmi_open(&the_pmi, fd, rank, deadline_ns, err);
    if (r < 0)
        return r;
    the_owner = getpid();
    the_device = st.st_dev;
    the_inode = st.st_ino;
    the_kvs = (struct rg_kvs) { .ops = &rg_pmi_kvs, .state = &the_pmi, .rank = rank, .size = size,
                                .value_max = rg_pmi_value_nbytes(the_pmi.value_chars) };
    /* What this process starts by exec must not speak on it. */
    fcntl(fd, F_SETFD, fcntl(fd, F_GETFD) | FD_CLOEXEC);
    pthread_once(&goodbye_once, register_goodbye);
    return 0;
}

static void close_pmi(void *state, bool goodbye)
{
    (void) goodbye;
    free(state);
}

static int open_pmi(const struct rg_config *config, uint64_t deadline_ns, void **ret_state,
                    struct rg_boot_identity *ret_identity, struct rg_error *err)
{
    struct rg_boot_identity identity = { .local_rank = -1, .local_size = -1, .cross_rank = -1,
                                         .cross_size = -1 };
    struct pmi_boot *boot = calloc(1, sizeof(*boot));
    int r = rg_var_rank_size("PMI_RANK", "PMI_SIZE", &identity.rank, &identity.size, err);

    (void) config;
    if (!boot)
        return rg_error_set(err, ENOMEM, "out of memory");
    /* Hydra's; Slurm's ranks count themselves. */
    if (r > 0)
        r = rg_var_optional("MPI_LOCALRANKID", 0, identity.size - 1, &identity.local_rank, err);
    if (r == 0)
        r = rg_var_optional("MPI_LOCALNRANKS", 1, identity.size, &identity.local_size, err);
    if (r == 0 && identity.size > 1 && !is_open())
        r = connect_manager(identity.rank, identity.size, deadline_ns, err);
    if (r == 0 && identity.size > 1)
        r = rg_kvs_share_key(&the_kvs, identity.key, deadline_ns, err);
    if (r < 0) {
        free(boot);
        return rg_error_prepend(err, "rank %d", identity.rank);
    }
    boot->size = identity.size;
    rg_mpi_beside_check(&identity);
    identity.has_key = identity.size > 1;
    identity.one_host = identity.size == 1;
    *ret_identity = identity;
    *ret_state = boot;
    return 0;
}

static int fence(void *state, const void *blob, size_t nbytes, uint64_t deadline_ns,
                 struct rg_blob *ret_blobs, struct rg_error *err)
{
    struct pmi_boot *boot = state;

    if (boot->size == 1)
        return rg_single_fence(blob, nbytes, ret_blobs) < 0
                   ? rg_error_set(err, ENOMEM, "out of memory") : 0;
    return rg_kvs_fence(&the_kvs, blob, nbytes, deadline_ns, ret_blobs, err);
}

const struct rg_boot_ops rg_boot_pmi = {
    .name = "pmi",
    .by_mpi = true,
    .variables = "PMI_FD, PMI_RANK and PMI_SIZE are",
    .detect = detect,
    .open = open_pmi,
    .fence = fence,
    .poll_fd = rg_silent_poll_fd,
    .poll = rg_silent_poll,
    .note = rg_silent_note,
    .close = close_pmi,
    .after_fork = rg_silent_after_fork,
};
