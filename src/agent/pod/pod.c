/* SPDX-License-Identifier: Apache-2.0 */
/* A pod gets no orders on standard input: what it is to do lies in files and variables. */
#include "agent/pod/pod.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "head/head.h"
#include "agent/pod/internal.h"
#include "platform/drivers.h"
#include "platform/openpai/inside/tasks.h"

/* The first driver whose pod this is; where it is nobody's, the first that has pods says what is
 * missing. */
static const struct rg_pod_platform *choose(void)
{
    const struct rg_pod_platform *first = NULL;

    for (size_t i = 0; rg_drivers[i]; i++) {
        const struct rg_pod_platform *platform = rg_drivers[i]->pod;
        if (platform && platform->here())
            return platform;
        first = first ? first : platform;
    }
    return first;
}

/* Where pods stay, those that are left begin the job again with the one that takes the lost one's
 * place. Else the platform starts it again, as a whole. */
static void set_restarts(const struct rg_pod *pod, struct rg_job *job, struct rg_head_as *as)
{
    job->max_restarts = pod->backoff_ms ? RG_POD_RESTARTS : 0;
    as->backoff_ms = pod->backoff_ms;
    as->log = pod->log;
    as->nstarts = pod->nstarts;
}

/* Not every platform can tell these from what it says of containers that it has lost; and it would
 * start a job again that ends with those, as often as it likes. */
static bool is_masked(const struct rg_pod *pod, int code, bool stopped)
{
    bool retried = code == RG_EXIT_PREEMPTED || code == RG_EXIT_HOST_LOST;

    return pod->words && (code == RG_POD_KILLED || code == RG_POD_LOST ||
                          (pod->backoff_ms && retried && !stopped));
}

static int lead(const struct rg_pod *pod, struct rg_planned *planned, struct rg_error *err)
{
    uint8_t *key = rg_key_hold(NULL);
    bool stopped = false;
    struct rg_head_as as = { .command = "run", .key = key, .verdict = pod->words,
                             .known_as = pod->known_as, .known_by_name = true,
                             .ret_stopped = &stopped };
    int r = key ? pod->key(key, err) : rg_error_set(err, ENOMEM, "no memory for a key");

    set_restarts(pod, &planned->job, &as);
    if (r == 0)
        r = pod->nstarts > planned->job.max_restarts ? rg_pod_give_up(pod->nstarts, err)
                                                     : rg_head_run(planned, &as);
    rg_key_drop(key);
    return is_masked(pod, r, stopped) ? RG_POD_FAILED : r;
}

static int run(struct rg_pod *pod, struct rg_error *err)
{
    RG_AUTO_PLANNED struct rg_planned planned = { .quiet = false };
    int r = choose()->find(pod, err);
    if (pod->run)
        setenv("XDG_RUNTIME_DIR", pod->run, 0); /* for what the agents keep */
    if (r < 0)
        return r;
    if (!pod->planned)
        return rg_pod_wait(pod, err);
    r = pod->plan(&planned, err);
    if (r < 0 && !err->exit_code)
        err->exit_code = RG_EXIT_USAGE;
    if (r < 0)
        return r;
    if (pod->leads)
        return lead(pod, &planned, err);
    r = rg_pod_work(pod, &planned, err);
    /* Others may do without it, and the platform is to put another one in its place. */
    if (planned.job.elastic.on && r < 0 && pod->backoff_ms)
        err->exit_code = RG_EXIT_PREEMPTED;
    return r;
}

int rg_pod_wait_main(const char *address, const char *place, uint64_t wait_ms)
{
    struct rg_pod pod = { .itself = "this host", .head = address,
                          .doubt = "is it up, and can this host reach it?",
                          .key = rg_tasks_take_key };
    struct rg_error err = RG_ERROR_INIT;
    int r = 0;

    rg_pod_obey();
    signal(SIGPIPE, SIG_IGN);
    if (address) {
        snprintf(pod.address, sizeof(pod.address), "%s", address);
        snprintf(pod.place, sizeof(pod.place), "%s", place);
    } else {
        r = rg_pod_openpai.find(&pod, &err);
    }
    pod.wait_ms = wait_ms;
    if (r == 0)
        r = rg_pod_wait(&pod, &err);
    return r < 0 ? rg_pod_fail(&pod, &err) : r;
}

int rg_pod_main(void)
{
    struct rg_pod pod = { .planned = false };
    struct rg_error err = RG_ERROR_INIT;

    rg_pod_obey();
    signal(SIGPIPE, SIG_IGN);
    int r = run(&pod, &err);
    int code = r < 0 ? rg_pod_fail(&pod, &err) : r;
    /* Who does not go on says the last word, and is not to be replaced. */
    return r < 0 && code == RG_EXIT_HOST_LOST && pod.backoff_ms ? RG_POD_FAILED : code;
}
