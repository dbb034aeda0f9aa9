/* SPDX-License-Identifier: Apache-2.0 */
/* Drivers get hosts by events on a loop, and commands have to wait for them: here they do, and a
 * signal still takes the request back. */
#include "launch/host/acquire.h"

#include <signal.h>
#include <unistd.h>

#include "base/exitcode.h"

struct wait {
    struct rg_loop *loop;
    void (*say)(void *arg, const char *text);
    void *arg;
    struct rg_error *err;
    int result, signo;
};

static void on_say(void *arg, const char *text)
{
    const struct wait *wait = arg;

    wait->say(wait->arg, text);
}

static void on_done(void *arg, const struct rg_error *err)
{
    struct wait *wait = arg;

    if (err) {
        *wait->err = *err;
        wait->result = -err->errnum;
    }
    rg_loop_stop(wait->loop);
}

static void on_signal(void *arg, int signo)
{
    struct wait *wait = arg;

    wait->signo = signo;
    rg_loop_stop(wait->loop);
}

/* While signals are watched, giving back is not cut short by the next one. */
static int acquire(struct rg_hold *hold, const struct rg_job *job, struct wait *wait)
{
    static const int signos[] = { SIGINT, SIGTERM, SIGHUP };
    const struct rg_acquire_options options = { .loop = wait->loop, .job = job, .on_say = on_say,
                                                .on_done = on_done, .arg = wait };
    struct rg_signal signals[rg_array_len(signos)] = { 0 };
    struct sigaction before;

    for (size_t i = 0; i < rg_array_len(signos); i++) {
        if (sigaction(signos[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            rg_signal_start(&signals[i], wait->loop, signos[i], on_signal, wait);
    }
    int r = hold->driver->acquire(&options, &hold->held, wait->err);
    if (r == 0) {
        rg_loop_run(wait->loop);
        r = wait->result;
    }
    if (wait->signo || r < 0)
        rg_hold_release(hold);
    for (size_t i = 0; i < rg_array_len(signos); i++)
        rg_signal_stop(&signals[i]);
    return r;
}

int rg_hold_get(struct rg_hold *hold, const struct rg_driver_ops *driver, struct rg_job *job,
                void (*say)(void *arg, const char *text), void *arg, struct rg_error *err)
{
    struct wait wait = { .say = say, .arg = arg, .err = err };
    int r = 0;

    if (job->container.image && !driver->platform.contains && !driver->platform.own_containers)
        return rg_error_set_exit(err, ENOTSUP, RG_EXIT_USAGE,
                                 "--image %s: --on %s starts no containers; leave it out, or say "
                                 "--image none", job->container.image, driver->platform.name);
    hold->driver = driver;
    if (driver->acquire) {
        if (rg_loop_create(&wait.loop) < 0)
            return rg_error_set(err, ENOMEM, "out of memory");
        r = acquire(hold, job, &wait);
        rg_loop_destroy(wait.loop);
    }
    if (wait.signo) {
        signal(wait.signo, SIG_DFL);
        raise(wait.signo);
        _exit(128 + wait.signo);
    }
    return r < 0 ? r : driver->discover(hold->held, job, err);
}

void rg_hold_release(struct rg_hold *hold)
{
    if (hold->held)
        hold->driver->release(hold->held);
    hold->held = NULL;
}
