/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/members.h"

#include "help/hang.h"
#include "help/limit.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Long enough that a lost wake-up shows as a test that runs out of its time. */
enum { SLEEP_US = 600 * 1000 * 1000, YIELDS = 20 };

bool members_are_threads(void)
{
#if defined(__SANITIZE_THREAD__)
    return true;
#else
    return false;
#endif
}

static void member_init(struct member *member, int me, int n, struct rg_bell *bells, void *region,
                        void *arg)
{
    memset(member, 0, sizeof(*member));
    member->me = me;
    member->n = n;
    member->region = region;
    member->arg = arg;
    for (int i = 0; i < n; i++) {
        member->peers[i].node_rank = i;
        member->peers[i].pidfd = -1;
        member->node_ranks[i] = i;
    }
    member->team = (struct rg_team){
        .rank = me, .size = n, .local_rank = me, .local_size = n, .cross_size = 1,
        .homogeneous = true, .nnodes = 1, .node_rank = me, .node_size = n,
        .node_ranks = member->node_ranks, .leaders = member->leaders, .peers = member->peers,
        .ncores = 1,
        .bells = { .bell = bells, .nmembers = n, .me = me },
    };
}

struct thread {
    struct member member;
    int (*fn)(struct member *member);
};

static void *thread_main(void *arg)
{
    struct thread *thread = arg;

    thread->member.result = thread->fn(&thread->member);
    return NULL;
}

static int run_threads(int n, struct rg_bell *bells, void *region,
                       int (*fn)(struct member *), void *arg)
{
    struct thread threads[MEMBERS_MAX];
    pthread_t ids[MEMBERS_MAX];
    int result = 0;

    hang_begin(unit_limit_s(MEMBERS_LIMIT_S), "members of a node");
    for (int i = 0; i < n; i++) {
        member_init(&threads[i].member, i, n, bells, region, arg);
        threads[i].fn = fn;
        if (pthread_create(&ids[i], NULL, thread_main, &threads[i]) != 0)
            abort();
    }
    for (int i = 0; i < n; i++) {
        pthread_join(ids[i], NULL);
        result = result ? result : threads[i].member.result;
    }
    hang_end();
    return result;
}

static int run_processes(int n, struct rg_bell *bells, void *region,
                         int (*fn)(struct member *), void *arg)
{
    pid_t pids[MEMBERS_MAX];
    int status[MEMBERS_MAX] = { 0 }, result = 0;

    hang_listen();
    for (int i = 0; i < n; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            struct member member;

            member_init(&member, i, n, bells, region, arg);
            _exit(fn(&member) & 0xff);
        }
    }
    hang_wait(pids, n, unit_limit_s(MEMBERS_LIMIT_S), "member", status);
    for (int i = 0; i < n; i++)
        if (status[i] != 0 && result == 0)
            result = WIFEXITED(status[i]) ? WEXITSTATUS(status[i]) : -WTERMSIG(status[i]);
    return result;
}

int members_run(int n, size_t region_nbytes, int (*fn)(struct member *), void *arg)
{
    size_t bells_nbytes = 4096, nbytes = bells_nbytes + region_nbytes;
    char *shared = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void *region = region_nbytes ? shared + bells_nbytes : NULL;
    struct rg_bell *bells = (struct rg_bell *) shared;
    int result;

    if (shared == MAP_FAILED)
        return -1;
    result = members_are_threads() ? run_threads(n, bells, region, fn, arg)
                                   : run_processes(n, bells, region, fn, arg);
    munmap(shared, nbytes);
    return result;
}

int members_wait(struct member *member, int (*progress)(void *, bool *, struct rg_error *),
                 void *state)
{
    const struct rg_bells *bells = &member->team.bells;
    struct rg_error err = RG_ERROR_INIT;
    int idle = 0;

    for (;;) {
        bool moved = false, sleeps = idle >= YIELDS;
        uint32_t seen = sleeps ? rg_bell_prepare(bells, RG_BELL_FUTEX_URGENT) : 0;
        int done = progress(state, &moved, &err);

        if (sleeps && done == 0 && !moved)
            rg_bell_commit(bells, seen, SLEEP_US);
        else if (sleeps)
            rg_bell_cancel(bells);
        if (done != 0)
            return done < 0 ? done : 0;
        idle = moved ? 0 : idle + 1;
        if (!moved)
            sched_yield();
    }
}
