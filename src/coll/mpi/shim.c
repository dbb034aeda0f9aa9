/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled once per ABI, with RG_MPI_ABI_MPICH, RG_MPI_ABI_STANDARD or neither set. See
 * coll/mpi/mpi_shim.h.
 *
 * An MPI call by name would need the library when this is linked or loaded; so all go through a
 * table that bind fills in.
 */
#include "coll/mpi/mpi_shim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(RG_MPI_ABI_MPICH)
#include "coll/mpi/abi_mpich.h"
#elif defined(RG_MPI_ABI_STANDARD)
#include "coll/mpi/abi_standard.h"
#else
#include "coll/mpi/abi_ompi.h"
#endif

typedef int (*copy_fn)(abi_comm comm, int keyval, void *extra, void *value, void *copy, int *flag);
typedef int (*delete_fn)(abi_comm comm, int keyval, void *value, void *extra);

/* name, arguments: every function returns an int. */
#define FUNCTIONS(F)                                                                              \
    F(Initialized, (int *flag))                                                                   \
    F(Finalized, (int *flag))                                                                     \
    F(Init_thread, (int *argc, char ***argv, int wanted, int *given))                             \
    F(Query_thread, (int *given))                                                                 \
    F(Finalize, (void))                                                                           \
    F(Error_string, (int code, char *text, int *length))                                          \
    F(Comm_rank, (abi_comm comm, int *rank))                                                      \
    F(Comm_size, (abi_comm comm, int *size))                                                      \
    F(Comm_dup, (abi_comm comm, abi_comm *copy))                                                  \
    F(Comm_group, (abi_comm comm, abi_group *group))                                              \
    F(Group_incl, (abi_group group, int n, const int *ranks, abi_group *some))                    \
    F(Group_free, (abi_group *group))                                                             \
    F(Comm_create_group, (abi_comm comm, abi_group group, int tag, abi_comm *some))               \
    F(Comm_split_type, (abi_comm comm, int type, int key, abi_info info, abi_comm *some))         \
    F(Comm_set_errhandler, (abi_comm comm, abi_errhandler handler))                               \
    F(Comm_create_keyval, (copy_fn copy, delete_fn delete, int *keyval, void *extra))             \
    F(Comm_set_attr, (abi_comm comm, int keyval, void *value))                                    \
    F(Comm_free, (abi_comm *comm))                                                                \
    F(Isend, (const void *from, int count, abi_datatype type, int to, int tag, abi_comm comm,     \
              abi_request *request))                                                              \
    F(Irecv, (void *to, int count, abi_datatype type, int from, int tag, abi_comm comm,           \
              abi_request *request))                                                              \
    F(Ibcast, (void *data, int count, abi_datatype type, int root, abi_comm comm,                 \
               abi_request *request))                                                             \
    F(Iallgather, (const void *from, int count, abi_datatype type, void *to, int to_count,        \
                   abi_datatype to_type, abi_comm comm, abi_request *request))                    \
    F(Iallgatherv, (const void *from, int count, abi_datatype type, void *to, const int *counts,  \
                    const int *displs, abi_datatype to_type, abi_comm comm,                       \
                    abi_request *request))                                                        \
    F(Iprobe, (int from, int tag, abi_comm comm, int *flag, void *status))                        \
    F(Test, (abi_request *request, int *flag, void *status))                                      \
    F(Cancel, (abi_request *request))

#define DECLARE(name, arguments) int (*name) arguments;
static struct { FUNCTIONS(DECLARE) } mpi;

static const char *const names[] = {
#define NAME(name, arguments) "MPI_" #name,
    FUNCTIONS(NAME)
};

#define LET_GO_NAPS 20000 /* of 100 us */

static struct abi_handles handles;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER; /* held where calls go one at a time */
static bool one_at_a_time = true;
static pid_t initialised_by; /* 0: not by us */
static atomic_int ninside;   /* calls under way */
static atomic_bool closing;  /* MPI_Finalize has begun */
static bool watched;         /* it will be seen to begin */

static int bind_mpi(void *library, const char **ret_missing)
{
    void *functions[sizeof(names) / sizeof(names[0])];

    _Static_assert(sizeof(functions) == sizeof(mpi), "a pointer for each name");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        functions[i] = dlsym(library, names[i]);
        if (!functions[i]) {
            *ret_missing = names[i];
            return -1;
        }
    }
    if (abi_find_handles(library, &handles, ret_missing) < 0)
        return -1;
    memcpy(&mpi, functions, sizeof(mpi));
    return 0;
}

/* ---- handles */

static abi_comm comm_of(const struct rg_mpi_comm *comm)
{
    return (abi_comm) comm->handle;
}

/* Before every call but those of MPI's life. False: MPI is being finalised. */
static bool enter(void)
{
    atomic_fetch_add(&ninside, 1);
    if (atomic_load(&closing)) {
        atomic_fetch_sub(&ninside, 1);
        return false;
    }
    if (one_at_a_time)
        pthread_mutex_lock(&turn);
    return true;
}

static void leave(void)
{
    if (one_at_a_time)
        pthread_mutex_unlock(&turn);
    atomic_fetch_sub(&ninside, 1);
}

/* After a call that made a request: leaves. */
static int made_request(int code, const abi_request *request, struct rg_mpi_request *ret_request)
{
    leave();
    if (code == 0)
        ret_request->handle = (uintptr_t) *request;
    return code;
}

/* ---- life */

static bool initialized(void)
{
    int flag = 0;

    return mpi.Initialized(&flag) == 0 && flag;
}

static bool finalized(void)
{
    int flag = 0;

    return atomic_load(&closing) || (mpi.Finalized(&flag) == 0 && flag);
}

static int copy_nothing(abi_comm comm, int keyval, void *extra, void *value, void *copy, int *flag)
{
    (void) comm;
    (void) keyval;
    (void) extra;
    (void) value;
    (void) copy;
    *flag = 0;
    return 0;
}

/* No thread of ours goes into MPI any more, and those in it come out. */
static void keep_out(void)
{
    struct timespec nap = { 0, 100000 };

    atomic_store(&closing, true);
    for (int i = 0; i < LET_GO_NAPS && atomic_load(&ninside) > 0; i++)
        nanosleep(&nap, NULL);
}

/* MPI_Finalize, called by the program in any thread, begins by deleting what is attached to
 * MPI_COMM_SELF. MPICH before 4.2 and Intel MPI stop locking before that, and end the process when
 * a thread of ours holds a lock just then: mpi_shim.h has the rule for programs. */
static int let_go(abi_comm comm, int keyval, void *value, void *extra)
{
    (void) comm;
    (void) keyval;
    (void) value;
    (void) extra;
    keep_out();
    return 0;
}

static void watch_for_the_end(void)
{
    int keyval;

    if (!watched && mpi.Comm_create_keyval(copy_nothing, let_go, &keyval, NULL) == 0 &&
        mpi.Comm_set_attr(handles.self, keyval, NULL) == 0)
        watched = true;
}

/* An ABI's level in the numbers of mpi_shim.h. */
static int level_of(int value)
{
    return value >= ABI_MULTIPLE     ? RG_MPI_MULTIPLE
           : value >= ABI_SERIALIZED ? RG_MPI_SERIALIZED
           : value >= ABI_FUNNELED   ? RG_MPI_FUNNELED
                                     : RG_MPI_SINGLE;
}

/* The level decides whether there is a lock; it is asked for before anything moves. */
static int level(int *ret_level)
{
    int value = 0, code = mpi.Query_thread(&value), given = level_of(value);

    if (code != 0)
        return code;
    one_at_a_time = given < RG_MPI_MULTIPLE;
    if (given >= RG_MPI_SERIALIZED)
        watch_for_the_end();
    *ret_level = given;
    return 0;
}

/* A rank that fails must not wait for the others: the launcher sees that it ended without
 * MPI_Finalize, and ends them. */
static void finalize_at_exit(int status, void *arg)
{
    (void) arg;
    if (status != 0 || initialised_by != getpid() || !initialized() || finalized())
        return;
    keep_out();
    mpi.Finalize();
}

static int init(int *ret_level)
{
    int given = 0, code = mpi.Init_thread(NULL, NULL, ABI_MULTIPLE, &given);

    if (code != 0)
        return code;
    initialised_by = getpid();
    on_exit(finalize_at_exit, NULL);
    return level(ret_level);
}

static void describe(int code, char *text, size_t nbytes)
{
    char whole[ABI_ERROR_STRING_MAX] = "";
    int length = 0;

    if (code == RG_MPI_CLOSED)
        snprintf(whole, sizeof(whole), "MPI has been finalised; shut Reigen down before");
    else if (mpi.Error_string(code, whole, &length) != 0 || !whole[0])
        snprintf(whole, sizeof(whole), "MPI error %d", code);
    snprintf(text, nbytes, "%s", whole);
}

/* ---- communicators */

/* Fill in *ret_comm of a handle; errors come back to us where the communicator is ours. */
static int adopt(abi_comm handle, bool ours, struct rg_mpi_comm *ret_comm)
{
    struct rg_mpi_comm comm = { 0 };
    int code = ours ? mpi.Comm_set_errhandler(handle, handles.errors_return) : 0;

    if (code == 0)
        code = mpi.Comm_rank(handle, &comm.rank);
    if (code == 0)
        code = mpi.Comm_size(handle, &comm.size);
    if (code == 0) {
        comm.handle = (uintptr_t) handle;
        *ret_comm = comm;
    } else if (ours) {
        mpi.Comm_free(&handle);
    }
    return code;
}

/* After a call that made a communicator: adopts it, and leaves. */
static int made_comm(int code, const abi_comm *handle, struct rg_mpi_comm *ret_comm)
{
    if (code == 0)
        code = adopt(*handle, true, ret_comm);
    leave();
    return code;
}

static int world(struct rg_mpi_comm *ret_comm)
{
    if (!enter())
        return RG_MPI_CLOSED;
    int code = adopt(handles.world, false, ret_comm);

    leave();
    return code;
}

static int dup_comm(const struct rg_mpi_comm *comm, struct rg_mpi_comm *ret_comm)
{
    abi_comm copy;

    if (!enter())
        return RG_MPI_CLOSED;
    int code = mpi.Comm_dup(comm_of(comm), &copy);

    return made_comm(code, &copy, ret_comm);
}

static int subset(const struct rg_mpi_comm *comm, const int *ranks, int n, int tag,
                  struct rg_mpi_comm *ret_comm)
{
    abi_group all, some;
    abi_comm made;

    if (!enter())
        return RG_MPI_CLOSED;
    int code = mpi.Comm_group(comm_of(comm), &all);

    if (code == 0) {
        code = mpi.Group_incl(all, n, ranks, &some);
        if (code == 0) {
            code = mpi.Comm_create_group(comm_of(comm), some, tag, &made);
            mpi.Group_free(&some);
        }
        mpi.Group_free(&all);
    }
    return made_comm(code, &made, ret_comm);
}

static int local(const struct rg_mpi_comm *comm, struct rg_mpi_comm *ret_comm)
{
    abi_comm made;

    if (!enter())
        return RG_MPI_CLOSED;
    int code = mpi.Comm_split_type(comm_of(comm), ABI_COMM_TYPE_SHARED, comm->rank,
                                   handles.info_null, &made);

    return made_comm(code, &made, ret_comm);
}

static void free_comm(struct rg_mpi_comm *comm)
{
    abi_comm handle = comm_of(comm);

    if (!enter())
        return;
    mpi.Comm_free(&handle);
    leave();
}

/* ---- moving bytes */

static int isend(const struct rg_mpi_comm *comm, const void *from, int nbytes, int to, int tag,
                 struct rg_mpi_request *ret_request)
{
    abi_request request;

    if (!enter())
        return RG_MPI_CLOSED;
    int code = mpi.Isend(from, nbytes, handles.byte, to, tag, comm_of(comm), &request);

    return made_request(code, &request, ret_request);
}

static int irecv(const struct rg_mpi_comm *comm, void *to, int nbytes, int from, int tag,
                 struct rg_mpi_request *ret_request)
{
    abi_request request;

    if (!enter())
        return RG_MPI_CLOSED;
    int code = mpi.Irecv(to, nbytes, handles.byte, from, tag, comm_of(comm), &request);

    return made_request(code, &request, ret_request);
}

static int ibcast(const struct rg_mpi_comm *comm, void *data, int nbytes, int root,
                  struct rg_mpi_request *ret_request)
{
    abi_request request;

    if (!enter())
        return RG_MPI_CLOSED;
    int code = mpi.Ibcast(data, nbytes, handles.byte, root, comm_of(comm), &request);

    return made_request(code, &request, ret_request);
}

static int iallgather(const struct rg_mpi_comm *comm, const void *from, void *to, int nbytes,
                      struct rg_mpi_request *ret_request)
{
    abi_request request;

    if (!enter())
        return RG_MPI_CLOSED;
    int code = mpi.Iallgather(from, nbytes, handles.byte, to, nbytes, handles.byte, comm_of(comm),
                              &request);

    return made_request(code, &request, ret_request);
}

static int iallgatherv(const struct rg_mpi_comm *comm, const void *from, void *to,
                       const int *counts, const int *displs, struct rg_mpi_request *ret_request)
{
    abi_request request;

    if (!enter())
        return RG_MPI_CLOSED;
    int code = mpi.Iallgatherv(from ? from : ABI_IN_PLACE, counts[comm->rank], handles.byte, to,
                               counts, displs, handles.byte, comm_of(comm), &request);

    return made_request(code, &request, ret_request);
}

/* Looking for a message that nobody sends. */
static void nudge(const struct rg_mpi_comm *comm)
{
    int flag = 0;

    if (!enter())
        return;
    mpi.Iprobe(comm->rank, RG_MPI_TAG_MAX, comm_of(comm), &flag, ABI_STATUS_IGNORE);
    leave();
}

static int test(struct rg_mpi_request *request, bool *ret_done)
{
    abi_request handle = (abi_request) request->handle;
    int flag = 0;

    if (!enter())
        return RG_MPI_CLOSED;
    int code = mpi.Test(&handle, &flag, ABI_STATUS_IGNORE);

    leave();
    request->handle = (uintptr_t) handle;
    if (code == 0)
        *ret_done = flag != 0;
    return code;
}

static int cancel(struct rg_mpi_request *request)
{
    abi_request handle = (abi_request) request->handle;

    if (!enter())
        return RG_MPI_CLOSED;
    int code = mpi.Cancel(&handle);

    leave();
    request->handle = (uintptr_t) handle;
    return code;
}

extern const struct rg_mpi_shim_ops reigen_mpi_shim;
__attribute__((visibility("default"))) const struct rg_mpi_shim_ops reigen_mpi_shim = {
    .version = RG_MPI_SHIM_VERSION,
    .abi = ABI_NAME,
    .bind = bind_mpi,
    .initialized = initialized,
    .finalized = finalized,
    .init = init,
    .level = level,
    .describe = describe,
    .world = world,
    .dup = dup_comm,
    .subset = subset,
    .local = local,
    .free = free_comm,
    .isend = isend,
    .irecv = irecv,
    .ibcast = ibcast,
    .iallgather = iallgather,
    .iallgatherv = iallgatherv,
    .nudge = nudge,
    .test = test,
    .cancel = cancel,
};
