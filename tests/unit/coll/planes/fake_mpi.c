/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/planes/fake_mpi.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS_MAX = 8, LATER = 3, FAILURE = 17 };

/* What a member gave to its number-th collective, until all others have taken it. */
struct part {
    struct part *next;
    long number;
    int owner, ntaken, nbytes;
    char *data;
};

struct message {
    struct message *next;
    int from, to, tag, nbytes;
    char *data;
};

enum kind { SEND, RECEIVE, BROADCAST, GATHER };

struct request {
    struct rg_mpi_comm comm;
    enum kind kind;
    long number;
    int peer, tag, nbytes, looks;
    char *to;
    const int *counts, *displs; /* GATHER of unequal parts */
};

static struct {
    pthread_mutex_t lock;
    int n, nrequests, fail_after, ntests;
    long numbers[MEMBERS_MAX]; /* of collectives, by member */
    struct part *parts;
    struct message *messages, **last_message;
    struct fake_mpi_calls calls;
} world = { .lock = PTHREAD_MUTEX_INITIALIZER };

void fake_mpi_start(int n)
{
    world.n = n;
    world.nrequests = world.fail_after = world.ntests = 0;
    memset(world.numbers, 0, sizeof(world.numbers));
    world.last_message = &world.messages;
    world.calls = (struct fake_mpi_calls){ 0 };
}

int fake_mpi_stop(void)
{
    while (world.parts) {
        struct part *part = world.parts;

        world.parts = part->next;
        free(part->data);
        free(part);
    }
    while (world.messages) {
        struct message *message = world.messages;

        world.messages = message->next;
        free(message->data);
        free(message);
    }
    return world.nrequests;
}

struct rg_mpi_comm fake_mpi_comm(int me)
{
    return (struct rg_mpi_comm){ .handle = 1, .rank = me, .size = world.n };
}

void fake_mpi_fail_after(int count)
{
    world.fail_after = count;
}

struct fake_mpi_calls fake_mpi_calls(void)
{
    return world.calls;
}

static char *copy(const void *data, int nbytes)
{
    char *made = malloc((size_t) nbytes + 1);

    if (nbytes > 0)
        memcpy(made, data, (size_t) nbytes);
    return made;
}

static struct request *make(const struct rg_mpi_comm *comm, enum kind kind, int nbytes,
                            struct rg_mpi_request *ret_request)
{
    struct request *request = calloc(1, sizeof(*request));

    request->comm = *comm;
    request->kind = kind;
    request->nbytes = nbytes;
    world.nrequests++;
    if (nbytes > world.calls.largest_nbytes)
        world.calls.largest_nbytes = nbytes;
    ret_request->handle = (uintptr_t) request;
    return request;
}

/* Under the lock. */
static void give(const struct rg_mpi_comm *comm, const void *data, int nbytes)
{
    struct part *part = calloc(1, sizeof(*part));

    part->owner = comm->rank;
    part->number = world.numbers[comm->rank];
    part->nbytes = nbytes;
    part->data = copy(data, nbytes);
    part->next = world.parts;
    world.parts = part;
}

static struct part *find_part(long number, int owner)
{
    for (struct part *part = world.parts; part; part = part->next)
        if (part->number == number && part->owner == owner)
            return part;
    return NULL;
}

/* ---- the table's functions */

static bool yes(void)
{
    return true;
}

static bool no(void)
{
    return false;
}

static void describe(int code, char *text, size_t nbytes)
{
    snprintf(text, nbytes, "failure %d of the fake", code);
}

static int isend(const struct rg_mpi_comm *comm, const void *from, int nbytes, int to, int tag,
                 struct rg_mpi_request *ret_request)
{
    struct message *message = calloc(1, sizeof(*message));

    *message = (struct message){ .from = comm->rank, .to = to, .tag = tag, .nbytes = nbytes,
                                 .data = copy(from, nbytes) };
    pthread_mutex_lock(&world.lock);
    make(comm, SEND, nbytes, ret_request);
    *world.last_message = message;
    world.last_message = &message->next;
    world.calls.isend++;
    pthread_mutex_unlock(&world.lock);
    return 0;
}

static int irecv(const struct rg_mpi_comm *comm, void *to, int nbytes, int from, int tag,
                 struct rg_mpi_request *ret_request)
{
    pthread_mutex_lock(&world.lock);
    struct request *request = make(comm, RECEIVE, nbytes, ret_request);

    request->to = to;
    request->peer = from;
    request->tag = tag;
    pthread_mutex_unlock(&world.lock);
    return 0;
}

static int ibcast(const struct rg_mpi_comm *comm, void *data, int nbytes, int root,
                  struct rg_mpi_request *ret_request)
{
    pthread_mutex_lock(&world.lock);
    struct request *request = make(comm, BROADCAST, nbytes, ret_request);

    request->to = data;
    request->peer = root;
    give(comm, data, comm->rank == root ? nbytes : 0);
    request->number = world.numbers[comm->rank]++;
    world.calls.ibcast++;
    pthread_mutex_unlock(&world.lock);
    return 0;
}

static int iallgather(const struct rg_mpi_comm *comm, const void *from, void *to, int nbytes,
                      struct rg_mpi_request *ret_request)
{
    pthread_mutex_lock(&world.lock);
    struct request *request = make(comm, GATHER, nbytes, ret_request);

    request->to = to;
    give(comm, from, nbytes);
    request->number = world.numbers[comm->rank]++;
    world.calls.iallgather++;
    pthread_mutex_unlock(&world.lock);
    return 0;
}

static int iallgatherv(const struct rg_mpi_comm *comm, const void *from, void *to,
                       const int *counts, const int *displs, struct rg_mpi_request *ret_request)
{
    pthread_mutex_lock(&world.lock);
    struct request *request = make(comm, GATHER, counts[comm->rank], ret_request);

    request->to = to;
    request->counts = counts;
    request->displs = displs;
    give(comm, from ? from : (char *) to + displs[comm->rank], counts[comm->rank]);
    request->number = world.numbers[comm->rank]++;
    world.calls.iallgatherv++;
    pthread_mutex_unlock(&world.lock);
    return 0;
}

/* FAILURE where the message is not what is waited for. */
static int try_receive(struct request *request, bool *ret_done)
{
    for (struct message **at = &world.messages; *at; at = &(*at)->next) {
        struct message *message = *at;
        int code = message->tag == request->tag && message->nbytes == request->nbytes ? 0
                                                                                      : FAILURE;

        if (message->from != request->peer || message->to != request->comm.rank)
            continue;
        if (code == 0)
            memcpy(request->to, message->data, (size_t) message->nbytes);
        *at = message->next;
        if (!message->next)
            world.last_message = at;
        free(message->data);
        free(message);
        *ret_done = true;
        return code;
    }
    return 0;
}

static int take_part(struct request *request, struct part *part)
{
    int at = part->owner * request->nbytes;

    if (request->kind == BROADCAST) {
        if (part->owner == request->peer && request->comm.rank != part->owner)
            memcpy(request->to, part->data, (size_t) part->nbytes);
        return part->owner == request->peer && part->nbytes != request->nbytes ? FAILURE : 0;
    }
    if (request->counts)
        at = request->displs[part->owner];
    if (part->nbytes != (request->counts ? request->counts[part->owner] : request->nbytes))
        return FAILURE;
    memcpy(request->to + at, part->data, (size_t) part->nbytes);
    return 0;
}

/* Everybody has posted it. */
static int try_collective(struct request *request, bool *ret_done)
{
    int code = 0;

    for (int i = 0; i < world.n; i++)
        if (!find_part(request->number, i))
            return 0;
    for (int i = 0; i < world.n; i++) {
        struct part *part = find_part(request->number, i);

        if (code == 0)
            code = take_part(request, part);
        if (++part->ntaken < world.n)
            continue;
        for (struct part **at = &world.parts; *at; at = &(*at)->next)
            if (*at == part) {
                *at = part->next;
                break;
            }
        free(part->data);
        free(part);
    }
    *ret_done = true;
    return code;
}

static int test_locked(struct request *request, bool *ret_done)
{
    if (++world.ntests == world.fail_after || (world.fail_after && world.ntests > world.fail_after))
        return FAILURE;
    if (++request->looks < LATER)
        return 0;
    if (request->kind == SEND)
        *ret_done = true;
    else if (request->kind == RECEIVE)
        return try_receive(request, ret_done);
    else
        return try_collective(request, ret_done);
    return 0;
}

static int test(struct rg_mpi_request *given, bool *ret_done)
{
    struct request *request = (struct request *) given->handle;
    bool done = false;

    pthread_mutex_lock(&world.lock);
    int code = test_locked(request, &done);

    if (done || code != 0) {
        free(request);
        given->handle = 0;
        world.nrequests--;
    }
    pthread_mutex_unlock(&world.lock);
    if (code == 0)
        *ret_done = done;
    return code;
}

/* A message that has not come will not be written anywhere. */
static int cancel(struct rg_mpi_request *given)
{
    struct request *request = (struct request *) given->handle;

    pthread_mutex_lock(&world.lock);
    world.fail_after = 0;
    request->kind = SEND;
    request->looks = LATER;
    pthread_mutex_unlock(&world.lock);
    return 0;
}

static void nudge(const struct rg_mpi_comm *comm)
{
    (void) comm;
}

static void free_comm(struct rg_mpi_comm *comm)
{
    comm->handle = 0;
}

const struct rg_mpi_shim_ops fake_mpi_ops = {
    .version = RG_MPI_SHIM_VERSION,
    .abi = "fake",
    .initialized = yes,
    .finalized = no,
    .describe = describe,
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
