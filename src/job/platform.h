/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job can run on (--on), as far as those must know it who read options, plan a job and keep
 * lists of jobs: facts, in one table. They ask for a fact and never compare a name. Each driver
 * (launch/host/driver.h) has one of these; rg_drivers_init hands all of them down.
 *
 * Thread rule: rg_platforms_use once, at the program's start; then the table is constant.
 */
#ifndef RG_JOB_PLATFORM_H
#define RG_JOB_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>

struct rg_job;
struct rg_option; /* job/options/options.h */

struct rg_platform {
    const char *name;      /* as --on takes it: "slurm" */
    const char *title;     /* in sentences: "Slurm" */
    const char *about;     /* what the help of --on says behind the name: ", this computer only" */
    const char *launchers; /* the words of mpiexec's --launcher that mean it; or NULL */
    const struct rg_option *options; /* that it alone takes, ended by one without a name; or NULL */
    const char *runtime;   /* the --container-runtime by which it makes containers; or NULL */
    const char *variable;  /* in which it tells a process the number of its job; or NULL */
    const char *canceller; /* the user's command that ends the job of a number; or NULL */
    const char *places[2]; /* options by which status, logs, attach and stop find a job that was
                              submitted elsewhere: where it is, and among which; or NULL */
    bool here;             /* its hosts are this computer, outside containers */
    bool any_host;         /* it reaches whatever host has a name */
    bool finds_hosts;      /* it knows hosts and slots where the user names none */
    bool own_cpus;         /* its agents may have other cpus than we, on this computer too */
    bool clears_up;        /* it removes by itself what a killed launcher has left on its hosts */
    bool elastic;          /* its jobs may get and lose hosts while they run */
    bool stops_all;        /* where it tells an agent to stop, it ends the whole job */
    bool queues;           /* it takes jobs to run them later: --submit */
    bool contains;         /* it starts ranks in the containers of --image */
    bool own_containers;   /* its hosts are containers also where no --image is named */
    bool away;             /* a job's head is always there: to run is to submit, and to follow */
    bool leads;            /* a program of it leads to the head of a job: reigen top asks there */
    bool serves;           /* the head of such a job has a port that others reach: --metrics */
    bool takes_files;      /* it runs job files of its own kind as they are (job.h: file_text) */
};

/* The table, NULL-terminated and borrowed. */
void rg_platforms_use(const struct rg_platform *const *platforms);
/* It; before rg_platforms_use it is empty. */
const struct rg_platform *const *rg_platforms(void);
/* The one of this name, or NULL. */
const struct rg_platform *rg_platform_find(const char *name);
/* The one that --on names. Where it names none, one of which nothing is true. Never NULL. */
const struct rg_platform *rg_platform_of(const struct rg_job *job);

#endif
