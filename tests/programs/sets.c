/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: sets MODE
 * Process sets among the ranks of a job, four or more. MODE: results (every operation in sets that
 * overlap, in another order on every rank), life (adding and removing, handles, requests, wrong
 * arguments), comm (a world of some of the ranks), cost (twenty sets; says what they take), death
 * RANK WHERE (a rank dies while the others work in a set, "set", or with all, "world").
 */
#include "program.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

enum { SETS = 4, ROUNDS = 20 };

/* Every rank is in at least two of them, and no two are equal. */
static const int lists[SETS][3] = { { 0, 1, 2 }, { 3, 0 }, { 1, 2, 3 }, { 2, 1 } };
static const int sizes[SETS] = { 3, 2, 3, 2 };
static const int sorted[SETS][3] = { { 0, 1, 2 }, { 0, 3 }, { 1, 2, 3 }, { 1, 2 } };

static struct reigen_options in_set(int id)
{
    struct reigen_options o = REIGEN_OPTIONS_INIT;

    o.process_set = id;
    return o;
}

static int add(const int *ranks, int n)
{
    int id = -1;

    expect(reigen_process_set_add(ranks, n, &id), 0, "process_set_add");
    return id;
}

static int place(int s)
{
    for (int i = 0; i < sizes[s]; i++)
        if (sorted[s][i] == reigen_rank())
            return i;
    return -1;
}

/* ---- results */

static void allreduce(int s, int id, int round)
{
    int64_t shape[] = { round % 3 == 2 ? 70000 : 50 };
    struct reigen_options o = in_set(id);
    double sum = 0, *x = allocate((size_t) shape[0] * sizeof(*x));

    for (int i = 0; i < sizes[s]; i++)
        sum += sorted[s][i] + round;
    for (int64_t i = 0; i < shape[0]; i++)
        x[i] = reigen_rank() + round;
    o.op = round % 2 ? REIGEN_AVERAGE : REIGEN_SUM;
    /* The name is the same in all sets. */
    expect(reigen_allreduce("x", x, x, REIGEN_FLOAT64, shape, 1, &o), 0, "allreduce");
    if (round % 2)
        sum *= 1.0 / sizes[s];
    for (int64_t i = 0; i < shape[0]; i++)
        if (x[i] < sum - 1e-9 || x[i] > sum + 1e-9)
            fail("set %d round %d: %g, not %g", s, round, x[i], sum);
    free(x);
}

static void broadcast(int s, int id, int round)
{
    int64_t shape[] = { 5 };
    struct reigen_options o = in_set(id);
    int x[5];

    o.root = sorted[s][round % sizes[s]];
    for (int i = 0; i < 5; i++)
        x[i] = reigen_rank() * 10 + round;
    expect(reigen_broadcast("b", x, x, REIGEN_INT32, shape, 1, &o), 0, "broadcast");
    for (int i = 0; i < 5; i++)
        if (x[i] != o.root * 10 + round)
            fail("set %d: broadcast gave %d from root %d", s, x[i], o.root);
}

static const int *result_of(reigen_handle h, int64_t rows)
{
    const void *data;
    size_t nbytes;
    int64_t shape[REIGEN_NDIM_MAX];
    int ndim;

    expect(reigen_wait(h, -1), 0, "wait");
    expect(reigen_output(h, &data, &nbytes, shape, &ndim), 0, "output");
    if (shape[0] != rows)
        fail("%lld rows, not %lld", (long long) shape[0], (long long) rows);
    return data;
}

static void gather(int s, int id)
{
    struct reigen_options o = in_set(id);
    int64_t shape[] = { 1 + place(s) }, rows = 0;
    int mine[3] = { reigen_rank(), reigen_rank(), reigen_rank() }, at = 0;
    reigen_handle h;
    const int *all;

    for (int i = 0; i < sizes[s]; i++)
        rows += 1 + i;
    expect(reigen_allgather_async("g", mine, REIGEN_INT32, shape, 1, &o, &h), 0, "allgather");
    all = result_of(h, rows);
    for (int i = 0; i < sizes[s]; i++)
        for (int k = 0; k <= i; k++)
            if (all[at++] != sorted[s][i])
                fail("set %d: allgather gave %d for rank %d", s, all[at - 1], sorted[s][i]);
    reigen_release(h);
}

static void exchange(int s, int id)
{
    struct reigen_options o = in_set(id);
    int64_t shape[] = { sizes[s] };
    int mine[3];
    int32_t received[3];
    reigen_handle h;
    const int *got;

    for (int i = 0; i < sizes[s]; i++)
        mine[i] = reigen_rank() * 100 + sorted[s][i];
    expect(reigen_alltoall_async("a", mine, REIGEN_INT32, shape, 1, NULL, 0, &o, &h), 0,
           "alltoall");
    got = result_of(h, sizes[s]);
    for (int i = 0; i < sizes[s]; i++)
        if (got[i] != sorted[s][i] * 100 + reigen_rank())
            fail("set %d: alltoall gave %d from rank %d", s, got[i], sorted[s][i]);
    expect(reigen_received_splits(h, received, sizes[s]), 0, "received_splits");
    expect(received[sizes[s] - 1], 1, "a received split");
    reigen_release(h);
}

static void scatter(int s, int id)
{
    struct reigen_options o = in_set(id);
    int64_t shape[] = { sizes[s] };
    int mine[3] = { 1, 2, 3 };
    reigen_handle h;

    expect(reigen_reducescatter_async("r", mine, REIGEN_INT32, shape, 1, &o, &h), 0,
           "reducescatter");
    expect(result_of(h, 1)[0], (place(s) + 1) * sizes[s], "reducescatter's part");
    reigen_release(h);
}

static void group(int s, int id)
{
    struct reigen_options o = in_set(id);
    float a[7], b[2];
    const char *names[] = { "ga", "gb" };
    const void *ins[] = { a, b };
    void *outs[] = { a, b };
    int64_t shape_a[] = { 7 }, shape_b[] = { 2 };
    const int64_t *shapes[] = { shape_a, shape_b };
    int ndims[] = { 1, 1 };
    reigen_handle h[2];

    for (int i = 0; i < 7; i++)
        a[i] = b[i % 2] = 1;
    expect(reigen_grouped_async(REIGEN_ALLREDUCE, 2, names, ins, outs, REIGEN_FLOAT32, shapes,
                                ndims, &o, h), 0, "grouped_allreduce");
    expect(reigen_wait_all(2, h, -1), 0, "wait_all");
    expect((int) a[6], sizes[s], "a sum in a group");
    expect((int) b[1], sizes[s], "another sum in a group");
    reigen_release_all(2, h);
}

static void repeat(int s, int id)
{
    struct reigen_options o = in_set(id);
    struct reigen_request *request;
    int64_t shape[] = { 3 };

    expect(reigen_request_create(REIGEN_ALLREDUCE, "p", REIGEN_INT64, shape, 1, &o, &request), 0,
           "request_create");
    for (int i = 0; i < 10; i++) {
        int64_t x[3] = { i, i + 1, i + 2 };

        expect(reigen_request_run(request, x, x, -1), 0, "request_run");
        expect((int) x[2], (i + 2) * sizes[s], "a request's sum");
    }
    reigen_request_free(request);
}

static void everything(int s, int id, int round)
{
    struct reigen_options o = in_set(id);
    reigen_handle h;

    allreduce(s, id, round);
    broadcast(s, id, round);
    gather(s, id);
    exchange(s, id);
    scatter(s, id);
    group(s, id);
    if (round % 5 == 0)
        repeat(s, id);
    expect(reigen_barrier_async(&o, &h), 0, "barrier");
    finish(h, 0, "barrier");
}

/* All of a rank's sets at once, asynchronously, each rank in an order of its own. */
static void at_once(const int *ids, int round)
{
    int64_t shape[] = { 1000 };
    static float x[SETS][1000];
    reigen_handle h[SETS];

    for (int k = 0; k < SETS; k++) {
        int s = (k * (reigen_rank() % 2 ? 1 : 3) + reigen_rank() + round) % SETS;
        struct reigen_options o = in_set(ids[s]);

        h[s] = 0;
        if (place(s) < 0)
            continue;
        for (int i = 0; i < 1000; i++)
            x[s][i] = (float) (s + 1);
        expect(reigen_allreduce_async("at_once", x[s], x[s], REIGEN_FLOAT32, shape, 1, &o, &h[s]),
               0, "allreduce_async");
        for (int before = 0; before < s; before++)
            if (h[before] == h[s])
                fail("two operations have the handle %lld", (long long) h[s]);
    }
    goes_on();
    for (int s = 0; s < SETS; s++) {
        if (!h[s])
            continue;
        finish(h[s], 0, "allreduce in several sets");
        if (x[s][999] < (float) ((s + 1) * sizes[s]) || x[s][0] > (float) ((s + 1) * sizes[s]))
            fail("set %d: %g", s, (double) x[s][999]);
    }
}

struct work {
    int s, id;
};

static void *work(void *arg)
{
    const struct work *mine = arg;

    for (int round = 0; round < ROUNDS; round++)
        everything(mine->s, mine->id, round);
    return NULL;
}

static void results(void)
{
    int ids[SETS];
    struct work works[SETS];
    pthread_t threads[SETS];

    for (int s = 0; s < SETS; s++) {
        ids[s] = add(lists[s], sizes[s]);
        expect(ids[s], s + 1, "a set's number");
        expect(reigen_process_set_size(ids[s]), sizes[s], "process_set_size");
        expect(reigen_process_set_included(ids[s]), place(s) >= 0, "process_set_included");
        expect(reigen_process_set_rank(ids[s]), place(s) >= 0 ? place(s) : -ENXIO,
               "process_set_rank");
    }
    for (int round = 0; round < ROUNDS; round++)
        at_once(ids, round);
    /* Sets one after another, where any two ranks agree on the order ... */
    for (int s = 0; s < SETS; s++)
        if (place(s) >= 0)
            everything(s, ids[s], 0);
    /* ... and all at once, by a thread each. */
    for (int s = 0; s < SETS; s++) {
        works[s] = (struct work){ s, ids[s] };
        if (place(s) >= 0 && pthread_create(&threads[s], NULL, work, &works[s]) != 0)
            fail("no thread");
    }
    for (int s = 0; s < SETS; s++)
        if (place(s) >= 0)
            pthread_join(threads[s], NULL);
    goes_on();
}

/* ---- life */

static void wrong_arguments(void)
{
    int id = 77, me = reigen_rank(), size = reigen_size(), all[RANKS_MAX];
    int twice[] = { 1, 1 }, beyond[] = { 0, size }, two[] = { 0, 1 }, other[] = { 0, 2 };

    for (int i = 0; i < size; i++)
        all[i] = i;
    expect(reigen_process_set_add(all, 0, &id), -EINVAL, "no ranks");
    expect(reigen_process_set_add(twice, 2, &id), -EINVAL, "a rank twice");
    expect_text(reigen_last_error(), "Tried to register process set with duplicate rank: 1");
    expect(reigen_process_set_add(beyond, 2, &id), -EINVAL, "a rank too many");
    expect_text(reigen_last_error(), "Tried to register process set with invalid rank: ");
    expect(reigen_process_set_add(me == 2 ? other : two, 2, &id), -EINVAL, "other values");
    expect_text(reigen_last_error(), "Attempted to register process set with mismatching values on "
                                     "different ranks (rank 0: [0, 1], rank 2: [0, 2])");
    expect(reigen_process_set_add(two, me == 1 ? 1 : 2, &id), -EINVAL, "another size");
    expect_text(reigen_last_error(), "mismatching size on different ranks (rank 0: [0, 1], rank 1: "
                                     "[0])");
    expect(reigen_process_set_add(me == 3 ? twice : two, 2, &id), -EINVAL, "one rank's mistake");
    expect_text(reigen_last_error(), "duplicate rank: 1");
    expect(reigen_process_set_add(all, size, &id), -EEXIST, "all ranks again");
    expect(id, 77, "the number after errors");
    expect(reigen_process_set_remove(0), -ENOENT, "removing all ranks");
    expect(reigen_process_set_remove(99), -ENOENT, "removing nothing");
    expect(reigen_process_set_size(99), -ENOENT, "the size of nothing");
}

static void wrong_operations(int id)
{
    struct reigen_options o = in_set(id);
    int64_t shape[] = { 2 + (reigen_rank() == 1) };
    float x[3] = { 1, 1, 1 };

    if (!reigen_process_set_included(id)) {
        expect(reigen_allreduce("w", x, x, REIGEN_FLOAT32, shape, 1, &o), -EINVAL, "a stranger");
        expect_text(reigen_last_error(), "is not a member of the provided process set.");
    } else {
        expect(reigen_allreduce("w", x, x, REIGEN_FLOAT32, shape, 1, &o), -EINVAL, "a mismatch");
        expect_text(reigen_last_error(), "process set ");
        expect_text(reigen_last_error(), "(rank ");
        o.root = 0;
        expect(reigen_broadcast("w", x, x, REIGEN_FLOAT32, shape, 1, &o), -EINVAL, "a root");
        expect_text(reigen_last_error(), "broadcast received invalid root rank 0 for provided "
                                         "process set");
    }
    o.process_set = 1000;
    expect(reigen_allreduce("w", x, x, REIGEN_FLOAT32, shape, 1, &o), -EINVAL, "no such set");
    expect_text(reigen_last_error(), "Process set provided does not exist, or has not been "
                                     "registered.");
}

/* What is in flight when a set is removed ends, in a thread that waits for it too. */
static void *wait_for(void *arg)
{
    reigen_handle h = *(reigen_handle *) arg;

    expect(reigen_wait(h, -1), -ECANCELED, "waiting while the set is removed");
    return NULL;
}

static void remove_in_flight(const int *list, int n)
{
    int id = add(list, n), member = reigen_process_set_included(id);
    struct reigen_options o = in_set(id);
    struct reigen_request *request = NULL;
    int64_t shape[] = { 2 }, large[] = { 40000 };
    static float x[2], y[40000];
    reigen_handle h[2];
    pthread_t thread;

    if (member) {
        expect(reigen_request_create(REIGEN_ALLREDUCE, "q", REIGEN_FLOAT32, shape, 1, &o,
                                     &request), 0, "request_create");
        expect(reigen_request_run(request, x, x, -1), 0, "request_run");
    }
    if (reigen_rank() == list[0]) {
        expect(reigen_allreduce_async("alone", x, x, REIGEN_FLOAT32, shape, 1, &o, &h[0]), 0, "");
        expect(reigen_allreduce_async("large", y, y, REIGEN_FLOAT32, large, 1, &o, &h[1]), 0, "");
        if (pthread_create(&thread, NULL, wait_for, &h[1]) != 0)
            fail("no thread");
    }
    expect(reigen_process_set_remove(id), 0, "process_set_remove");
    if (reigen_rank() == list[0]) {
        pthread_join(thread, NULL);
        finish(h[0], -ECANCELED, "what was in flight");
        expect_text("has been removed", "removed");
        reigen_release(h[1]);
    }
    if (member) {
        expect(reigen_request_run(request, x, x, -1), -ENOENT, "a request of a removed set");
        reigen_request_free(request);
    }
    expect(reigen_process_set_included(id), -ENOENT, "a removed set");
}

static void life(void)
{
    int ids[8], last = 0;

    wrong_arguments();
    for (int i = 0; i < 10; i++) {
        int s = i % SETS, id = add(lists[s], sizes[s]), again = -1;

        if (id <= last)
            fail("the number %d after %d", id, last);
        last = id;
        expect(reigen_process_set_add(lists[s], sizes[s], &again), -EEXIST, "a set again");
        if (place(s) >= 0)
            everything(s, id, i);
        if (s == 2)
            wrong_operations(id);
        expect(reigen_process_set_ids(ids, 8), 2, "process_set_ids");
        expect(ids[0] == 0 && ids[1] == id, 1, "the sets' numbers");
        expect(reigen_process_set_ranks(id, ids, 8), sizes[s], "process_set_ranks");
        expect(ids[1], sorted[s][1], "a member");
        expect_text(reigen_describe(), "process set ");
        expect(reigen_process_set_remove(id), 0, "process_set_remove");
        expect(reigen_process_set_remove(reigen_rank() ? id : id + 1), -EINVAL, "other sets");
    }
    for (int s = 0; s < SETS; s++)
        remove_in_flight(lists[s], sizes[s]);
    goes_on();
    add(lists[0], sizes[0]);
    reigen_shutdown();
    begin();
    expect(add(lists[1], sizes[1]), 1, "a set's number after another init");
    goes_on();
}

/* ---- the others */

static void comm(int rank)
{
    static const int ours[] = { 2, 0 }, theirs[] = { 1, 3 };
    struct reigen_init_options options = { .ranks = rank % 2 ? theirs : ours, .nranks = 2 };
    static const int wrong[] = { 0, 1 };
    int64_t shape[] = { 1 };
    int x[1] = { rank };

    if (reigen_init(&options) < 0)
        fail("init: %s", reigen_last_error());
    expect(reigen_size(), 2, "size");
    expect(reigen_rank(), rank % 2 ? rank / 2 : rank == 0, "rank");
    expect(reigen_allreduce("x", x, x, REIGEN_INT32, shape, 1, NULL), 0, "allreduce");
    expect(x[0], rank % 2 ? 4 : 2, "the sum");
    reigen_shutdown();
    if (rank == 0)
        options.ranks = wrong;
    options.timeout_ms = 20000;
    expect(reigen_init(&options), -EINVAL, "lists that overlap");
    expect_text(reigen_last_error(), "init: rank 0 gave the ranks [0, 1] and rank 1 gave [1, 3]");
    begin();
    expect(reigen_size(), 4, "size with all");
    goes_on();
}

static long kilobytes(const char *what)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    long n = -1;

    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, what, strlen(what)) == 0)
            n = strtol(line + strlen(what), NULL, 10);
    if (f)
        fclose(f);
    return n;
}

static void cost(void)
{
    int n = 20, list[4], k = 0;
    long size, resident;
    uint64_t start;

    goes_on();
    size = kilobytes("VmSize:");
    resident = kilobytes("VmRSS:");
    start = now_ms();
    for (int mask = 3; mask < 15; mask++) {
        int m = 0;

        for (int i = 0; i < 4; i++)
            if (mask >> i & 1)
                list[m++] = i;
        if (m > 1)
            add(list, m), k++;
    }
    say("%d sets in %llu ms, %ld KiB resident, %ld KiB of addresses", k,
        (unsigned long long) (now_ms() - start), kilobytes("VmRSS:") - resident,
        kilobytes("VmSize:") - size);
    start = now_ms();
    for (int i = 0; i < n; i++) {
        int id = add((const int[]){ 0, 1, 2, 3 }, 1 + i % 1);

        expect(reigen_process_set_remove(id), 0, "remove");
    }
    say("%d sets of one added and removed in %llu ms", n, (unsigned long long) (now_ms() - start));
}

/* Allreduces until one fails, at most ten seconds. */
static int until_it_ends(const char *name, int set)
{
    int64_t shape[] = { 4 };
    float x[4] = { 0 };
    struct reigen_options o = in_set(set);
    uint64_t start = now_ms();
    int r = 0;

    while (r == 0 && now_ms() - start < 10000)
        r = reigen_allreduce(name, x, x, REIGEN_FLOAT32, shape, 1, &o);
    return r;
}

static void death(int victim, const char *where)
{
    int id = add((const int[]){ 0, 1, 2 }, 3), in = reigen_process_set_included(id), r;
    bool world = strcmp(where, "world") == 0;

    say("ready");
    if (reigen_rank() == victim) {
        sleep_ms(300); /* patient: in the middle of the work */
        raise(SIGKILL);
    }
    r = until_it_ends("first", in && !world ? id : 0);
    say("first %d %s", r, reigen_last_error());
    /* The other one ends as well. */
    r = until_it_ends("second", in && world ? id : 0);
    say("second %d %s", r, reigen_last_error());
    reigen_shutdown();
    say("left");
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    const char *rank = getenv("RANK");

    if (strcmp(mode, "comm") == 0 && rank) {
        comm(atoi(rank));
        return 0;
    }
    begin();
    if (strcmp(mode, "results") == 0)
        results();
    else if (strcmp(mode, "life") == 0)
        life();
    else if (strcmp(mode, "cost") == 0)
        cost();
    else if (strcmp(mode, "death") == 0 && argc > 3)
        death((int) argument(argc, argv, 2, 0), argv[3]);
    else
        fail("what is %s?", mode);
    reigen_shutdown();
    return 0;
}
