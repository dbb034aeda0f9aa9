/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on this computer that let others go first: the local driver's, each started by nice. */
#include "base/exitcode.h"
#include "launch/host/driver.h"
#include "platform/local/door.h"
#include "job/engine.h"

/* "nice COMMAND ..." */
static int discover(void *held, struct rg_job *job, struct rg_error *err)
{
    struct rg_strv command = RG_STRV_INIT;

    /* Behind "nice" nobody would see that it is mpirun, and every rank would run one. */
    if (rg_job_has_engine(job))
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "--on nice: give the program itself");
    if (rg_strv_add(&command, "nice") < 0 || rg_strv_add_all(&command, job->command.v) < 0) {
        rg_strv_fini(&command);
        return rg_error_set(err, ENOMEM, "out of memory");
    }
    rg_strv_fini(&job->command);
    job->command = command;
    return rg_driver_local.discover(held, job, err);
}

static int start(const struct rg_driver_options *o, void **ret_state, struct rg_error *err)
{
    return rg_driver_local.start(o, ret_state, err);
}

static void stop(void *state, int host)
{
    rg_driver_local.stop(state, host);
}

static void destroy(void *state)
{
    rg_driver_local.destroy(state);
}

const struct rg_driver_ops rg_driver_nice = {
    .platform = { .name = "nice", .title = "nice", .about = ", this computer, politely",
                  .here = true },
    .discover = discover,
    .start = start,
    .stop = stop,
    .destroy = destroy,
};
