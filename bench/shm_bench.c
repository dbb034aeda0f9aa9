/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shm plane's allreduce beside the MPI_Allreduce of the MPI that this is compiled with,
 * interleaved in the same processes, so that noise meets both. Not installed, not part of the
 * build:
 *
 *     ninja -C build src/coll/librg_coll.a
 *     mpicc -O2 -D_GNU_SOURCE -Isrc -Iinclude bench/shm_bench.c build/src/coll/librg_coll.a \
 *         build/src/coll/reduce/librg_reduce_*.a build/src/base/librg_base.a -lev -o shm_bench
 *     mpirun -np 4 --oversubscribe shm_bench [max bytes]
 *
 * Prints, per size, medians and minima in microseconds of the slowest rank, in place and not.
 */
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/time.h"
#include "coll/planes/shm.h"

enum { MAX_RANKS = 64, SAMPLES = 41, SPINS = 2000, YIELDS = 200 };

static struct rg_team team;
static struct rg_team_peer peers[MAX_RANKS];
static void *plane;
static bool oversubscribed;

static void *map_shared(size_t nbytes, int rank)
{
    char path[64] = "/dev/shm/shm_bench.XXXXXX";
    int fd = -1;
    void *memory;

    if (rank == 0) {
        fd = mkstemp(path);
        if (fd < 0 || ftruncate(fd, (off_t) nbytes) != 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Bcast(path, sizeof(path), MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank != 0)
        fd = open(path, O_RDWR);
    memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    close(fd);
    if (rank == 0)
        unlink(path);
    return memory;
}

static void ours_open(int rank, int size)
{
    size_t nbytes = rg_plane_shm.region_nbytes(size);
    char *memory = map_shared(nbytes + (2 << 20), rank);
    struct rg_plane_options options = { .team = &team, .group = { .nmembers = size, .me = rank },
                                        .region = memory + (2 << 20) };

    for (int i = 0; i < size; i++)
        peers[i].node_rank = i;
    team = (struct rg_team){ .rank = rank, .size = size, .nnodes = 1, .node_rank = rank,
                             .node_size = size, .peers = peers,
                             .bells = { (struct rg_bell *) memory, NULL, size, rank } };
    rg_plane_shm.open(&options, &plane, NULL);
}

/* Awake ranks spin; oversubscribed ones yield, as each yield lets a rank of the same core run; then
 * all sleep. */
static void ours(void *in, void *out, size_t count)
{
    struct rg_coll coll = { RG_COLL_ALLREDUCE, REIGEN_FLOAT32, REIGEN_SUM, 0, count, NULL, NULL,
                            in, out, { 1.0, 1.0, 1 } };
    int idle = 0;
    bool moved;

    rg_plane_shm.post(plane, &coll);
    while (rg_plane_shm.progress(plane, &moved, NULL) == 0) {
        idle = moved ? 0 : idle + 1;
        if (moved)
            continue;
        if (!oversubscribed && idle < SPINS) {
            __builtin_ia32_pause();
        } else if (idle < SPINS + YIELDS) {
            sched_yield();
        } else {
            uint32_t seen = rg_bell_prepare(&team.bells, RG_BELL_FUTEX_URGENT);

            rg_plane_shm.progress(plane, &moved, NULL);
            if (moved)
                rg_bell_cancel(&team.bells);
            else
                rg_bell_commit(&team.bells, seen, 100000);
            idle = 0;
        }
    }
}

static void theirs(void *in, void *out, size_t count)
{
    MPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, (int) count, MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

/* Microseconds per call of the slowest rank. */
static double sample(void (*run)(void *, void *, size_t), void *in, void *out, size_t count,
                     int calls)
{
    double us, slowest;
    uint64_t start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = rg_now_ns();
    for (int i = 0; i < calls; i++)
        run(in, out, count);
    us = (double) (rg_now_ns() - start) / 1e3 / calls;
    MPI_Allreduce(&us, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static void measure(size_t nbytes, void *in, void *out, const char *name, int rank)
{
    double mpi[SAMPLES], our[SAMPLES];
    int calls = nbytes <= 16384 ? 50 : nbytes <= 262144 ? 10 : nbytes <= 1 << 20 ? 4 : 1;
    int samples = nbytes > 16 << 20 ? 9 : nbytes >= 4 << 20 ? 15 : SAMPLES;

    for (int i = 0; i < samples; i++) {
        our[i] = sample(ours, in, out, nbytes / 4, calls);
        mpi[i] = sample(theirs, in, out, nbytes / 4, calls);
    }
    qsort(mpi, (size_t) samples, sizeof(double), compare);
    qsort(our, (size_t) samples, sizeof(double), compare);
    if (rank == 0)
        printf("%9zu %-8s ours %9.1f (%9.1f)  mpi %9.1f (%9.1f)  ratio %.2f (%.2f)\n", nbytes,
               name, our[samples / 2], our[0], mpi[samples / 2], mpi[0],
               our[samples / 2] / mpi[samples / 2], our[0] / mpi[0]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    size_t most = argc > 1 ? strtoul(argv[1], NULL, 0) : 64u << 20;
    size_t least = argc > 2 ? strtoul(argv[2], NULL, 0) : 4096;
    int rank, size;
    float *in, *out;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    oversubscribed = size > sysconf(_SC_NPROCESSORS_ONLN);
    ours_open(rank, size);
    in = malloc(most);
    out = malloc(most);
    for (size_t i = 0; i < most / 4; i++)
        in[i] = out[i] = 0;
    for (size_t nbytes = least; nbytes <= most; nbytes *= 4) {
        measure(nbytes, in, out, "", rank);
        if (nbytes >= 1 << 20)
            measure(nbytes, out, out, "in place", rank);
    }
    rg_plane_shm.close(plane, 0);
    MPI_Finalize();
    return 0;
}
