/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Through the MPI that this process has: an MPI library owns the connection to its launcher, so
 * where mpi4py is beside us, or the program is an MPI program, fences are MPI's collectives on a
 * communicator of our own.
 *
 * Under a PMIx server there is no need to: its client library serves several users in one process,
 * and ranks that have not loaded MPI can be met. Hence this boot serves what PMI has started
 * (MPICH, Intel MPI), any MPI without PMIx, an Open MPI 5 that is there and has not been
 * initialised, and whoever asks for it by REIGEN_BOOT=mpi.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "coll/boot/launchers.h"
#include "coll/boot/pm/pm.h"
#include "coll/boot/pm/pmix_library.h"
#include "coll/mpi/mpi_shim.h"

#define PAL_OF_4 "libopen-pal.so.40" /* a part of Open MPI 4 */

/* Kept: making a communicator takes all ranks, and so does freeing it. */
struct kept {
    const struct rg_mpi_shim_ops *ops;
    struct rg_mpi_comm comm;
    bool made, broken;
};

static bool pmix_can_do_it(void)
{
    const struct rg_pmix_library *library;

    return rg_var("PMIX_NAMESPACE") && rg_pmix_library_load(&library, NULL) == 0;
}

/* From version 5 on, Open MPI cannot start in a process where PMIx has been started by others. */
static bool must_start_first(void)
{
    void *library = rg_mpi_is_openmpi() ? dlopen(PAL_OF_4, RTLD_LAZY | RTLD_NOLOAD) : NULL;

    if (library)
        dlclose(library);
    return rg_mpi_is_openmpi() && !library;
}

/* Whether an MPI that is there and that nobody has initialised is to be the way: it belongs to the
 * launcher that started this process, and would be in trouble later. Some libraries load an MPI
 * without a use for it, whatever the launcher is. */
static bool wants_to_start(void)
{
    if (rg_var("PMIX_NAMESPACE"))
        return rg_mpi_is_openmpi() && (must_start_first() || !pmix_can_do_it());
    return !rg_mpi_is_openmpi() && rg_var("PMI_FD");
}

/* Started by a launcher whose variables we do not know. */
static bool has_company(const struct rg_mpi_shim_ops *found)
{
    struct rg_mpi_comm world;

    return found->world(&world) == 0 && world.size > 1;
}

void rg_mpi_beside_check(struct rg_boot_identity *identity)
{
    const struct rg_mpi_shim_ops *found;

    if (identity->rank != 0 || identity->size == 1 || !rg_mpi_present() ||
        rg_mpi_shim_load(&found, NULL) < 0 || !found->initialized() || found->finalized() ||
        has_company(found))
        return;
    snprintf(identity->warning, sizeof(identity->warning), "MPI in this process knows of one rank "
             "only, and the job has %d: it does not belong to the launcher, and what the program "
             "does with MPI is done by each rank alone", identity->size);
}

static int detect(struct rg_error *err)
{
    const struct rg_mpi_shim_ops *found;
    bool launched = rg_launched_by_mpi();

    if (!rg_mpi_present() || rg_mpi_shim_load(&found, NULL) < 0)
        return 0;
    if (found->finalized())
        return launched && !rg_var("PMIX_NAMESPACE")
                   ? rg_error_set(err, EPERM, "MPI has been finalised in this process, and with it "
                                  "the connection to the launcher: call init before MPI_Finalize")
                   : 0;
    if (found->initialized())
        return (launched || has_company(found)) && !pmix_can_do_it();
    return launched && wants_to_start();
}

static int start_mpi(struct kept *kept, struct rg_error *err)
{
    int level, code, r = rg_mpi_shim_load(&kept->ops, err);

    if (r < 0)
        return r;
    if (kept->ops->finalized())
        return rg_error_set(err, EPERM, "MPI has been finalised in this process: call init before "
                            "MPI_Finalize");
    code = kept->ops->initialized() ? 0 : kept->ops->init(&level);
    return code == 0 ? 0 : rg_mpi_error(kept->ops, code, "MPI_Init_thread", err);
}

static int make_comm(struct kept *kept, struct rg_error *err)
{
    struct rg_mpi_comm world;
    int code;

    if (kept->broken)
        return rg_error_set(err, ECONNRESET, "MPI's communicator of Reigen has failed before in "
                            "this process");
    if (kept->made)
        return 0;
    code = kept->ops->world(&world);
    if (code == 0 && world.size == 1) {
        int r = rg_claim_check_world_of_one("MPI in this process", err);

        if (r < 0)
            return r;
    }
    if (code == 0)
        code = kept->ops->dup(&world, &kept->comm);
    if (code != 0)
        return rg_mpi_error(kept->ops, code, "MPI_Comm_dup", err);
    kept->made = true;
    return 0;
}

static void read_places(const struct kept *kept, struct rg_boot_identity *identity)
{
    struct rg_mpi_comm local;

    identity->rank = kept->comm.rank;
    identity->size = kept->comm.size;
    identity->has_key = identity->size > 1;
    identity->one_host = identity->size == 1;
    if (kept->ops->local(&kept->comm, &local) != 0)
        return;
    identity->local_rank = local.rank;
    identity->local_size = local.size;
    kept->ops->free(&local);
}

static int fence(void *state, const void *blob, size_t nbytes, uint64_t deadline_ns,
                 struct rg_blob *ret_blobs, struct rg_error *err)
{
    struct kept *kept = state;
    int r;

    if (kept->broken || kept->ops->finalized())
        return rg_error_set(err, ECONNRESET, "MPI has %s in this process",
                            kept->broken ? "failed" : "been finalised");
    r = rg_mpi_fence(kept->ops, &kept->comm, blob, nbytes, deadline_ns, ret_blobs, err);
    kept->broken = r < 0;
    return r;
}

static int share_key(struct kept *kept, struct rg_boot_identity *identity, uint64_t deadline_ns,
                     struct rg_error *err)
{
    uint8_t key[RG_KEY_NBYTES];
    rg_autofree struct rg_blob *blobs = calloc((size_t) identity->size, sizeof(*blobs));
    int r = blobs ? 0 : rg_error_set(err, ENOMEM, "out of memory");

    if (r == 0 && identity->rank == 0 && rg_key_generate(key) < 0)
        r = rg_error_set(err, ENOSYS, "no randomness for a key");
    if (r == 0)
        r = fence(kept, key, identity->rank == 0 ? sizeof(key) : 0, deadline_ns, blobs, err);
    explicit_bzero(key, sizeof(key));
    if (r < 0)
        return r;
    if (blobs[0].nbytes == RG_KEY_NBYTES) {
        memcpy(identity->key, blobs[0].data, RG_KEY_NBYTES);
        explicit_bzero(blobs[0].data, RG_KEY_NBYTES);
    } else {
        r = rg_error_set(err, EBADMSG, "rank 0 gave no key");
    }
    free(blobs[0].data);
    return r;
}

static int open_mpi(const struct rg_config *config, void **kept_by, uint64_t deadline_ns,
                    void **ret_state, struct rg_boot_identity *ret_identity, struct rg_error *err)
{
    struct kept *kept = rg_boot_keep(kept_by, sizeof(*kept));
    int r = kept ? start_mpi(kept, err) : rg_error_set(err, ENOMEM, "out of memory");

    (void) config;
    if (r == 0)
        r = make_comm(kept, err);
    if (r == 0)
        read_places(kept, ret_identity);
    if (r == 0 && ret_identity->size > 1)
        r = share_key(kept, ret_identity, deadline_ns, err);
    if (r < 0)
        return r;
    *ret_state = kept;
    return 0;
}

const struct rg_boot_ops rg_boot_mpi = {
    .name = "mpi",
    .of_mpi = true,
    .detect = detect,
    .open = open_mpi,
    .fence = fence,
};
