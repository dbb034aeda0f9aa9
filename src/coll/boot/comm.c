/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A communicator: some of the job's ranks as a world of their own. Every rank of the job takes
 * part in the same number of fences of the boot below, whatever world it is in: one in which all
 * tell their lists, then those of rg_team_create, of which each world reads its own ranks' blobs.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "coll/boot/boot.h"
#include "reigen/reigen.h"

#define TEAM_FENCES 3
#define MAGIC 0x4d4d4f43u /* "COMM" */
#define LIST_SHOWN 64

struct comm {
    struct rg_boot *boot;  /* of the job; owned once the communicator is made */
    int *ranks;            /* of the job, by rank of this world */
    int n, size;           /* of this world, of the job */
    struct rg_blob *blobs; /* of all ranks of the job */
    int nfences;
    uint64_t deadline_ns;
};

static int fence_below(struct comm *comm, const void *blob, size_t nbytes, uint64_t deadline_ns,
                       struct rg_error *err)
{
    memset(comm->blobs, 0, (size_t) comm->size * sizeof(*comm->blobs));
    return rg_boot_fence(comm->boot, blob, nbytes, deadline_ns, comm->blobs, err);
}

static int fence(void *state, const void *blob, size_t nbytes, uint64_t deadline_ns,
                 struct rg_blob *ret_blobs, struct rg_error *err)
{
    struct comm *comm = state;
    int r;

    comm->nfences++;
    r = fence_below(comm, blob, nbytes, deadline_ns, err);
    if (r < 0)
        return r;
    for (int i = 0; i < comm->n; i++)
        ret_blobs[i] = comm->blobs[comm->ranks[i]];
    if (rg_blobs_gather(ret_blobs, comm->n) < 0)
        r = rg_error_set(err, ENOMEM, "out of memory");
    free(comm->blobs[0].data);
    return r;
}

static int poll_by(struct comm *comm, int (*poll_boot)(struct rg_boot *, int *, struct rg_error *),
                   int *ret_rank, struct rg_error *err)
{
    int rank = -1, r;

    while ((r = poll_boot(comm->boot, &rank, err)) == 1)
        for (int i = 0; i < comm->n; i++)
            if (comm->ranks[i] == rank) {
                *ret_rank = i;
                return 1;
            }
    return r;
}

static int poll_deaths(void *state, int *ret_rank, struct rg_error *err)
{
    return poll_by(state, rg_boot_poll, ret_rank, err);
}

static int poll_start(void *state, int *ret_rank, struct rg_error *err)
{
    return poll_by(state, rg_boot_poll_start, ret_rank, err);
}

static void cut_off(void *state, int rank)
{
    struct comm *comm = state;

    rg_boot_cut_off(comm->boot, comm->ranks[rank]);
}

static void tell_numbers(void *state, struct rg_numbers *numbers, int n)
{
    struct comm *comm = state;

    for (int i = 0; i < n; i++) {
        numbers[i].rank = (uint32_t) comm->ranks[numbers[i].rank];
        if (numbers[i].sent_to != RG_NUMBERS_NO_RANK)
            numbers[i].sent_to = (uint32_t) comm->ranks[numbers[i].sent_to];
    }
    rg_boot_numbers(comm->boot, numbers, n);
}

static void comm_free(struct comm *comm)
{
    free(comm->ranks);
    free(comm->blobs);
    free(comm);
}

/* The other worlds need this rank in their fences even if its own has failed. */
static void finish_fences(struct comm *comm)
{
    while (comm->nfences++ < TEAM_FENCES) {
        if (fence_below(comm, "", 0, comm->deadline_ns, NULL) < 0)
            return;
        free(comm->blobs[0].data);
    }
}

static void close_comm(void *state, bool goodbye)
{
    struct comm *comm = state;

    finish_fences(comm);
    rg_boot_close(comm->boot, goodbye);
    comm_free(comm);
}

static const struct rg_boot_ops comm_ops = {
    .fences_alone = true,
    .fence = fence,
    .poll = poll_deaths,
    .poll_start = poll_start,
    .cut_off = cut_off,
    .numbers = tell_numbers,
    .close = close_comm,
};

/* ---- making one */

/* A list as it lies in a blob: not aligned. */
static int rank_at(const void *ranks, int i)
{
    int rank;

    memcpy(&rank, (const char *) ranks + (size_t) i * sizeof(rank), sizeof(rank));
    return rank;
}

static int place_in(const void *ranks, int n, int rank)
{
    for (int i = 0; i < n; i++)
        if (rank_at(ranks, i) == rank)
            return i;
    return -1;
}

/* The list that a rank of the job gave. 0 or -errno. */
static int list_of(const struct comm *comm, int rank, const void **ret_ranks, int *ret_n,
                   struct rg_error *err)
{
    struct rg_reader reader = rg_reader_make(comm->blobs[rank].data, comm->blobs[rank].nbytes);
    uint32_t magic = rg_reader_u32(&reader), n = rg_reader_u32(&reader);

    if (reader.bad || magic != MAGIC || n < 1 || reader.nbytes != n * sizeof(int))
        return rg_error_set(err, EPROTO,
                            "init: rank %d has not given a list of ranks, and others have: either "
                            "all ranks of the job do or none", rank);
    *ret_ranks = reader.data;
    *ret_n = (int) n;
    return 0;
}

static void tell(struct rg_buf *out, const void *ranks, int n)
{
    for (int i = 0; i < n && i < LIST_SHOWN; i++)
        rg_buf_printf(out, "%s%d", i ? ", " : "", rank_at(ranks, i));
    rg_buf_printf(out, n > LIST_SHOWN ? ", ..." : "");
}

static int unequal(int a, const void *ranks_a, int n_a, int b, const void *ranks_b, int n_b,
                   struct rg_error *err)
{
    rg_autobuf struct rg_buf left = RG_BUF_INIT, right = RG_BUF_INIT;

    tell(&left, ranks_a, n_a);
    tell(&right, ranks_b, n_b);
    return rg_error_set(err, EINVAL,
                        "init: rank %d gave the ranks [%s] and rank %d gave [%s]: ranks that start "
                        "together give equal lists, and no rank is in two", a, rg_buf_text(&left),
                        b, rg_buf_text(&right));
}

/* All lists of the job fit together; every rank comes to the same. */
static int check_lists(const struct comm *comm, struct rg_error *err)
{
    for (int rank = 0; rank < comm->size; rank++) {
        const void *ranks, *others;
        int n, m, r = list_of(comm, rank, &ranks, &n, err);

        if (r < 0)
            return r;
        if (place_in(ranks, n, rank) < 0)
            return rg_error_set(err, EINVAL, "init: rank %d gave a list of ranks without itself",
                                rank);
        for (int i = 0; i < n; i++) {
            int other = rank_at(ranks, i);
            bool beyond = other < 0 || other >= comm->size;

            if (beyond || place_in(ranks, i, other) >= 0)
                return rg_error_set(err, EINVAL,
                                    "init: rank %d gave rank %d, which %s (the job has %d ranks)",
                                    rank, other, beyond ? "does not exist" : "is there twice",
                                    comm->size);
            r = list_of(comm, other, &others, &m, err);
            if (r < 0)
                return r;
            if (m != n || memcmp(ranks, others, (size_t) n * sizeof(int)) != 0)
                return unequal(rank, ranks, n, other, others, m, err);
        }
    }
    return 0;
}

static int exchange_lists(struct comm *comm, struct rg_error *err)
{
    rg_autobuf struct rg_buf blob = RG_BUF_INIT;
    int r;

    rg_buf_put_u32(&blob, MAGIC);
    rg_buf_put_u32(&blob, (uint32_t) comm->n);
    rg_buf_put(&blob, comm->ranks, (size_t) comm->n * sizeof(int));
    if (rg_buf_status(&blob) < 0)
        return rg_error_set(err, ENOMEM, "out of memory");
    r = fence_below(comm, rg_buf_bytes(&blob), rg_buf_nbytes(&blob), comm->deadline_ns, err);
    if (r < 0)
        return r;
    r = check_lists(comm, err);
    free(comm->blobs[0].data);
    return r;
}

static struct comm *new_comm(struct rg_boot *boot, const int *ranks, int n, uint64_t deadline_ns)
{
    struct comm *comm = calloc(1, sizeof(*comm));

    if (!comm)
        return NULL;
    comm->boot = boot;
    comm->size = rg_boot_identity(boot)->size;
    comm->n = n;
    comm->deadline_ns = deadline_ns;
    comm->ranks = malloc((size_t) n * sizeof(int));
    comm->blobs = calloc((size_t) comm->size, sizeof(*comm->blobs));
    if (!comm->ranks || !comm->blobs) {
        comm_free(comm);
        return NULL;
    }
    memcpy(comm->ranks, ranks, (size_t) n * sizeof(int));
    return comm;
}

int rg_boot_comm(struct rg_boot **boot, const int *ranks, int n, uint64_t deadline_ns,
                 struct rg_error *err)
{
    const struct rg_boot_identity *job = rg_boot_identity(*boot);
    struct rg_boot_identity identity = RG_BOOT_IDENTITY_INIT;
    struct comm *comm;
    char purpose[64];
    int r;

    if (n < 1 || n > REIGEN_SIZE_MAX)
        return rg_error_set(err, EINVAL, "init: a list of %d ranks", n);
    comm = new_comm(*boot, ranks, n, deadline_ns);
    if (!comm)
        return rg_error_set(err, ENOMEM, "out of memory");
    identity.size = n;
    identity.has_key = job->has_key;
    identity.one_host = job->one_host;
    identity.epoch = job->epoch;
    identity.sync = job->sync;
    r = exchange_lists(comm, err);
    identity.rank = place_in(ranks, n, job->rank);
    snprintf(purpose, sizeof(purpose), "reigen communicator of rank %d", ranks[0]);
    rg_key_derive(job->key, purpose, identity.key);
    rg_boot_forget_key(*boot);
    memcpy(identity.warning, job->warning, sizeof(identity.warning));
    if (r == 0 && rg_boot_make_over(*boot, &comm_ops, comm, &identity, boot) < 0)
        r = rg_error_set(err, ENOMEM, "out of memory");
    if (r < 0)
        comm_free(comm);
    return r;
}
