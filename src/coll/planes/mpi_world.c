/* SPDX-License-Identifier: Apache-2.0 */
/* How the mpi plane is wired up: what ranks say of their MPI, and what they make of it together. */
#include "coll/planes/mpi.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "coll/boot/launchers.h"
#include "coll/planes/planes.h"
#include "coll/team/team.h"

#define WHY_MAX 255

/* What a rank says. */
struct place {
    bool wanted;           /* this rank may use MPI */
    int rank, size;        /* in MPI_COMM_WORLD; rank -1: it cannot ... */
    char why[WHY_MAX + 1]; /* ... and why */
};

static atomic_bool spoiled;

void rg_mpi_world_spoil(void)
{
    atomic_store(&spoiled, true);
}

static bool names_mpi(const char *variable)
{
    const char *value = getenv(variable);

    return value && strcasecmp(value, "mpi") == 0;
}

/* REIGEN_MPI: 0, 1, or a library. Unset: as Horovod is told, if the MPI is there. */
int rg_mpi_world_asked(struct rg_error *err)
{
    const char *value = getenv("REIGEN_MPI");
    bool set = value && value[0], off = set && strcmp(value, "0") == 0;

    if (set && !off && strcmp(value, "1") != 0 && !strchr(value, '/') && !strstr(value, ".so"))
        return rg_error_set(err, EINVAL, "REIGEN_MPI=%s: give 0, 1 or the MPI library to load, as "
                            "libmpi.so.40 or with its path", value);
    if (set)
        return off ? RG_PLANE_NOT_ASKED : RG_PLANE_ASKED;
    return names_mpi("HOROVOD_CPU_OPERATIONS") || names_mpi("HOROVOD_CONTROLLER")
               ? RG_PLANE_HINTED : RG_PLANE_NOT_ASKED;
}

void rg_mpi_world_prepare(bool insisted)
{
    const struct rg_mpi_shim_ops *ops;
    int level;

    if (rg_mpi_shim_load(&ops, NULL) < 0 || ops->initialized() || ops->finalized())
        return;
    /* The ranks of a torchrun inside an mpirun have inherited one place among them all. What comes
     * of it is seen in their offers. */
    if (insisted || (rg_mpi_launched() && !rg_launched_by_torchrun()))
        ops->init(&level);
}

static int find_place(struct rg_mpi_comm *ret_world, struct rg_error *err)
{
    const struct rg_mpi_shim_ops *ops;
    int r, code;

    if (atomic_load(&spoiled))
        return rg_error_set(err, EPERM, "an operation of MPI's was given up in this process");
    r = rg_mpi_shim_load(&ops, err);
    if (r == 0)
        r = rg_mpi_usable(ops, err);
    if (r < 0)
        return r;
    code = ops->world(ret_world);
    return code != 0 ? rg_mpi_error(ops, code, "MPI_COMM_WORLD", err) : 0;
}

int rg_mpi_world_offer(const struct rg_config *config, int rank, int size, bool allowed,
                       struct rg_buf *offer, struct rg_error *err)
{
    struct rg_mpi_comm world = { .rank = -1 };
    struct rg_error why = RG_ERROR_INIT;

    (void) config, (void) rank, (void) err;
    if (!allowed)
        rg_error_set(&why, EPERM, "it does not ask for MPI, by REIGEN_MPI or REIGEN_PLANES");
    else if (size > 1 && find_place(&world, &why) < 0)
        world.rank = -1;
    rg_buf_put_u8(offer, allowed);
    rg_buf_put_u32(offer, (uint32_t) world.rank);
    rg_buf_put_u32(offer, (uint32_t) world.size);
    why.text[WHY_MAX] = '\0';
    rg_buf_put_str(offer, why.text);
    return 0;
}

static int read_place(const struct rg_plane_options *options, int rank, struct place *ret_place,
                      struct rg_error *err)
{
    struct rg_blob part;
    struct rg_reader reader;
    struct place place = { 0 };
    rg_autofree char *why = NULL;
    int r = rg_planes_find_offer(&options->offers[rank], "mpi", &part);

    if (r == 0 && part.nbytes == 0) {
        *ret_place = (struct place){ .rank = -1, .why = "it knows no MPI" };
        return 0;
    }
    reader = rg_reader_make(part.data, part.nbytes);
    place.wanted = rg_reader_u8(&reader) == 1;
    place.rank = (int) rg_reader_u32(&reader);
    place.size = (int) rg_reader_u32(&reader);
    why = rg_reader_str(&reader, WHY_MAX);
    if (r < 0 || rg_reader_done(&reader) < 0 || place.rank < -1 ||
        (place.rank >= 0 && (place.size < 1 || place.size > RG_MPI_RANKS_MAX)))
        return rg_error_set(err, EBADMSG, "what rank %d says of its MPI cannot be read",
                            rg_team_world_rank(options->team, rank));
    snprintf(place.why, sizeof(place.why), "%s", why ? why : "");
    *ret_place = place;
    return 0;
}

/* Whether a place fits the others; holders: 1 + who has it, by rank of MPI. */
static int check_place(const struct place *place, int size, int *holders, int rank, int shown,
                       struct rg_error *err)
{
    if (place->rank < 0)
        return rg_error_set(err, ENOTSUP, "rank %d: %s", shown, place->why);
    if (place->size != size || place->rank >= place->size || holders[place->rank] != 0)
        return rg_error_set(err, ENOTSUP, "rank %d is rank %d of %d of MPI, which does not fit the "
                            "other ranks: was it started by the mpirun of the MPI that it has "
                            "loaded?", shown, place->rank, place->size);
    holders[place->rank] = rank + 1;
    return 0;
}

int rg_mpi_world_agree(const struct rg_plane_options *options, struct rg_error *err)
{
    const struct rg_team *team = options->team;
    rg_autofree int *holders = NULL;
    struct rg_error why = RG_ERROR_INIT;
    bool wanted = false;
    int size = 0, fits = 0;

    for (int rank = 0; rank < team->size; rank++) {
        struct place place;
        int r = read_place(options, rank, &place, err);

        if (r < 0)
            return r;
        wanted = wanted || place.wanted;
        size = rank == 0 && place.rank >= 0 ? place.size : size;
        if (!holders)
            holders = calloc((size_t) size + 1, sizeof(*holders));
        if (!holders)
            return rg_error_set(err, ENOMEM, "out of memory");
        if (fits == 0)
            fits = check_place(&place, size, holders, rank, rg_team_world_rank(team, rank), &why);
    }
    if (wanted && team->size > 1 && fits < 0 && err)
        *err = why;
    return team->size > 1 ? fits : -ENOTSUP;
}

int rg_mpi_world_comm(const struct rg_plane_options *options, int tag,
                      const struct rg_mpi_shim_ops **ret_ops, struct rg_mpi_comm *ret_comm,
                      struct rg_error *err)
{
    const struct rg_group *group = &options->group;
    const struct rg_mpi_shim_ops *ops;
    struct rg_mpi_comm world;
    rg_autofree int *ranks = calloc((size_t) group->nmembers, sizeof(*ranks));
    int r = ranks ? rg_mpi_shim_load(&ops, err) : rg_error_set(err, ENOMEM, "out of memory");
    int code;

    for (int i = 0; i < group->nmembers && r == 0; i++) {
        struct place place;

        r = read_place(options, rg_group_rank(group, i), &place, err);
        ranks[i] = r == 0 ? place.rank : -1;
    }
    if (r < 0)
        return r;
    code = ops->world(&world);
    if (code == 0)
        code = ops->subset(&world, ranks, group->nmembers, tag, ret_comm);
    if (code != 0)
        return rg_mpi_error(ops, code, "MPI_Comm_create_group", err);
    *ret_ops = ops;
    return 0;
}

static const char *const levels[] = { "SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE" };

/* MPI_THREAD_SINGLE (0) to MPI_THREAD_MULTIPLE (3) of the MPI that is initialised; -1: none is. */
static int thread_level(const struct rg_mpi_shim_ops **ret_ops)
{
    int level = -1;

    if (rg_mpi_shim_load(ret_ops, NULL) < 0 || !(*ret_ops)->initialized() ||
        (*ret_ops)->finalized() || (*ret_ops)->level(&level) != 0 ||
        level >= (int) rg_array_len(levels))
        return -1;
    return level;
}

void rg_mpi_world_describe(struct rg_buf *text)
{
    const struct rg_mpi_shim_ops *ops;
    int level = thread_level(&ops);

    if (level >= 0)
        rg_buf_printf(text, "mpi: %s, MPI_THREAD_%s\n", ops->abi, levels[level]);
}

unsigned rg_mpi_world_mpi(bool opened)
{
    const struct rg_mpi_shim_ops *ops;
    int level = thread_level(&ops);

    return (opened ? REIGEN_MPI_PLANE : 0) | (level >= 0 ? REIGEN_MPI_THERE : 0) |
           (level == 3 ? REIGEN_MPI_THREADS : 0);
}
