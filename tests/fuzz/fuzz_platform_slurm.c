/* SPDX-License-Identifier: Apache-2.0 */
/* What srun and the tasks of a step say: a host is linked to one task at most, and is gone once. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "platform/slurm/internal.h"

#define HOSTS 3

static int ngone[HOSTS];

static void on_connected(void *arg, int host, int read_fd, int write_fd)
{
    (void) arg, (void) host, (void) read_fd, (void) write_fd;
    abort(); /* not by words */
}

static void on_phase(void *arg, int host, int phase, const char *reason)
{
    (void) arg, (void) phase;
    if (host < 0 || host >= HOSTS || !reason)
        abort();
}

static void on_note(void *arg, int host, const char *text)
{
    (void) arg, (void) host;
    if (strlen(text) > RG_PREAMBLE_LINE_MAX)
        abort();
}

static void on_gone(void *arg, int host, const struct rg_error *err)
{
    (void) arg;
    if (++ngone[host] > 1 || !err->errnum)
        abort();
}

static void on_taken(void *arg, int host)
{
    (void) arg;
    if (host < 0 || host >= HOSTS)
        abort();
}

static const struct rg_driver_events events = { on_connected, on_phase, on_note, on_gone,
                                                on_taken };

static void check_tasks(const struct slurm_host *hosts)
{
    for (int i = 0; i < HOSTS; i++) {
        for (int j = 0; j < i; j++) {
            if (hosts[i].task >= 0 && hosts[i].task == hosts[j].task)
                abort();
        }
        if (hosts[i].task >= HOSTS)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static struct slurm_step step;
    static const char *const names[HOSTS] = { "node1", "node2", "n" };
    static struct slurm_host hosts[HOSTS];
    struct rg_job job = { 0 };
    struct rg_plan plan = { .nhosts = HOSTS };
    struct slurm slurm = { .hosts = hosts, .steps = &step, .nsteps = 1,
                           .shared.o = { .job = &job, .plan = &plan, .events = &events } };

    memset(ngone, 0, sizeof(ngone));
    memset(&step, 0, sizeof(step));
    if (rg_loop_create(&slurm.shared.o.loop) < 0)
        return 0;
    step.slurm = &slurm;
    step.nhosts = HOSTS;
    if (slurm_step_prepare(&step) < 0)
        return 0;
    for (int i = 0; i < HOSTS; i++)
        hosts[i] = (struct slurm_host){ .slurm = &slurm, .step = &step, .index = i,
                                        .name = names[i], .task = -1,
                                        .dialogue = { .shared = &slurm.shared, .host = i,
                                                      .ops = &slurm_dialogue_ops,
                                                      .arg = &hosts[i] } };
    slurm_step_take(&step, (const char *) data, nbytes / 2);
    slurm_step_take(&step, (const char *) data + nbytes / 2, nbytes - nbytes / 2);
    slurm_step_take_errors(&step, (const char *) data, nbytes / 3);
    slurm_step_take_errors(&step, (const char *) data + nbytes / 3, nbytes - nbytes / 3);
    check_tasks(hosts);
    for (int i = 0; i < HOSTS; i++) { /* no word of Slurm's is waited for here */
        if (hosts[i].killed)
            slurm_host_gone(&hosts[i]);
    }
    rg_loop_run(slurm.shared.o.loop); /* until no timer is left */
    slurm_step_fini(&step);
    rg_strv_fini(&slurm.shared.notes);
    rg_loop_destroy(slurm.shared.o.loop);
    return 0;
}
