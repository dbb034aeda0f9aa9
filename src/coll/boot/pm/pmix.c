/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Started by a PMIx server: mpirun of Open MPI 4 and 5, srun --mpi=pmix. The MPI's own client in
 * this process, if there is one, shares the library with us, which counts its users.
 *
 * The server takes a client that ends without PMIx_Finalize for one that has crashed, and a library
 * that has been finalised need not start again. So it is finalised when the process ends.
 *
 * mpirun of Open MPI 4.1 and 5.0 tells registered clients nothing of a rank's death, with its fault
 * tolerance or without: the team's own watch is all there is. But the library tells of the server's
 * own end, after which nobody would end the ranks: they are to end by themselves.
 */
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"
#include "coll/boot/pm/kvs.h"
#include "coll/boot/launchers.h"
#include "coll/boot/pm/pm.h"
#include "coll/boot/pm/pmix_library.h"
#include "reigen/reigen.h"

#define VALUE_NBYTES (16u << 10)
#define GET_SECONDS_MAX 60
#define SECONDS_SPARE 2 /* the server's own limit comes after ours, which has the better text */

/* Kept: the connection of this process, once it is open. */
struct kept {
    struct rg_kvs kvs; /* its address is the boot's state */
    const struct rg_pmix_library *pmix;
    struct rg_pmix_proc proc;
    pid_t owner;       /* a forked child does not speak for its parent */
};

/* The library's event handler is called without an argument of ours, on the library's thread. */
static char own_nspace[sizeof(((struct rg_pmix_proc *) 0)->nspace)];
static atomic_bool server_gone;

static int detect(struct rg_error *err)
{
    int64_t rank;

    if (!rg_var("PMIX_NAMESPACE"))
        return 0;
    return rg_var_int("PMIX_RANK", 0, REIGEN_SIZE_MAX - 1, &rank, err);
}

static int failed(const struct kept *kept, const char *what, int status, struct rg_error *err)
{
    return rg_error_set(err, status == RG_PMIX_ERR_TIMEOUT ? ETIMEDOUT : EPROTO, "%s: %s (%d)",
                        what, kept->pmix->Error_string(status), status);
}

static struct rg_pmix_info info_of(const char *key, uint16_t type, int value)
{
    struct rg_pmix_info info = { .value.type = type };

    snprintf(info.key, sizeof(info.key), "%s", key);
    if (type == RG_PMIX_BOOL)
        info.value.data.flag = value;
    else
        info.value.data.integer = value;
    return info;
}

static int seconds_left(uint64_t deadline_ns, int max)
{
    uint64_t now_ns = rg_now_ns();
    uint64_t left = deadline_ns > now_ns ? (deadline_ns - now_ns) / RG_NS_PER_S : 0;

    return left > (uint64_t) max ? max : (int) left + SECONDS_SPARE;
}

static void free_value(struct rg_pmix_value *value)
{
    if (value && value->type == RG_PMIX_BYTE_OBJECT)
        free(value->data.bo.bytes);
    if (value && value->type == RG_PMIX_STRING)
        free(value->data.string);
    free(value);
}

/* ---- the key-value store */

static int put(void *state, const char *key, const void *data, size_t nbytes, uint64_t deadline_ns,
               struct rg_error *err)
{
    const struct kept *kept = state;
    struct rg_pmix_value value = { .type = RG_PMIX_BYTE_OBJECT };
    int status;

    (void) deadline_ns;
    value.data.bo.bytes = (char *) (uintptr_t) data; /* copied by the library */
    value.data.bo.size = nbytes;
    status = kept->pmix->Put(RG_PMIX_SCOPE_GLOBAL, key, &value);
    return status == RG_PMIX_SUCCESS ? 0 : failed(kept, "PMIx_Put", status, err);
}

/* On the library's thread, perhaps when nobody waits any more: this end of the pair is its own. */
static void on_fence(int status, void *arg)
{
    int fd = (int) (intptr_t) arg;

    send(fd, &status, sizeof(status), MSG_NOSIGNAL);
    close(fd);
}

static int synchronise(void *state, uint64_t deadline_ns, struct rg_error *err)
{
    const struct kept *kept = state;
    struct rg_pmix_info info[2] = {
        info_of(RG_PMIX_COLLECT_DATA, RG_PMIX_BOOL, 1),
        info_of(RG_PMIX_TIMEOUT, RG_PMIX_INT, seconds_left(deadline_ns, INT32_MAX - SECONDS_SPARE)),
    };
    struct rg_pmix_proc all = kept->proc;
    int ends[2], status = kept->pmix->Commit();

    if (status != RG_PMIX_SUCCESS)
        return failed(kept, "PMIx_Commit", status, err);
    int r = rg_socketpair(ends);

    if (r < 0)
        return rg_error_set(err, -r, "a fence of PMIx: %s", strerror(-r));
    rg_autoclose int mine = ends[0];

    all.rank = RG_PMIX_RANK_WILDCARD;
    status = kept->pmix->Fence_nb(&all, 1, info, 2, on_fence, (void *) (intptr_t) ends[1]);
    if (status != RG_PMIX_SUCCESS) {
        close(ends[1]);
        return failed(kept, "PMIx_Fence", status, err);
    }
    if (rg_fd_wait(mine, POLLIN, deadline_ns) < 0 ||
        recv(mine, &status, sizeof(status), 0) != sizeof(status))
        return rg_error_set_exit(err, ETIMEDOUT, 124, "not all ranks came to init in time");
    return status == RG_PMIX_SUCCESS ? 0 : failed(kept, "PMIx_Fence", status, err);
}

static int get(void *state, int rank, const char *key, uint64_t deadline_ns,
               struct rg_buf *ret_bytes, struct rg_error *err)
{
    const struct kept *kept = state;
    struct rg_pmix_info info = info_of(RG_PMIX_TIMEOUT, RG_PMIX_INT,
                                       seconds_left(deadline_ns, GET_SECONDS_MAX));
    struct rg_pmix_proc proc = kept->proc;
    struct rg_pmix_value *value = NULL;
    int status, r = 0;

    proc.rank = (uint32_t) rank;
    status = kept->pmix->Get(&proc, key, &info, 1, &value);
    if (status != RG_PMIX_SUCCESS)
        return failed(kept, "PMIx_Get", status, err);
    if (value->type == RG_PMIX_BYTE_OBJECT && value->data.bo.size > 0)
        rg_buf_put(ret_bytes, value->data.bo.bytes, value->data.bo.size);
    else
        r = rg_error_set(err, EBADMSG, "rank %d: what it put under %s is of type %u", rank, key,
                         value->type);
    free_value(value);
    return r == 0 && rg_buf_status(ret_bytes) < 0 ? rg_error_set(err, ENOMEM, "out of memory") : r;
}

static const struct rg_kvs_ops store = { .put = put, .sync = synchronise, .get = get };

/* ---- the boot */

/* What the server knows of the job, of this type; NULL when it does not say. */
static struct rg_pmix_value *ask_job(const struct kept *kept, const char *key, uint16_t type)
{
    struct rg_pmix_info info = info_of(RG_PMIX_TIMEOUT, RG_PMIX_INT, SECONDS_SPARE);
    struct rg_pmix_proc proc = kept->proc;
    struct rg_pmix_value *value = NULL;

    proc.rank = RG_PMIX_RANK_WILDCARD;
    if (kept->pmix->Get(&proc, key, &info, 1, &value) != RG_PMIX_SUCCESS)
        return NULL;
    if (value->type == type)
        return value;
    free_value(value);
    return NULL;
}

static void leave(void *arg)
{
    const struct kept *kept = arg;

    if (kept->owner == getpid())
        kept->pmix->Finalize(NULL, 0);
}

/* On the library's thread. */
static void on_server_gone(size_t id, int status, const struct rg_pmix_proc *source,
                           struct rg_pmix_info *info, size_t ninfo, struct rg_pmix_info *results,
                           size_t nresults, rg_pmix_event_done done, void *arg)
{
    (void) id, (void) status, (void) info, (void) ninfo, (void) results, (void) nresults;
    /* A rank that lost its connection would be of the job's own name space. */
    if (!source || strncmp(source->nspace, own_nspace, sizeof(own_nspace)) != 0)
        atomic_store(&server_gone, true);
    if (done)
        done(RG_PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, arg);
}

/* Where it cannot be had, the job goes on without. */
static void watch_server(const struct kept *kept)
{
    int codes[] = { RG_PMIX_ERR_LOST_CONNECTION, RG_PMIX_ERR_LOST_CONNECTION_TO_SERVER };

    memcpy(own_nspace, kept->proc.nspace, sizeof(own_nspace));
    kept->pmix->Register_event_handler(codes, rg_array_len(codes), NULL, 0, on_server_gone, NULL,
                                       NULL);
}

static int connect_server(struct kept *kept, struct rg_error *err)
{
    int status, r;

    if (kept->owner)
        return rg_error_set(err, EPERM, "this process is a fork of rank %u, which has the "
                            "connection to the PMIx server: start it anew, or set "
                            "REIGEN_BOOT=single in it", kept->proc.rank);
    r = rg_pmix_library_load(&kept->pmix, err);
    if (r < 0)
        return r;
    status = kept->pmix->Init(&kept->proc, NULL, 0);
    if (status != RG_PMIX_SUCCESS)
        return rg_error_set(err, ECONNREFUSED, "PMIx_Init: %s (%d): does the launcher that set "
                            "PMIX_NAMESPACE=%s still run, on this host and for this user? If this "
                            "process is to run alone, set REIGEN_BOOT=single",
                            kept->pmix->Error_string(status), status, rg_var("PMIX_NAMESPACE"));
    kept->owner = getpid();
    watch_server(kept);
    return 0;
}

/* This rank's place among the ranks of its host, in order of rank as in MPI_Comm_split_type. The
 * server has a local rank too, which follows the cores that it has mapped ranks to. */
static void read_peers(const struct kept *kept, struct rg_boot_identity *identity)
{
    struct rg_pmix_value *value = ask_job(kept, RG_PMIX_LOCAL_PEERS, RG_PMIX_STRING);
    int place = 0, count = 0;
    bool there = false;

    for (char *rest = value ? value->data.string : NULL, *word; (word = strsep(&rest, ","));) {
        int64_t rank;

        if (count == identity->size ||
            rg_parse_int("rank", word, 0, identity->size - 1, &rank, NULL) < 0) {
            there = false;
            break;
        }
        place += rank < identity->rank;
        there = there || rank == identity->rank;
        count++;
    }
    free_value(value);
    if (!there)
        return;
    identity->local_rank = place;
    identity->local_size = count;
}

static int read_identity(const struct kept *kept, struct rg_boot_identity *identity,
                         struct rg_error *err)
{
    struct rg_pmix_value *value = ask_job(kept, RG_PMIX_JOB_SIZE, RG_PMIX_UINT32);
    uint32_t size = value ? value->data.uint32 : 0;

    free_value(value);
    if (size < 1 || size > REIGEN_SIZE_MAX || kept->proc.rank >= size)
        return rg_error_set(err, EPROTO, "the PMIx server says of this job that it has %u ranks, "
                            "and of this process that it is rank %u", size, kept->proc.rank);
    identity->rank = (int) kept->proc.rank;
    identity->size = (int) size;
    read_peers(kept, identity);
    return 0;
}

static int open_pmix(const struct rg_config *config, void **kept_by, uint64_t deadline_ns,
                     void **ret_state, struct rg_boot_identity *ret_identity, struct rg_error *err)
{
    struct kept *kept = rg_boot_keep(kept_by, sizeof(*kept));
    int r = kept ? 0 : rg_error_set(err, ENOMEM, "out of memory");

    (void) config;
    if (r == 0 && kept->owner != getpid())
        r = connect_server(kept, err);
    if (r == 0)
        r = read_identity(kept, ret_identity, err);
    if (r == 0 && !kept->kvs.ops)
        kept->kvs = (struct rg_kvs) { .ops = &store, .state = kept, .rank = ret_identity->rank,
                                      .size = ret_identity->size, .value_max = VALUE_NBYTES };
    if (r == 0 && ret_identity->size == 1)
        r = rg_claim_check_world_of_one("PMIx in this process", err);
    if (r == 0)
        r = rg_kvs_meet(&kept->kvs, ret_identity, deadline_ns, err);
    if (r < 0)
        return r;
    *ret_state = &kept->kvs;
    return 0;
}

static int poll_server(void *state, int *ret_rank, struct rg_error *err)
{
    (void) state;
    (void) ret_rank;
    if (!atomic_load(&server_gone))
        return 0;
    return rg_error_set(err, EHOSTDOWN, "the launcher of this job, mpirun or the daemon that it "
                        "has on this host, is gone: the job is over");
}

static const char *const place[] = { "PMIX_NAMESPACE", "PMIX_RANK", NULL };

const struct rg_boot_ops rg_boot_pmix = {
    .name = "pmix",
    .variables = "PMIX_NAMESPACE and PMIX_RANK are",
    .place = place,
    .of_mpi = true,
    .detect = detect,
    .open = open_pmix,
    .fence = rg_kvs_fence,
    .poll = poll_server,
    .leave = leave,
};
