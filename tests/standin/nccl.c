/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A NCCL over shared memory; standin.h says what it does and does not do. The unique id leads to a
 * segment of the rank that made it, which the others open below /proc. There each pair of ranks has
 * a mailbox for each direction; every collective is made of sends and receives through these, and
 * each message says which operation it belongs to, so that ranks which call different ones are
 * found out.
 */
#include "nccl_reduce.h"
#include "standin.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    RANKS_MAX = 8, MAIL_NBYTES = 32 << 10, GROUP_MAX = 4096, PREMULS_MAX = 16,
    SUCCESS = 0, UNHANDLED_CUDA = 1, SYSTEM_ERROR = 2, INTERNAL = 3, INVALID_ARGUMENT = 4,
    INVALID_USAGE = 5, REMOTE_ERROR = 6, IN_PROGRESS = 7,
};
enum kind { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, SEND, RECV };

struct unique_id {
    char bytes[128];
};

struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

/* One direction between two ranks: a piece of one message at a time. */
struct mail {
    _Atomic unsigned sent, taken; /* pieces */
    unsigned long number;         /* of the operation, */
    int kind, type;               /* what it is, */
    size_t count;                 /* and how much it moves */
    char data[MAIL_NBYTES];
};

struct segment {
    _Atomic int nranks, narrived, nfinal;
    _Atomic int devices[RANKS_MAX];
    _Atomic int versions[RANKS_MAX];
    _Atomic int pids[RANKS_MAX];
    struct mail mails[RANKS_MAX][RANKS_MAX]; /* from, to */
};

struct comm {
    struct comm *next; /* all that there have been: their use after the end is found out */
    bool dead;
    struct segment *segment;
    int n, me, device, blocking;
    pthread_t starter;
    bool has_starter;
    struct launch *waits;  /* launched by the poll that ends the progress */
    int polls;             /* until then */
    _Atomic int state;    /* of the communicator: SUCCESS, IN_PROGRESS or an error */
    _Atomic bool aborted;
    _Atomic int npending; /* launched and not done */
    _Atomic bool lost;    /* a launch failed on this rank, as its device is broken */
    unsigned long number;
    struct unique_id id;
    _Atomic unsigned sent[RANKS_MAX], taken[RANKS_MAX]; /* pieces, by peer */
    struct premul {
        bool used;
        int type;
        double factor;
    } premuls[PREMULS_MAX];
};

struct call {
    struct comm *comm;
    struct standin_stream *stream;
    enum kind kind;
    const void *in;
    void *out;
    size_t count;
    int type, op, root; /* or peer */
    double factor;
    unsigned long number;
};

/* What one ncclGroupEnd launches on one communicator. */
struct launch {
    struct comm *comm;
    struct standin_stream *stream;
    int ncalls;
    struct call calls[];
};

static _Thread_local struct call group[GROUP_MAX];
static _Thread_local int depth, ngroup, group_result;
static _Atomic int noperations;
static _Atomic(struct comm *) comms;
/* The last words of the process, as the real one's; each is written once. */
static char words[64][200];
static _Atomic int nwords;
static _Atomic(const char *) last_words = "";

static int number(const char *name, int otherwise)
{
    const char *value = getenv(name);

    return value && value[0] ? atoi(value) : otherwise;
}

static void nap(void)
{
    struct timespec moment = { 0, 20000 };

    nanosleep(&moment, NULL); /* patient: so long a call takes */
}

STANDIN_API const char *ncclGetErrorString(int result)
{
    static const char *const texts[] = {
        "no error", "unhandled cuda error", "unhandled system error", "internal error",
        "invalid argument", "invalid usage", "remote process exited or there was a network error",
        "NCCL operation in progress" };

    return result >= 0 && result <= IN_PROGRESS ? texts[result] : "unknown result code";
}

STANDIN_API const char *ncclGetLastError(struct comm *comm)
{
    (void) comm;
    return atomic_load(&last_words);
}

static int fail(int result, const char *why)
{
    int i = atomic_fetch_add(&nwords, 1);

    if (i < (int) (sizeof(words) / sizeof(words[0]))) {
        snprintf(words[i], sizeof(words[i]), "%s", why);
        atomic_store(&last_words, words[i]);
    }
    return result;
}

STANDIN_API int ncclGetVersion(int *ret_version)
{
    *ret_version = number("STANDIN_NCCL_VERSION", 22105);
    return SUCCESS;
}

/* ---- transfers */

static void break_comm(struct comm *comm, int result, const char *why)
{
    if (!atomic_load(&comm->aborted) && atomic_load(&comm->state) <= SUCCESS)
        fprintf(stderr, "stand-in: rank %d of NCCL: %s\n", comm->me, why);
    if (atomic_load(&comm->state) == SUCCESS)
        atomic_store(&comm->state, fail(result, why));
}

/* A message of one call. */
struct transfer {
    const struct call *call;
    int peer;
    char *at;
    size_t nbytes, done;
    bool sends, began;
};

static bool matches(struct comm *comm, const struct mail *mail, const struct call *call)
{
    static const char *const names[] = { "allreduce", "reduce", "broadcast", "allgather",
                                         "reducescatter", "send", "recv" };
    int kind = call->kind == RECV ? SEND : (int) call->kind;
    char why[200];

    if (mail->kind == kind && mail->count == call->count && mail->type == call->type &&
        (kind == SEND || mail->number == call->number))
        return true;
    snprintf(why, sizeof(why), "%s %lu of %zu elements of type %d met %s %lu of %zu of type %d",
             names[call->kind], call->number, call->count, call->type, names[mail->kind],
             mail->number, mail->count, mail->type);
    break_comm(comm, INTERNAL, why);
    return false;
}

/* One piece, if it can go. True: something was done. An empty message is one piece. */
static bool step(struct comm *comm, struct transfer *t)
{
    int from = t->sends ? comm->me : t->peer, to = t->sends ? t->peer : comm->me;
    struct mail *mail = &comm->segment->mails[from][to];
    _Atomic unsigned *turn = t->sends ? &comm->sent[to] : &comm->taken[from];
    size_t piece = t->nbytes - t->done < MAIL_NBYTES ? t->nbytes - t->done : MAIL_NBYTES;

    if (t->began && t->done == t->nbytes)
        return false;
    if (t->sends && atomic_load(&mail->taken) != *turn)
        return false;
    if (!t->sends && atomic_load(&mail->sent) == *turn)
        return false;
    if (t->sends) {
        mail->kind = (int) t->call->kind;
        mail->type = t->call->type;
        mail->count = t->call->count;
        mail->number = t->call->number;
        memcpy(mail->data, t->at + t->done, piece);
        atomic_store(&mail->sent, ++*turn);
    } else {
        if (!matches(comm, mail, t->call))
            return false;
        memcpy(t->at + t->done, mail->data, piece);
        atomic_store(&mail->taken, ++*turn);
    }
    t->began = true;
    t->done += piece;
    return true;
}

static bool complete(const struct transfer *t)
{
    return t->began && t->done == t->nbytes;
}

/* Whether a rank has died, though its parent may not have heard of it. */
static bool has_died(int pid)
{
    char path[64], text[256] = "", *name_end;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    file = pid ? fopen(path, "re") : NULL;
    if (!file)
        return pid != 0;
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    name_end = strrchr(text, ')');
    return !name_end || strchr("ZX", name_end[2]);
}

static void notice_deaths(struct comm *comm)
{
    for (int p = 0; p < comm->n; p++)
        if (p != comm->me && has_died(atomic_load(&comm->segment->pids[p])))
            break_comm(comm, REMOTE_ERROR, "a peer has closed its connection");
}

/* As long as it takes, unless the communicator is aborted: then false. An error leaves it standing,
 * as a kernel of the real one's stands. */
static bool carry(struct comm *comm, struct transfer *transfers, int n)
{
    for (;;) {
        bool moved = false, all_done = true;

        if (atomic_load(&comm->aborted))
            return false;
        for (int i = 0; i < n && atomic_load(&comm->state) <= SUCCESS; i++) {
            bool earlier = false;

            /* Messages between two ranks go in their order. */
            for (int k = 0; k < i && !earlier; k++)
                earlier = transfers[k].peer == transfers[i].peer &&
                          transfers[k].sends == transfers[i].sends && !complete(&transfers[k]);
            moved |= !earlier && step(comm, &transfers[i]);
        }
        for (int i = 0; i < n; i++)
            all_done = all_done && complete(&transfers[i]);
        if (all_done)
            return true;
        if (!moved && number("STANDIN_NCCL_NOTICES", 0))
            notice_deaths(comm);
        if (!moved)
            nap();
    }
}

static struct transfer *add(struct transfer *t, const struct call *call, int peer, bool sends,
                            char *at, size_t nbytes)
{
    *t = (struct transfer){ .call = call, .peer = peer, .at = at, .nbytes = nbytes,
                            .sends = sends };
    return t + 1;
}

/* How many bytes a call reads and writes here. */
static void extents(const struct call *call, size_t *ret_in, size_t *ret_out)
{
    size_t nbytes = call->count * standin_size(call->type), n = (size_t) call->comm->n;
    bool root = call->root == call->comm->me;

    *ret_in = call->kind == RECV || (call->kind == BROADCAST && !root) ? 0
              : call->kind == REDUCE_SCATTER ? n * nbytes : nbytes;
    *ret_out = call->kind == SEND || (call->kind == REDUCE && !root) ? 0
               : call->kind == ALL_GATHER ? n * nbytes : nbytes;
}

/* Where it reads and writes, seen by the host; false: there is no such memory. */
static bool look(const struct call *call, char **ret_in, char **ret_out)
{
    size_t in, out;

    extents(call, &in, &out);
    *ret_in = in ? standin_view(call->in, in) : NULL;
    *ret_out = out ? standin_view(call->out, out) : NULL;
    if ((!in || *ret_in) && (!out || *ret_out))
        return true;
    standin_break(call->stream, 700, "NCCL was given memory that is not allocated");
    return false;
}

static bool run_collective(const struct call *call, struct transfer *transfers)
{
    struct comm *comm = call->comm;
    size_t nbytes = call->count * standin_size(call->type), n = (size_t) comm->n;
    struct transfer *t = transfers;
    bool scatters = call->kind == REDUCE_SCATTER, gathers = call->kind == ALL_GATHER;
    bool root = call->root == comm->me, good;
    bool sends = call->kind != BROADCAST || root, receives = call->kind != REDUCE || root;
    char *in, *out, *operands = malloc(n * nbytes + 1);

    if (!operands || !look(call, &in, &out)) {
        free(operands);
        return false;
    }
    for (int p = 0; p < comm->n; p++) {
        char *mine = scatters ? in + (size_t) p * nbytes : in;
        char *theirs = operands + (size_t) p * nbytes;

        if (p == comm->me && sends)
            memcpy(theirs, mine, nbytes);
        if (p == comm->me)
            continue;
        if (sends && (call->kind != REDUCE || p == call->root))
            t = add(t, call, p, true, mine, nbytes);
        if (receives && (call->kind != BROADCAST || p == call->root))
            t = add(t, call, p, false, theirs, nbytes);
    }
    good = carry(comm, transfers, (int) (t - transfers));
    if (good && gathers)
        memmove(out, operands, n * nbytes);
    else if (good && call->kind == BROADCAST)
        memmove(out, operands + (size_t) call->root * nbytes, nbytes);
    else if (good && receives) {
        standin_reduce(call->op, call->type, call->factor, operands, call->count, comm->n);
        memmove(out, operands, nbytes);
    }
    free(operands);
    return good;
}

/* Sends and receives of a group are under way together. To itself a rank's nth send is its nth
 * receive. */
static bool run_messages(struct launch *launch, struct transfer *transfers)
{
    struct transfer *t = transfers;
    struct comm *comm = launch->comm;
    int nself = 0;

    for (int i = 0; i < launch->ncalls; i++) {
        const struct call *call = &launch->calls[i];
        char *in, *out;

        if (call->kind != SEND && call->kind != RECV)
            continue;
        if (!look(call, &in, &out))
            return false;
        if (call->root != comm->me) {
            t = add(t, call, call->root, call->kind == SEND, call->kind == SEND ? in : out,
                    call->count * standin_size(call->type));
            continue;
        }
        for (int k = 0, seen = 0; k < launch->ncalls && call->kind == SEND; k++) {
            const struct call *other = &launch->calls[k];

            if (other->kind == RECV && other->root == comm->me && seen++ == nself) {
                memmove(standin_view(other->out, 1), in, call->count * standin_size(call->type));
                nself++;
                break;
            }
        }
    }
    return carry(comm, transfers, (int) (t - transfers));
}

static void inject(struct comm *comm)
{
    int n = atomic_fetch_add(&noperations, 1) + 1;

    if (n == number("STANDIN_NCCL_KILL_AFTER", -1))
        kill(getpid(), SIGKILL);
    if (n == number("STANDIN_NCCL_ERROR_AFTER", -1))
        break_comm(comm, REMOTE_ERROR, "an error that was asked for");
}

/* In the stream's thread. */
static void run_launch(void *arg)
{
    struct launch *launch = arg;
    struct comm *comm = launch->comm;
    size_t room = (size_t) launch->ncalls + 2 * RANKS_MAX;
    struct transfer *transfers = calloc(room, sizeof(*transfers));
    bool good = transfers != NULL && !atomic_load(&comm->lost);

    inject(comm);
    for (int i = 0; i < launch->ncalls && good; i++)
        if (launch->calls[i].kind < SEND)
            good = run_collective(&launch->calls[i], transfers);
    if (good)
        good = run_messages(launch, transfers);
    if (!good)
        atomic_store(&comm->lost, true); /* the others would take the next one for this one */
    free(transfers);
    free(launch);
    atomic_fetch_sub(&comm->npending, 1);
}

/* ---- the life of a communicator */

STANDIN_API int ncclGetUniqueId(struct unique_id *ret_id)
{
    int fd = memfd_create("standin-nccl", 0);

    if (fd < 0 || ftruncate(fd, sizeof(struct segment)) < 0)
        return fail(SYSTEM_ERROR, "no memory for a segment");
    memset(ret_id, 0, sizeof(*ret_id));
    snprintf(ret_id->bytes, sizeof(ret_id->bytes), "/proc/%d/fd/%d", (int) getpid(), fd);
    return SUCCESS;
}

static struct segment *open_segment(const struct unique_id *id)
{
    int fd = open(id->bytes, O_RDWR | O_CLOEXEC);
    void *at;

    if (fd < 0)
        return NULL;
    at = mmap(NULL, sizeof(struct segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

/* Whether the ranks that have come go together. */
static int compare(const struct comm *comm)
{
    const struct segment *segment = comm->segment;

    for (int p = 0; p < comm->n; p++) {
        if (segment->versions[p] != segment->versions[comm->me])
            return fail(INTERNAL, "ranks have different versions");
        if (p != comm->me && segment->devices[p] == segment->devices[comm->me] &&
            !number("STANDIN_NCCL_DUPLICATE", 0))
            return fail(INVALID_USAGE, "Duplicate GPU detected");
    }
    return SUCCESS;
}

/* Its own thread, as other ranks may take their time. */
static void *meet(void *arg)
{
    struct comm *comm = arg;
    struct segment *segment = open_segment(&comm->id);
    int r;

    if (number("STANDIN_NCCL_KILL_AFTER", -1) == 0)
        kill(getpid(), SIGKILL);
    comm->segment = segment;
    if (!segment) {
        atomic_store(&comm->state, SYSTEM_ERROR);
        return NULL;
    }
    atomic_store(&segment->devices[comm->me], comm->device);
    atomic_store(&segment->pids[comm->me], (int) getpid());
    atomic_store(&segment->versions[comm->me], number("STANDIN_NCCL_VERSION", 22105));
    atomic_fetch_add(&segment->narrived, 1);
    while (atomic_load(&segment->narrived) < comm->n && !atomic_load(&comm->aborted))
        nap();
    r = atomic_load(&comm->aborted) ? SYSTEM_ERROR : compare(comm);
    atomic_store(&comm->state, r);
    return NULL;
}

STANDIN_API int ncclCommInitRankConfig(struct comm **ret_comm, int n, struct unique_id id, int me,
                                       struct config *config)
{
    struct comm *comm;

    if (config->magic != 0xcafebeef || config->size < 32 || config->version < 21400)
        return fail(INVALID_ARGUMENT, "a config that was not initialised");
    if (n < 1 || n > RANKS_MAX || me < 0 || me >= n || standin_device() < 0)
        return fail(INVALID_ARGUMENT, "ranks out of range, or no device");
    comm = calloc(1, sizeof(*comm));
    if (!comm)
        return SYSTEM_ERROR;
    comm->n = n;
    comm->me = me;
    comm->id = id;
    comm->device = standin_device();
    comm->blocking = config->blocking;
    atomic_store(&comm->state, IN_PROGRESS);
    comm->next = atomic_load(&comms);
    while (!atomic_compare_exchange_weak(&comms, &comm->next, comm))
        ;
    if (pthread_create(&comm->starter, NULL, meet, comm) != 0)
        return fail(SYSTEM_ERROR, "no thread");
    comm->has_starter = true;
    *ret_comm = comm;
    while (comm->blocking && atomic_load(&comm->state) == IN_PROGRESS)
        nap();
    return atomic_load(&comm->state);
}

static int check_comm(struct comm *comm)
{
    if (!comm || comm->dead)
        return fail(INVALID_ARGUMENT, "a communicator that is not there (any more)");
    if (atomic_load(&comm->state) == IN_PROGRESS || comm->waits)
        return fail(INVALID_USAGE, "a communicator is used while a call of it is in progress");
    return SUCCESS;
}

static int launch_now(struct launch *launch)
{
    if (standin_put(launch->stream, run_launch, launch) == 0)
        return SUCCESS;
    atomic_fetch_sub(&launch->comm->npending, 1);
    free(launch);
    return fail(UNHANDLED_CUDA, "a launch failed");
}

STANDIN_API int ncclCommGetAsyncError(struct comm *comm, int *ret_state)
{
    if (!comm || comm->dead)
        return fail(INVALID_ARGUMENT, "a communicator that is not there (any more)");
    if (comm->waits && comm->polls-- <= 0) {
        struct launch *launch = comm->waits;

        comm->waits = NULL;
        if (launch_now(launch) != SUCCESS)
            atomic_store(&comm->state, UNHANDLED_CUDA);
    }
    *ret_state = comm->waits ? IN_PROGRESS : atomic_load(&comm->state);
    return SUCCESS;
}

STANDIN_API int ncclCommFinalize(struct comm *comm)
{
    int r = check_comm(comm);

    if (r != SUCCESS)
        return r;
    while (atomic_load(&comm->npending) > 0 && atomic_load(&comm->state) == SUCCESS)
        nap();
    return atomic_load(&comm->state);
}

static void end_comm(struct comm *comm)
{
    if (comm->has_starter)
        pthread_join(comm->starter, NULL);
    while (atomic_load(&comm->npending) > 0)
        nap();
    if (comm->segment)
        munmap(comm->segment, sizeof(*comm->segment));
    comm->segment = NULL;
    comm->dead = true;
}

STANDIN_API int ncclCommDestroy(struct comm *comm)
{
    int r = check_comm(comm);

    if (r == SUCCESS)
        end_comm(comm);
    return r;
}

/* What has been launched ends, with any result. */
STANDIN_API int ncclCommAbort(struct comm *comm)
{
    if (!comm || comm->dead)
        return fail(INVALID_ARGUMENT, "a communicator that is not there (any more)");
    atomic_store(&comm->aborted, true);
    if (comm->waits) {
        free(comm->waits);
        comm->waits = NULL;
        atomic_fetch_sub(&comm->npending, 1);
    }
    end_comm(comm);
    return SUCCESS;
}

/* ---- calls */

STANDIN_API int ncclGroupStart(void)
{
    if (depth++ == 0) {
        ngroup = 0;
        group_result = SUCCESS;
    }
    return SUCCESS;
}

/* Everything that the group has for one communicator. */
static int launch_comm(struct comm *comm)
{
    struct launch *launch = malloc(sizeof(*launch) + (size_t) ngroup * sizeof(struct call));

    if (!launch)
        return SYSTEM_ERROR;
    launch->comm = comm;
    launch->ncalls = 0;
    for (int i = 0; i < ngroup; i++) {
        if (group[i].comm != comm)
            continue;
        launch->stream = group[i].stream;
        /* Sends and receives are between two ranks: the others may have fewer of them. */
        group[i].number = group[i].kind < SEND ? ++comm->number : 0;
        launch->calls[launch->ncalls++] = group[i];
        group[i].comm = NULL;
    }
    atomic_fetch_add(&comm->npending, 1);
    if (comm->blocking)
        return launch_now(launch);
    comm->waits = launch;
    comm->polls = 2;
    return IN_PROGRESS;
}

STANDIN_API int ncclGroupEnd(void)
{
    int r;

    if (depth == 0)
        return fail(INVALID_USAGE, "a group ends that has not begun");
    if (--depth > 0)
        return SUCCESS;
    r = group_result;
    for (int i = 0; i < ngroup && (r == SUCCESS || r == IN_PROGRESS); i++)
        if (group[i].comm)
            r = launch_comm(group[i].comm);
    ngroup = 0;
    return r;
}

static int submit(const struct call *call)
{
    int r = check_comm(call->comm);

    if (r == SUCCESS && (call->type < 0 || call->type > 9 || call->op < 0))
        r = fail(INVALID_ARGUMENT, "a type or an operation that is not there");
    if (r == SUCCESS && (call->root < 0 || call->root >= call->comm->n))
        r = fail(INVALID_ARGUMENT, "a root that is not there");
    if (r == SUCCESS && atomic_load(&call->comm->state) != SUCCESS)
        r = atomic_load(&call->comm->state);
    if (r == SUCCESS && ngroup == GROUP_MAX)
        r = fail(INTERNAL, "too many calls in a group");
    ncclGroupStart();
    if (r == SUCCESS) {
        group[ngroup] = *call;
        if (call->op >= STANDIN_OPS) {
            const struct premul *premul = call->op < STANDIN_OPS + PREMULS_MAX
                                              ? &call->comm->premuls[call->op - STANDIN_OPS] : NULL;

            if (!premul || !premul->used || premul->type != call->type)
                r = fail(INVALID_ARGUMENT, "an operation that was not made for this");
            else
                group[ngroup].factor = premul->factor;
        }
        ngroup += r == SUCCESS;
    }
    if (r != SUCCESS && group_result == SUCCESS)
        group_result = r;
    if (depth > 1) {
        depth--;
        return r;
    }
    return ncclGroupEnd();
}

STANDIN_API int ncclRedOpCreatePreMulSum(int *ret_op, void *scalar, int type, int residence,
                                         struct comm *comm)
{
    int r = check_comm(comm);

    if (r == SUCCESS && residence != 1)
        r = fail(INVALID_ARGUMENT, "only scalars of the host are known");
    for (int i = 0; i < PREMULS_MAX && r == SUCCESS; i++)
        if (!comm->premuls[i].used) {
            comm->premuls[i] = (struct premul){ true, type, standin_number(scalar, type) };
            *ret_op = STANDIN_OPS + i;
            return SUCCESS;
        }
    return r != SUCCESS ? r : fail(INTERNAL, "too many operations were made");
}

STANDIN_API int ncclRedOpDestroy(int op, struct comm *comm)
{
    if (!comm || comm->dead || op < STANDIN_OPS || op >= STANDIN_OPS + PREMULS_MAX ||
        !comm->premuls[op - STANDIN_OPS].used)
        return fail(INVALID_ARGUMENT, "an operation that is not there");
    comm->premuls[op - STANDIN_OPS].used = false;
    return SUCCESS;
}

STANDIN_API int ncclAllReduce(const void *in, void *out, size_t count, int type, int op,
                              struct comm *comm, struct standin_stream *stream)
{
    return submit(&(struct call){ comm, stream, ALL_REDUCE, in, out, count, type, op, 0, 0, 0 });
}

STANDIN_API int ncclReduce(const void *in, void *out, size_t count, int type, int op, int root,
                           struct comm *comm, struct standin_stream *stream)
{
    return submit(&(struct call){ comm, stream, REDUCE, in, out, count, type, op, root, 0, 0 });
}

STANDIN_API int ncclBroadcast(const void *in, void *out, size_t count, int type, int root,
                              struct comm *comm, struct standin_stream *stream)
{
    return submit(&(struct call){ comm, stream, BROADCAST, in, out, count, type, 0, root, 0, 0 });
}

STANDIN_API int ncclAllGather(const void *in, void *out, size_t count, int type, struct comm *comm,
                              struct standin_stream *stream)
{
    return submit(&(struct call){ comm, stream, ALL_GATHER, in, out, count, type, 0, 0, 0, 0 });
}

STANDIN_API int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op,
                                  struct comm *comm, struct standin_stream *stream)
{
    return submit(&(struct call){ comm, stream, REDUCE_SCATTER, in, out, count, type, op, 0, 0,
                                  0 });
}

STANDIN_API int ncclSend(const void *in, size_t count, int type, int peer, struct comm *comm,
                         struct standin_stream *stream)
{
    return submit(&(struct call){ comm, stream, SEND, in, NULL, count, type, 0, peer, 0, 0 });
}

STANDIN_API int ncclRecv(void *out, size_t count, int type, int peer, struct comm *comm,
                         struct standin_stream *stream)
{
    return submit(&(struct call){ comm, stream, RECV, NULL, out, count, type, 0, peer, 0, 0 });
}
