/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that find each other by a way of the caller's own, sets that their members make alone, and
 * operations into the caller's memory: what the backend of torch.distributed stands on. The way is
 * a board in shared memory. */
#include "coll/api/api_check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"

enum { FENCES = 64, NOTE = 8192, MEETINGS = 24 };

struct note {
    _Atomic int there;
    size_t nbytes;
    uint8_t bytes[NOTE];
};

/* What one meeting's members have written. */
struct board {
    struct note notes[FENCES][RANKS_MAX];
};

struct meeting_place {
    const struct board *board;
    int me, n, turn, fail;
};

static struct board *boards;

static bool all_there(struct note *notes, int n)
{
    for (int i = 0; i < n; i++)
        if (!atomic_load(&notes[i].there))
            return false;
    return true;
}

static int fence(void *arg, const void *blob, size_t nbytes, int timeout_ms,
                 const void **ret_blobs, size_t *ret_nbytes)
{
    struct meeting_place *place = arg;
    struct note *notes = ((struct board *) (uintptr_t) place->board)->notes[place->turn++];
    uint64_t deadline = rg_now_ns() + (uint64_t) timeout_ms * RG_NS_PER_MS;

    if (place->fail)
        return -place->fail;
    if (nbytes > NOTE || place->turn > FENCES)
        return -EMSGSIZE;
    memcpy(notes[place->me].bytes, blob, nbytes);
    notes[place->me].nbytes = nbytes;
    atomic_store(&notes[place->me].there, 1);
    unit_until(all_there(notes, place->n) || rg_now_ns() >= deadline, "everybody's note");
    if (!all_there(notes, place->n))
        return -ETIMEDOUT;
    for (int i = 0; i < place->n; i++) {
        ret_nbytes[i] = notes[i].nbytes;
        ret_blobs[i] = notes[i].nbytes ? notes[i].bytes : NULL;
    }
    return 0;
}

/* The way of the number-th meeting. */
static struct reigen_meeting way(struct meeting_place *place, int number, int me, int n)
{
    *place = (struct meeting_place){ .board = &boards[number], .me = me, .n = n };
    return (struct reigen_meeting){ .rank = me, .size = n, .fence = fence, .arg = place };
}

static int join(struct rank *rank, int number)
{
    struct meeting_place place;
    struct reigen_meeting meeting = way(&place, number, rank->me, rank->n);

    return reigen_init_meeting(&meeting, 20000);
}

static void run(int n, int (*fn)(struct rank *rank))
{
    size_t nbytes = MEETINGS * sizeof(*boards);

    boards = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(boards != MAP_FAILED);
    assert_int_equal(ranks_run(n, ranks_port(), fn, NULL), 0);
    munmap(boards, nbytes);
}

static void sum_is(int set, float mine, float wanted)
{
    struct reigen_options how = REIGEN_OPTIONS_INIT;
    int64_t shape[] = { 1 };

    how.op = REIGEN_SUM;
    how.process_set = set;
    check(reigen_allreduce("sum", &mine, &mine, REIGEN_FLOAT32, shape, 1, &how) == 0);
    check(mine == wanted);
}

/* ---- the world */

static int world(struct rank *rank)
{
    for (int turn = 0; turn < 3; turn++) {
        check(join(rank, turn) == 0);
        check(reigen_rank() == rank->me && reigen_size() == rank->n);
        check(join(rank, turn) == -EALREADY);
        sum_is(0, (float) rank->me, (float) (rank->n * (rank->n - 1) / 2));
        check(reigen_shutdown() == 0);
    }
    return bad;
}

static void those_who_meet_are_the_job_again_and_again(void **state)
{
    (void) state;
    run(4, world);
    run(1, world);
}

static int wrong_ways(struct rank *rank)
{
    struct meeting_place place;
    struct reigen_meeting good = way(&place, 0, rank->me, rank->n), m = good;

    check(reigen_init_meeting(NULL, 0) == -EINVAL);
    m.fence = NULL;
    check(reigen_init_meeting(&m, 0) == -EINVAL);
    m = good, m.rank = rank->n;
    check(reigen_init_meeting(&m, 0) == -EINVAL);
    m = good, m.size = 0;
    check(reigen_init_meeting(&m, 0) == -EINVAL);
    place.fail = EIO;
    check(reigen_init_meeting(&good, 0) == -EIO && strstr(reigen_last_error(), "meeting"));
    good = way(&place, 1, rank->me, rank->n + 1); /* one does not come */
    check(reigen_init_meeting(&good, 300) == -ETIMEDOUT);
    check(!reigen_is_initialized() && join(rank, 2) == 0);
    return bad | reigen_shutdown();
}

/* ---- two at once */

struct second {
    struct rank *rank;
    struct reigen_meeting first; /* what its fence goes on to */
    _Atomic(pid_t) tid;
    pthread_t thread;
    int r;
};

static void *join_second(void *arg)
{
    struct second *second = arg;

    atomic_store(&second->tid, gettid());
    second->r = join(second->rank, 1);
    return NULL;
}

/* Whether that thread of this process waits for something. */
static bool sleeps(pid_t tid)
{
    char path[64], text[256], *end;
    size_t n;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int) tid);
    file = fopen(path, "re");
    if (!file)
        return false;
    n = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[n] = '\0';
    end = strrchr(text, ')');
    return end && strncmp(end, ") S", 3) == 0;
}

/* While the first one meets, the second one comes as far as it can. */
static int fence_with_second(void *arg, const void *blob, size_t nbytes, int timeout_ms,
                             const void **ret_blobs, size_t *ret_nbytes)
{
    struct second *second = arg;

    if (!atomic_load(&second->tid)) {
        check(pthread_create(&second->thread, NULL, join_second, second) == 0);
        unit_until(sleeps(atomic_load(&second->tid)), "the second one to wait");
    }
    return second->first.fence(second->first.arg, blob, nbytes, timeout_ms, ret_blobs,
                               ret_nbytes);
}

static int two_at_once(struct rank *rank)
{
    struct meeting_place place;
    struct second second = { .rank = rank, .first = way(&place, 0, rank->me, rank->n) };
    struct reigen_meeting meeting = second.first;

    meeting.fence = fence_with_second;
    meeting.arg = &second;
    check(reigen_init_meeting(&meeting, 20000) == 0);
    pthread_join(second.thread, NULL);
    check(second.r == -EALREADY);
    return bad | reigen_shutdown();
}

static void a_second_meeting_does_not_join_the_job_of_the_first(void **state)
{
    (void) state;
    run(2, two_at_once);
}

static void a_meeting_that_fails_leaves_nothing_behind(void **state)
{
    (void) state;
    run(2, wrong_ways);
}

/* ---- keys */

static void key_file(const struct rank *rank, char *path, char digit)
{
    FILE *file;

    snprintf(path, 64, "/tmp/reigen-meet-%d-%d", (int) getpid(), rank->me);
    file = fopen(path, "w");
    if (!file || fchmod(fileno(file), 0600) < 0)
        abort();
    for (int i = 0; i < 64; i++)
        fputc(digit, file);
    fclose(file);
    setenv("REIGEN_KEY_FILE", path, 1);
}

static int keys(struct rank *rank)
{
    char path[64];
    int r;

    key_file(rank, path, '7');
    check(join(rank, 0) == 0);
    sum_is(0, 1, (float) rank->n);
    reigen_shutdown();
    key_file(rank, path, rank->me == 1 ? '8' : '7');
    check(join(rank, 1) == -EPERM && strstr(reigen_last_error(), "another key"));
    if (rank->me == 1)
        unsetenv("REIGEN_KEY_FILE");
    r = join(rank, 2);
    check(r == -EINVAL && strstr(reigen_last_error(), "give it to all ranks or to none"));
    unlink(path);
    return bad;
}

static void a_key_file_is_the_same_on_all_ranks_or_on_none(void **state)
{
    (void) state;
    run(3, keys);
}

/* ---- sets */

/* The set of these ranks, by those of them who call it. */
static int meet(struct rank *rank, int number, int n, const int *ranks, int timeout_ms, int *ret_id)
{
    struct meeting_place place;
    struct reigen_meeting meeting;
    int me = 0;

    while (ranks[me] != rank->me && me < n - 1)
        me++;
    meeting = way(&place, number, me, n);
    return reigen_process_set_meet(&meeting, ranks, timeout_ms, ret_id);
}

static int sets(struct rank *rank)
{
    static const int backwards[] = { 3, 2, 0 }, pair[] = { 1, 3 };
    struct reigen_options how = REIGEN_OPTIONS_INIT;
    int first = 0, second = 0, other = 0, out[3] = { -1, -1, -1 };
    reigen_handle h;

    check(join(rank, 0) == 0);
    if (rank->me != 1) {
        check(meet(rank, 1, 3, backwards, 0, &first) == 0 && first >= 1 << 20);
        check(meet(rank, 2, 3, backwards, 0, &second) == 0 && second > first);
        check(reigen_process_set_size(first) == 3);
        check(backwards[reigen_process_set_rank(first)] == rank->me);
        sum_is(first, (float) rank->me, 5);
        sum_is(second, 1, 3);
        how.process_set = first;
        check(reigen_into_async(REIGEN_ALLGATHER, "order", &rank->me, out, REIGEN_INT32, 1, &how,
                                &h) == 0 && wait_release(h) == 0);
        check(memcmp(out, backwards, sizeof(out)) == 0);
    }
    if (rank->me & 1) {
        check(meet(rank, 3, 2, pair, 0, &other) == 0 && other > second);
        sum_is(other, 2, 4);
        check(reigen_process_set_remove(other) == 0);
        check(reigen_process_set_remove(other) == -ENOENT);
    }
    if (first) {
        check(reigen_process_set_remove(first) == 0);
        sum_is(second, 1, 3);
    }
    sum_is(0, 1, 4);
    return bad | reigen_shutdown();
}

static void members_make_sets_alone_and_in_any_order(void **state)
{
    (void) state;
    run(4, sets);
}

static int wrong_sets(struct rank *rank)
{
    static const int twice[] = { 1, 1 }, beyond[] = { 0, 7 }, all[] = { 0, 1 };
    static const int swapped[] = { 1, 0 };
    struct meeting_place place;
    struct reigen_meeting meeting = way(&place, 9, rank->me, 2);
    int id = 0;

    check(reigen_process_set_meet(&meeting, all, 1000, &id) == -ENOTCONN);
    check(join(rank, 0) == 0);
    check(reigen_process_set_meet(&meeting, NULL, 1000, &id) == -EINVAL);
    check(reigen_process_set_meet(&meeting, all, 1000, NULL) == -EINVAL);
    for (int i = 0; i < 3; i++) {
        const int *mine = i == 0 ? twice : i == 1 ? beyond : rank->me ? swapped : all;

        meeting = way(&place, 1 + i, rank->me, 2);
        check(reigen_process_set_meet(&meeting, mine, 5000, &id) == -EINVAL);
    }
    /* One whose own list is right hears of the other's. */
    meeting = way(&place, 4, rank->me, 2);
    check(reigen_process_set_meet(&meeting, rank->me ? beyond : all, 5000, &id) == -EINVAL);
    if (rank->me == 0)
        check(meet(rank, 5, 2, all, 300, &id) == -ETIMEDOUT);
    check(id == 0);
    check(meet(rank, 6, 2, all, 0, &id) == 0);
    sum_is(id, 1, 2);
    return bad | reigen_shutdown();
}

static void wrong_sets_are_refused_on_all_members(void **state)
{
    (void) state;
    run(2, wrong_sets);
}

/* ---- into the caller's memory */

static void gathers_and_scatters(const struct rank *rank, size_t count)
{
    float *all = buffer(count * (size_t) rank->n), *own = buffer(count);
    struct reigen_options how = REIGEN_OPTIONS_INIT;
    reigen_handle h;

    how.op = REIGEN_SUM;
    for (size_t i = 0; i < count; i++)
        own[i] = all[(size_t) rank->me * count + i] = (float) rank->me;
    check(reigen_into_async(REIGEN_ALLGATHER, "g", own, all, REIGEN_FLOAT32, count, NULL, &h) == 0);
    check(wait_release(h) == 0);
    /* In its own place. */
    check(reigen_into_async(REIGEN_ALLGATHER, "g", all + (size_t) rank->me * count, all,
                            REIGEN_FLOAT32, count, NULL, &h) == 0);
    check(wait_release(h) == 0);
    for (size_t i = 0; i < count * (size_t) rank->n; i++)
        if (all[i] != (float) (i / count)) {
            check(!"gathered");
            break;
        }
    check(reigen_into_async(REIGEN_REDUCESCATTER, "s", all, own, REIGEN_FLOAT32, count, &how,
                            &h) == 0);
    check(wait_release(h) == 0);
    for (size_t i = 0; i < count; i++)
        if (own[i] != (float) (rank->me * rank->n)) {
            check(!"scattered");
            break;
        }
    free(all);
    free(own);
}

static int into(struct rank *rank)
{
    static const size_t counts[] = { 0, 1, 100, 50000 };
    float x[8] = { 0 };
    int64_t shape[] = { 1, 1 };
    reigen_handle h;

    check(join(rank, 0) == 0);
    for (size_t i = 0; i < rg_array_len(counts); i++)
        gathers_and_scatters(rank, counts[i]);
    check(reigen_into_async(REIGEN_ALLREDUCE, "x", x, x, REIGEN_FLOAT32, 1, NULL, &h) == -EINVAL);
    check(reigen_into_async(REIGEN_ALLGATHER, "x", x, NULL, REIGEN_FLOAT32, 1, NULL, &h) ==
          -EINVAL);
    check(reigen_into_async(REIGEN_ALLGATHER, "x", NULL, x, REIGEN_FLOAT32, 1, NULL, &h) ==
          -EINVAL);
    check(reigen_into_async(REIGEN_ALLGATHER, "x", x, x, REIGEN_FLOAT32, SIZE_MAX, NULL, &h) ==
          -EINVAL);
    /* Parts of two lengths; and one rank that lets the runtime allocate. */
    expect_mismatch(reigen_into_async(REIGEN_ALLGATHER, "m", x + 4, x, REIGEN_FLOAT32,
                                      rank->me == 0 ? 1 : 2, NULL, &h), &h, "Mismatched ALLGATHER");
    expect_mismatch(rank->me == 0
                        ? reigen_allgather_async("a", x, REIGEN_FLOAT32, shape, 2, NULL, &h)
                        : reigen_into_async(REIGEN_ALLGATHER, "a", x + 4, x, REIGEN_FLOAT32, 1,
                                            NULL, &h), &h, "");
    sum_is(0, 1, (float) rank->n);
    return bad | reigen_shutdown();
}

static void parts_go_into_the_callers_memory(void **state)
{
    (void) state;
    run(3, into);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_who_meet_are_the_job_again_and_again),
        cmocka_unit_test(a_second_meeting_does_not_join_the_job_of_the_first),
        cmocka_unit_test(a_meeting_that_fails_leaves_nothing_behind),
        cmocka_unit_test(a_key_file_is_the_same_on_all_ranks_or_on_none),
        cmocka_unit_test(members_make_sets_alone_and_in_any_order),
        cmocka_unit_test(wrong_sets_are_refused_on_all_members),
        cmocka_unit_test(parts_go_into_the_callers_memory),
    };

    ranks_clearenv();
    return cmocka_run_group_tests_name("meet", tests, NULL, NULL);
}
