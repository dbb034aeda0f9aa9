/* SPDX-License-Identifier: Apache-2.0 */
/* Which MPI this process has is found out at run time, so that one build serves them all. */
#include "coll/mpi/mpi_shim.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/time.h"

#define LIBRARIES_MAX 16              /* names looked at; a process has one MPI, in a few files */
#define FENCE_NBYTES_MAX (64u << 20)  /* of all blobs */
#define AWAKE_NS (200 * 1000)         /* of finish, before it naps */
#define NAP_MAX_NS (1000 * 1000)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct rg_mpi_shim_ops *the_ops; /* under lock */
static bool the_openmpi;                      /* likewise: the_ops is bound to an Open MPI */

/* ---- which MPI this process has */

struct libraries {
    char path[LIBRARIES_MAX][PATH_MAX];
    int n;
};

static int note_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct libraries *found = arg;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash ? slash + 1 : info->dlpi_name;

    (void) size;
    if (strncmp(name, "libmpi", 6) == 0 && found->n < LIBRARIES_MAX)
        snprintf(found->path[found->n++], PATH_MAX, "%s", info->dlpi_name);
    return 0;
}

/* What an MPI says of itself, at any time; alike in all ABIs. */
static void read_version(void *library, char text[static RG_MPI_VERSION_MAX])
{
    int (*describe)(char *, int *), length = 0;

    text[0] = '\0';
    *(void **) &describe = dlsym(library, "MPI_Get_library_version");
    if (describe)
        describe(text, &length);
}

/* Of whatever ABI. */
static bool is_openmpi(void *library)
{
    char version[RG_MPI_VERSION_MAX];

    if (dlsym(library, "ompi_mpi_comm_world"))
        return true;
    read_version(library, version);
    return strncmp(version, "Open MPI", 8) == 0;
}

/* By the variables of Open MPI's mpirun and of PMIx; of Hydra and of PMI. */
static bool launched(bool openmpi)
{
    static const char *const names[2][2] = { { "PMI_RANK", "PMI_SIZE" },
                                             { "PMIX_RANK", "OMPI_COMM_WORLD_SIZE" } };

    return getenv(names[openmpi][0]) || getenv(names[openmpi][1]);
}

/* 0: no MPI; else the higher the likelier it is the one that the program means. MPI_Initialized is
 * alike in all ABIs, and may be called at any time. */
static int likelihood(void *library)
{
    int (*initialized)(int *), flag = 0;

    *(void **) &initialized = dlsym(library, "MPI_Initialized");
    if (!initialized || !dlsym(library, "MPI_Get_library_version"))
        return 0;
    return 1 + launched(is_openmpi(library)) + (initialized(&flag) == 0 && flag ? 2 : 0);
}

/* The library of an MPI that is here: dlopen's handle, which is kept, as it must not go while a
 * shim points into it. */
static void *find_mpi(void)
{
    rg_autofree struct libraries *found = calloc(1, sizeof(*found));
    void *best = NULL;
    int most = 0;

    if (!found)
        return NULL;
    dl_iterate_phdr(note_library, found);
    for (int i = 0; i < found->n; i++) {
        void *library = dlopen(found->path[i], RTLD_LAZY | RTLD_NOLOAD);
        int likely = library ? likelihood(library) : 0;

        if (likely > most) {
            most = likely;
            best = library;
        } else if (library) {
            dlclose(library);
        }
    }
    /* Linked into the program, or under another name. */
    if (!best && dlsym(RTLD_DEFAULT, "MPI_Get_library_version"))
        best = dlopen(NULL, RTLD_LAZY);
    return best;
}

/* REIGEN_MPI=<library>, else NULL. */
static const char *named_library(void)
{
    const char *value = getenv("REIGEN_MPI");

    return value && (strchr(value, '/') || strstr(value, ".so")) ? value : NULL;
}

/* The version of the standard ABI that a library has; 0: it has an ABI of its own. Both MPICH and
 * Open MPI have this function in all their libraries, and give -1 in those of their own ABI. */
static int standard_version(void *library)
{
    int (*ask)(int *, int *), major = 0, minor = 0;

    *(void **) &ask = dlsym(library, "MPI_Abi_get_version");
    return ask && ask(&major, &minor) == 0 && major > 0 ? major : 0;
}

/* Named as those of the standard ABI: older drafts of it did not say what they were. */
static bool is_named_standard(void *library)
{
    Dl_info info;
    const char *slash;

    if (!dladdr(dlsym(library, "MPI_Initialized"), &info) || !info.dli_fname)
        return false;
    slash = strrchr(info.dli_fname, '/');
    return strncmp(slash ? slash + 1 : info.dli_fname, "libmpi_abi", 10) == 0;
}

/* Which shim fits: "abi", "ompi" or "mpich". 0, -ENOTSUP. */
static int find_abi(void *library, const char **ret_abi, struct rg_error *err)
{
    static const char *const of_mpich[] = { "MPICH", "Intel(R) MPI", "MVAPICH" };
    char version[RG_MPI_VERSION_MAX];
    int standard = standard_version(library);
    const char *abi = standard == 1 ? "abi" : NULL;

    if (standard > 1)
        return rg_error_set(err, ENOTSUP, "the MPI in this process has version %d of the standard "
                            "ABI of MPI, and Reigen knows version 1", standard);
    if (!standard && is_named_standard(library))
        return rg_error_set(err, ENOTSUP, "the MPI in this process, libmpi_abi.so, has a draft of "
                            "the standard ABI of MPI 5; Reigen needs the final one, as MPICH 5.0 "
                            "has it, or libmpi.so of Open MPI or MPICH");
    if (!abi && is_openmpi(library))
        abi = "ompi";
    read_version(library, version);
    for (size_t i = 0; i < rg_array_len(of_mpich) && !abi; i++)
        if (strstr(version, of_mpich[i]))
            abi = "mpich";
    version[strcspn(version, "\n")] = '\0';
    if (!abi)
        return rg_error_set(err, ENOTSUP, "the MPI in this process, \"%.128s\", is not Open MPI, "
                            "and its ABI is neither MPICH's nor the standard one", version);
    *ret_abi = abi;
    return 0;
}

bool rg_mpi_present(void)
{
    return find_mpi() != NULL || named_library() != NULL;
}

bool rg_mpi_is_openmpi(void)
{
    pthread_mutex_lock(&lock);
    bool is = the_openmpi;

    pthread_mutex_unlock(&lock);
    return is;
}

bool rg_mpi_launched(void)
{
    return launched(rg_mpi_is_openmpi());
}

/* ---- the shim */

/* Beside the file that this code is in. */
static int open_shim(const char *abi, void **ret_shim, struct rg_error *err)
{
    rg_autofree char *real = NULL;
    Dl_info self;
    char path[PATH_MAX];

    if (!dladdr((void *) (uintptr_t) rg_mpi_shim_load, &self) || !self.dli_fname)
        return rg_error_set(err, ENOTSUP, "libreigen.so does not know where it lies");
    real = realpath(self.dli_fname, NULL);
    const char *file = real ? real : self.dli_fname, *slash = strrchr(file, '/');
    int n = snprintf(path, sizeof(path), "%.*slibreigen_mpi_%s.so",
                     slash ? (int) (slash - file) + 1 : 0, file, abi);

    if (n >= (int) sizeof(path))
        return rg_error_set(err, ENAMETOOLONG, "%s: the path is too long", file);
    *ret_shim = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return *ret_shim ? 0 : rg_error_set(err, ENOTSUP, "%s cannot be loaded: %s", path, dlerror());
}

static int bind_shim(void *library, const struct rg_mpi_shim_ops **ret_ops, struct rg_error *err)
{
    const struct rg_mpi_shim_ops *ops;
    const char *missing = NULL, *abi;
    void *shim;
    int r = find_abi(library, &abi, err);

    if (r == 0)
        r = open_shim(abi, &shim, err);
    if (r < 0)
        return r;
    ops = dlsym(shim, RG_MPI_SHIM_SYMBOL);
    if (!ops || ops->version != RG_MPI_SHIM_VERSION)
        return rg_error_set(err, ENOTSUP, "libreigen_mpi_%s.so belongs to another version of "
                            "Reigen", abi);
    if (ops->bind(library, &missing) < 0)
        return rg_error_set(err, ENOTSUP, "the MPI in this process lacks %s, which MPI 3.0 has",
                            missing);
    the_openmpi = is_openmpi(library);
    *ret_ops = ops;
    return 0;
}

static int load(const struct rg_mpi_shim_ops **ret_ops, struct rg_error *err)
{
    const char *named = named_library();
    void *library = find_mpi();

    if (!library && named) {
        library = dlopen(named, RTLD_NOW | RTLD_GLOBAL);
        if (!library)
            return rg_error_set(err, ENOENT, "REIGEN_MPI=%s: %s", named, dlerror());
    }
    if (!library)
        return rg_error_set(err, ENOENT, "this process has no MPI; import mpi4py first, link with "
                            "it, or name its library in REIGEN_MPI");
    return bind_shim(library, ret_ops, err);
}

int rg_mpi_shim_load(const struct rg_mpi_shim_ops **ret_ops, struct rg_error *err)
{
    const struct rg_mpi_shim_ops *ops = NULL;
    int r = 0;

    pthread_mutex_lock(&lock);
    if (!the_ops && (r = load(&ops, err)) == 0)
        the_ops = ops;
    if (r == 0)
        *ret_ops = the_ops;
    pthread_mutex_unlock(&lock);
    return r;
}

int rg_mpi_usable(const struct rg_mpi_shim_ops *ops, struct rg_error *err)
{
    static const char *const names[] = { "MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED" };
    int level;

    if (!ops->initialized())
        return rg_error_set(err, EPERM, "MPI has not been initialised");
    if (ops->finalized())
        return rg_error_set(err, EPERM, "MPI has been finalised already");
    if (ops->level(&level) != 0)
        return rg_error_set(err, EPERM, "MPI does not say which threads may call it");
    if (level < RG_MPI_SERIALIZED)
        return rg_error_set(err, EPERM, "MPI was initialised with %s, and Reigen's threads cannot "
                            "call it; ask MPI_Init_thread for MPI_THREAD_MULTIPLE",
                            names[level == RG_MPI_FUNNELED]);
    return 0;
}

int rg_mpi_error(const struct rg_mpi_shim_ops *ops, int code, const char *what,
                 struct rg_error *err)
{
    char text[RG_MPI_ERROR_MAX];

    ops->describe(code, text, sizeof(text));
    return rg_error_set(err, EIO, "%s: %.*s", what, (int) sizeof(text) / 2, text);
}

/* ---- waiting, fences */

/* Wait for a request, napping between looks. 0; -EIO; -ETIMEDOUT, and the request is still under
 * way: its buffers must stay. */
static int finish(const struct rg_mpi_shim_ops *ops, struct rg_mpi_request *request,
                  const char *what, uint64_t deadline_ns, struct rg_error *err)
{
    uint64_t started = rg_now_ns();
    long nap_ns = 20 * 1000;

    for (;;) {
        bool done = false;
        int code = ops->test(request, &done);
        uint64_t now = rg_now_ns();

        if (code != 0)
            return rg_mpi_error(ops, code, what, err);
        if (done)
            return 0;
        if (now >= deadline_ns)
            return rg_error_set(err, ETIMEDOUT, "%s: not all ranks came in time", what);
        if (now - started < AWAKE_NS) {
            sched_yield();
            continue;
        }
        nanosleep(&(struct timespec){ 0, nap_ns }, NULL);
        nap_ns = nap_ns * 2 < NAP_MAX_NS ? nap_ns * 2 : NAP_MAX_NS;
    }
}

/* All that MPI may write to or read from while a fence is under way: on the heap, and left there
 * when the time is over. */
struct fence {
    uint64_t mine, *sizes; /* of blobs, by rank; behind the struct, as are the lists and blob */
    int *counts, *displs;
    uint8_t *blob, *all;   /* all: owned */
};

static struct fence *fence_make(int size, const void *blob, size_t nbytes)
{
    size_t n = (size_t) size, of_rank = sizeof(uint64_t) + 2 * sizeof(int);
    struct fence *fence = calloc(1, sizeof(*fence) + n * of_rank + nbytes);

    if (!fence)
        return NULL;
    fence->mine = nbytes;
    fence->sizes = (uint64_t *) (fence + 1);
    fence->counts = (int *) (fence->sizes + n);
    fence->displs = fence->counts + n;
    fence->blob = (uint8_t *) (fence->displs + n);
    if (nbytes > 0)
        memcpy(fence->blob, blob, nbytes);
    return fence;
}

/* Room for all blobs, whose sizes are known. Equal on all ranks but for want of memory. */
static int fence_reserve(struct fence *fence, int size, struct rg_error *err)
{
    uint64_t total = 0;

    for (int i = 0; i < size; i++) {
        if (fence->sizes[i] > FENCE_NBYTES_MAX - total)
            return rg_error_set(err, EMSGSIZE, "rank %d of MPI and those before it say more than "
                                "%u bytes at once", i, FENCE_NBYTES_MAX);
        fence->counts[i] = (int) fence->sizes[i];
        fence->displs[i] = (int) total;
        total += fence->sizes[i];
    }
    fence->all = malloc(total + 1);
    return fence->all ? 0 : rg_error_set(err, ENOMEM, "out of memory");
}

static int fence_run(const struct rg_mpi_shim_ops *ops, const struct rg_mpi_comm *comm,
                     struct fence *fence, uint64_t deadline_ns, struct rg_error *err)
{
    struct rg_mpi_request request;
    int r, code = ops->iallgather(comm, &fence->mine, fence->sizes, sizeof(fence->mine), &request);

    if (code != 0)
        return rg_mpi_error(ops, code, "MPI_Iallgather", err);
    r = finish(ops, &request, "MPI_Iallgather", deadline_ns, err);
    if (r == 0)
        r = fence_reserve(fence, comm->size, err);
    if (r < 0)
        return r;
    code = ops->iallgatherv(comm, fence->blob, fence->all, fence->counts, fence->displs, &request);
    if (code != 0)
        return rg_mpi_error(ops, code, "MPI_Iallgatherv", err);
    return finish(ops, &request, "MPI_Iallgatherv", deadline_ns, err);
}

int rg_mpi_fence(const struct rg_mpi_shim_ops *ops, const struct rg_mpi_comm *comm,
                 const void *blob, size_t nbytes, uint64_t deadline_ns, struct rg_blob *ret_blobs,
                 struct rg_error *err)
{
    struct fence *fence = fence_make(comm->size, blob, nbytes);
    int r;

    if (!fence)
        return rg_error_set(err, ENOMEM, "out of memory");
    r = fence_run(ops, comm, fence, deadline_ns, err);
    if (r == -ETIMEDOUT)
        return r;
    if (r == 0) {
        for (int i = 0; i < comm->size; i++)
            ret_blobs[i] = (struct rg_blob){ fence->all + fence->displs[i], fence->sizes[i] };
        fence->all = NULL;
    }
    free(fence->all);
    free(fence);
    return r;
}
