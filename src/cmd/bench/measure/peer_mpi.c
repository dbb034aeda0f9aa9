/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peer mpi: the collectives of the MPI whose launcher has started the ranks, loaded after the
 * runtime has begun, which therefore does not use it. Two ABIs are known, Open MPI's and that of
 * MPICH and Intel MPI. Their handles are pointers and ints; both travel here as an integer of the
 * size of a pointer, which the calling conventions of the processors that Reigen runs on
 * (x86-64 and AArch64) pass alike, in a register or a slot of eight bytes.
 *
 * Sources: the public headers of Open MPI 4.1 and MPICH 4.0, as for coll/mpi/abi_ompi.h.
 */
#include <dlfcn.h>
#include <string.h>

#include "base/time.h"
#include "cmd/bench/measure/peer.h"

typedef uintptr_t handle;

/* Each collective, and its form that does not block, which has a request behind the same. */
#define COLLECTIVE(F, name, started, ...) \
    F(name, (__VA_ARGS__))                \
    F(started, (__VA_ARGS__, void *request))

#define FUNCTIONS(F)                                                                             \
    F(Initialized, (int *flag))                                                                  \
    F(Init_thread, (int *argc, char ***argv, int wanted, int *given))                            \
    F(Finalize, (void))                                                                          \
    F(Comm_rank, (handle comm, int *rank))                                                       \
    F(Comm_size, (handle comm, int *size))                                                       \
    F(Barrier, (handle comm))                                                                    \
    F(Waitall, (int count, void *requests, void *statuses))                                      \
    COLLECTIVE(F, Allreduce, Iallreduce, const void *in, void *out, int count, handle type,      \
               handle op, handle comm)                                                           \
    COLLECTIVE(F, Bcast, Ibcast, void *data, int count, handle type, int root, handle comm)      \
    COLLECTIVE(F, Allgather, Iallgather, const void *in, int count, handle type, void *out,      \
               int out_count, handle out_type, handle comm)                                      \
    COLLECTIVE(F, Alltoall, Ialltoall, const void *in, int count, handle type, void *out,        \
               int out_count, handle out_type, handle comm)                                      \
    COLLECTIVE(F, Reduce_scatter_block, Ireduce_scatter_block, const void *in, void *out,        \
               int count, handle type, handle op, handle comm)

/* Predefined handles of both ABIs: Open MPI's are variables of its library. */
struct predefined {
    int number; /* enum reigen_dtype, or enum reigen_op */
    const char *symbol;
    handle mpich;
};

static const struct predefined types[] = {
    { REIGEN_UINT8, "ompi_mpi_uint8_t", 0x4c00013b },
    { REIGEN_INT8, "ompi_mpi_int8_t", 0x4c000137 },
    { REIGEN_UINT16, "ompi_mpi_uint16_t", 0x4c00023c },
    { REIGEN_INT16, "ompi_mpi_int16_t", 0x4c000238 },
    { REIGEN_INT32, "ompi_mpi_int32_t", 0x4c000439 },
    { REIGEN_INT64, "ompi_mpi_int64_t", 0x4c00083a },
    { REIGEN_FLOAT32, "ompi_mpi_float", 0x4c00040a },
    { REIGEN_FLOAT64, "ompi_mpi_double", 0x4c00080b },
};

static const struct predefined reductions[] = {
    { REIGEN_SUM, "ompi_mpi_op_sum", 0x58000003 },
    { REIGEN_MIN, "ompi_mpi_op_min", 0x58000002 },
    { REIGEN_MAX, "ompi_mpi_op_max", 0x58000001 },
    { REIGEN_PRODUCT, "ompi_mpi_op_prod", 0x58000004 },
};

#define MPICH_WORLD 0x44000000
#define THREAD_SINGLE 0 /* in both ABIs */

struct mpi {
#define DECLARE(name, arguments) int (*name) arguments;
    FUNCTIONS(DECLARE)
#undef DECLARE
    void *library;
    bool openmpi, began;
    handle world, type, op;
    const void *in_place;
    void *no_statuses;  /* MPI_STATUSES_IGNORE */
    char *requests;     /* of a group */
    size_t request_nbytes;
    struct rg_bench_case row;
    struct rg_bench_buffers buffers;
};

/* --- finding it ------------------------------------------------------------------------------- */

/* The libraries of the launcher's own family, by the variables that its ranks have. Debian has
 * MPICH's under a name of its own. */
static const char *const *likely_libraries(void)
{
    static const char *const openmpi[] = { "libmpi.so.40", NULL };
    static const char *const mpich[] = { "libmpi.so.12", "libmpich.so.12", NULL };

    if (getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK"))
        return openmpi;
    return getenv("PMI_RANK") || getenv("PMI_SIZE") ? mpich : NULL;
}

static int look_up(struct mpi *mpi, const char *name, struct rg_error *err)
{
    const char *missing = NULL;

#define LOOK_UP(function, arguments)                                     \
    *(void **) &mpi->function = dlsym(mpi->library, "MPI_" #function);   \
    missing = !mpi->function && !missing ? "MPI_" #function : missing;
    FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    if (missing)
        return rg_error_set(err, ENOTSUP, "--peer mpi: %s has no %s; name another library as "
                            "--mpi-library FILE", name, missing);
    mpi->world = (handle) dlsym(mpi->library, "ompi_mpi_comm_world");
    mpi->openmpi = mpi->world != 0;
    mpi->world = mpi->openmpi ? mpi->world : MPICH_WORLD;
    mpi->in_place = mpi->openmpi ? (void *) 1 : (void *) -1;
    mpi->no_statuses = mpi->openmpi ? NULL : (void *) 1;
    mpi->request_nbytes = mpi->openmpi ? sizeof(void *) : sizeof(int);
    return 0;
}

static int load(struct mpi *mpi, const char *named, struct rg_error *err)
{
    const char *const *names = named ? (const char *const[]){ named, NULL } : likely_libraries();

    if (!names)
        return rg_error_set(err, ENOENT, "--peer mpi: no mpirun has started the ranks, and MPI "
                            "would not know of them; write: mpirun -np 4 reigen bench --peer mpi");
    while (!(mpi->library = dlopen(*names, RTLD_NOW | RTLD_GLOBAL)) && names[1])
        names++;
    if (!mpi->library)
        return rg_error_set(err, ENOENT, "--peer mpi: %.500s; name the library as --mpi-library "
                            "FILE", dlerror());
    return look_up(mpi, *names, err);
}

static int check_world(const struct mpi *mpi, const struct rg_bench_world *world,
                       struct rg_error *err)
{
    int rank = -1, size = -1;

    mpi->Comm_rank(mpi->world, &rank);
    mpi->Comm_size(mpi->world, &size);
    if (rank != world->rank || size != world->size)
        return rg_error_set(err, ENOTSUP, "--peer mpi: this is rank %d of %d, and for MPI it is "
                            "rank %d of %d; start the ranks with the mpirun of this MPI",
                            world->rank, world->size, rank, size);
    return 0;
}

static int mpi_open(const struct rg_bench_world *world, const struct rg_peer_settings *settings,
                    void **ret_self, struct rg_error *err)
{
    struct mpi *mpi = calloc(1, sizeof(*mpi));
    int flag = 0, level;

    *ret_self = mpi;
    int r = rg_bench_world_agree(world, mpi ? load(mpi, settings->mpi_library, err)
                                            : rg_error_memory(err), err);
    if (r < 0)
        return r;
    if (mpi->Initialized(&flag) == 0 && !flag)
        mpi->began = mpi->Init_thread(NULL, NULL, THREAD_SINGLE, &level) == 0;
    if (!flag && !mpi->began)
        r = rg_error_set(err, EIO, "--peer mpi: MPI_Init failed");
    else
        r = check_world(mpi, world, err);
    mpi->requests = calloc((size_t) settings->group, sizeof(void *));
    if (r == 0 && !mpi->requests)
        r = rg_error_memory(err);
    return rg_bench_world_agree(world, r, err);
}

static void mpi_close(void *arg)
{
    struct mpi *mpi = arg;

    if (mpi && mpi->began)
        mpi->Finalize();
    if (mpi)
        free(mpi->requests);
    free(mpi);
}

/* --- a row ------------------------------------------------------------------------------------ */

/* 0: it has none. */
static handle find(const struct mpi *mpi, const struct predefined *list, size_t n, int number)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i].number == number)
            return mpi->openmpi ? (handle) dlsym(mpi->library, list[i].symbol) : list[i].mpich;
    }
    return 0;
}

static int mpi_begin(void *arg, const struct rg_bench_case *row, struct rg_error *err)
{
    struct mpi *mpi = arg;
    const struct rg_bench_op_info *info = &rg_bench_ops[row->op];

    mpi->row = *row;
    mpi->type = find(mpi, types, rg_array_len(types), row->type);
    mpi->op = find(mpi, reductions, rg_array_len(reductions), row->reduction);
    if (row->op == RG_BENCH_JOIN || (info->data && !mpi->type) || (info->reduces && !mpi->op))
        return rg_error_set(err, EOPNOTSUPP, "MPI has no %s%s%s%s%s", info->name,
                            info->reduces ? " " : "",
                            info->reduces ? rg_bench_reductions[row->reduction] : "",
                            info->data ? " of " : "",
                            info->data ? rg_bench_types[row->type].name : "");
    if (row->count > INT32_MAX)
        return rg_error_set(err, EOPNOTSUPP, "MPI counts up to %d elements", INT32_MAX);
    int rank = 0;
    mpi->Comm_rank(mpi->world, &rank);
    return rg_bench_buffers_make(row, rank, true, &mpi->buffers, err);
}

static void mpi_end(void *arg)
{
    struct mpi *mpi = arg;

    rg_bench_buffers_fini(&mpi->buffers);
}

/* Tensor i, from beginning to end; with a request, only begun. */
static int perform_one(const struct mpi *mpi, int i, void *request)
{
    const void *in = mpi->row.in_place ? mpi->in_place : mpi->buffers.ins[i];
    void *out = mpi->buffers.outs[i];
    int count = (int) mpi->row.count, part = (int) mpi->row.part;

#define CALL(name, started, ...) \
    (request ? mpi->started(__VA_ARGS__, request) : mpi->name(__VA_ARGS__))
    switch (mpi->row.op) {
    case RG_BENCH_ALLREDUCE:
        return CALL(Allreduce, Iallreduce, in, out, count, mpi->type, mpi->op, mpi->world);
    case RG_BENCH_BROADCAST: return CALL(Bcast, Ibcast, out, count, mpi->type, 0, mpi->world);
    case RG_BENCH_ALLGATHER:
    case RG_BENCH_ALLGATHER_INTO:
        return CALL(Allgather, Iallgather, in, part, mpi->type, out, part, mpi->type, mpi->world);
    case RG_BENCH_ALLTOALL:
        return CALL(Alltoall, Ialltoall, in, part, mpi->type, out, part, mpi->type, mpi->world);
    case RG_BENCH_REDUCESCATTER:
    case RG_BENCH_REDUCESCATTER_INTO:
        return CALL(Reduce_scatter_block, Ireduce_scatter_block, in, out, part, mpi->type, mpi->op,
                    mpi->world);
    default: return mpi->Barrier(mpi->world);
    }
#undef CALL
}

/* MPI has no groups: what all tensors wait for is begun, and then waited for. */
static int perform(const struct mpi *mpi)
{
    int n = mpi->row.group, code = 0;

    if (n == 1)
        return perform_one(mpi, 0, NULL);
    for (int i = 0; i < n && code == 0; i++)
        code = perform_one(mpi, i, mpi->requests + (size_t) i * mpi->request_nbytes);
    return code ? code : mpi->Waitall(n, mpi->requests, mpi->no_statuses);
}

static int mpi_run(void *arg, int niterations, double *ret_seconds, struct rg_error *err)
{
    struct mpi *mpi = arg;
    uint64_t began_ns = rg_now_ns();

    for (int i = 0; i < niterations; i++) {
        int code = perform(mpi);
        if (code != 0)
            return rg_error_set(err, EIO, "--peer mpi: %s failed with MPI's code %d",
                                rg_bench_ops[mpi->row.op].name, code);
    }
    *ret_seconds = (double) (rg_now_ns() - began_ns) / RG_NS_PER_S;
    return 0;
}

const struct rg_bench_peer rg_bench_peer_mpi = {
    .name = "mpi", .open = mpi_open, .begin = mpi_begin, .run = mpi_run, .end = mpi_end,
    .close = mpi_close,
};
