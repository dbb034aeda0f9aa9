/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job in memory: what the user asked for, whatever file or command line it came from. Parsers
 * fill it, rg_job_check judges it, launch carries it out. It holds no state of a running job.
 *
 * Ownership: a job owns all it points to; rg_job_fini frees it. Thread rule: one thread at a time.
 */
#ifndef RG_JOB_JOB_H
#define RG_JOB_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "container/container.h"
#include "job/role.h"

#define RG_PORT_RANGE "REIGEN_PORT_RANGE" /* the variable that says --port-range to ranks */
#define RG_POD_GRACE "REIGEN_POD_GRACE" /* a variable of the launcher's pod: the seconds that it has
                                           between SIGTERM and SIGKILL */
#define RG_JOB_RANKS_MAX 131072
#define RG_JOB_HOSTS_MAX 16384
#define RG_HOST_NAME_MAX 253
#define RG_JOB_SLOTS_MAX 4096 /* of one host */
#define RG_JOB_RESTARTS_MAX 1000
#define RG_JOB_DAY_MIN (24 * 60) /* minutes of a day */
#define RG_START_TIMEOUT_MS 300000
#define RG_DEADLOCK_UNSET UINT64_MAX /* ranks have it from elsewhere, or it is off */
#define RG_GRACE_MS 5000
#define RG_LEASE_MS 30000
#define RG_ELASTIC_LEASE_MS 7000 /* others can go on, so a lost host is to cost little */
#define RG_ELASTIC_TIMEOUT_MS 600000
#define RG_ELASTIC_NO_LIMIT INT32_MAX

enum rg_bind { RG_BIND_NONE, RG_BIND_CORE, RG_BIND_SOCKET };
/* auto: with more than one rank; horovod: "[rank]<stdout>:" as horovodrun's, always */
enum rg_tag { RG_TAG_AUTO, RG_TAG_ON, RG_TAG_OFF, RG_TAG_HOROVOD };
enum rg_stdin { RG_STDIN_RANK, RG_STDIN_ALL, RG_STDIN_NONE };
/* Who starts the ranks. auto: the user's own engine where the command is one (mpirun, ...), else
 * native. */
enum rg_engine {
    RG_ENGINE_AUTO,
    RG_ENGINE_NATIVE,  /* our agents */
    RG_ENGINE_OPENMPI, /* mpirun of Open MPI, on the first host */
    RG_ENGINE_HYDRA,   /* mpiexec of MPICH or Intel MPI, on the first host */
    RG_ENGINE_SCRIPT   /* the command runs once on the first host and starts what it likes */
};
enum rg_map { RG_MAP_SLOT, RG_MAP_NODE }; /* fill hosts, or deal round */

struct rg_host {
    char *name;
    int nslots; /* 0: as many as the host has cores, found by the driver */
    char *user; /* to log in as; NULL: as ssh's own configuration says */
};

/* A set of ranks as "0,3-5": sorted ranges, inclusive. Empty means all. */
struct rg_ranks {
    struct { int first, last; } *range;
    size_t count;
};

/* Among a job's settings, in the place of ssh: a script for `sh -c` that runs a command line of the
 * shell's on a host, which are its two arguments (kubectl exec, in MPIJobs of old operators). */
#define RG_JOB_EXEC "exec"

/* What can be expected of hosts that do not answer. */
enum rg_hosts_come {
    RG_HOSTS_ARE_THERE,
    RG_HOSTS_COME,   /* they may not have started yet */
    RG_HOSTS_RETURN, /* also, somebody replaces one that is lost by another one of its name */
};

/* A job whose hosts may come and go. */
struct rg_elastic {
    bool on;
    bool restarts;             /* as torchrun: on each change all ranks are ended and started again,
                                * on the same hosts; reset_limit counts failures alone */
    int min_np, max_np;        /* ranks that it can go on with; at most so many, 0: all there are */
    int spares;                /* so many more are started, and wait; then there is a max_np */
    char *discovery;           /* the command that lists the hosts, for the shell; NULL: those of
                                * the job are all there are */
    int slots_per_host;        /* of a host that it gives no number for */
    uint64_t discovery_ms;     /* from one call of it to the next */
    uint64_t timeout_ms;       /* too few ranks for so long end the job; 0: never */
    int reset_limit;           /* changes of its ranks, at most; or RG_ELASTIC_NO_LIMIT */
    /* A host of a rank that failed is not used for so long, and twice as long each time; 0: for
     * ever. */
    uint64_t cooldown_min_ms, cooldown_max_ms;
};

struct rg_job {
    /* what runs */
    struct rg_strv command; /* argv; at least one */
    char *title;            /* what messages call an engine's program, and lists of jobs
                               the job; NULL: by command */
    char *cwd;              /* NULL: the caller's */
    char *file_name;        /* of the job file that the roles are of, or NULL */
    char *file_text;        /* the job file that the roles are of, for a platform that takes it as
                               it is, or NULL; it may hold secrets, so no plan has it */
    struct rg_role *roles;  /* ranks are their tasks, and there are np of them; none: all are
                               alike */
    size_t nroles;
    int np;                 /* ranks; 0: all slots */
    int ranks_per_host;     /* instead of every host's slots; 0: not told */
    /* where */
    struct rg_host *hosts; /* in the user's order, names unique; none: localhost */
    size_t nhosts;
    enum rg_map map;
    enum rg_bind bind;
    bool oversubscribe; /* more ranks than slots is fine */
    char *on;               /* the platform's name; NULL: by the hosts and the image */
    struct rg_strv settings; /* NAME=VALUE: what the platform's own options were given (rg_env_get);
                                for its driver alone */
    bool submit;            /* let the platform run it when it can, and do not wait */
    bool detach;            /* or its head here, of which nobody has to wait for the end */
    struct rg_elastic elastic;
    enum rg_engine engine;
    struct rg_strv engine_options; /* handed to the engine's command line, before the command */
    struct rg_container container;
    /* how to reach hosts */
    int ssh_port;               /* 0: as ssh's own configuration says */
    char *ssh_identity;         /* a private key's file; NULL: ssh's own */
    struct rg_strv ssh_options; /* handed to ssh as they are */
    enum rg_hosts_come hosts_come; /* hosts may not be there yet: tried until start_timeout_ms */
    struct rg_ports ports;      /* where agents and ranks listen; first 0: anywhere */
    /* NAME or CIDR for all hosts, or HOST=NAME for one; none: found by asking the agents */
    struct rg_strv network_interfaces;
    struct rg_strv require;     /* "rdma", "gpu", "shm=1g": doctor's checks that must pass first */
    /* its environment: NAME=VALUE, or NAME for the caller's value (an unset one is noted and
     * dropped) */
    struct rg_strv env;
    struct rg_strv share_env; /* names; values travel over the link only and are never printed */
    bool tf_config;
    /* its time */
    uint64_t timeout_ms;       /* of the whole job; 0: none */
    uint64_t start_timeout_ms; /* for all ranks to be started */
    uint64_t deadlock_ms;      /* after which what looks like a deadlock ends the job; 0: never */
    uint64_t grace_ms;         /* between SIGTERM and SIGKILL */
    uint64_t notice_ms;        /* what the platform leaves ranks of the time between its own two,
                                  to an agent; 0: nobody knows */
    int max_restarts;          /* of the whole job, after a failure */
    bool restart_always;       /* also when the same failure comes twice, and nothing is gained */
    uint64_t lease_ms;         /* silence after which an agent ends its ranks */
    /* its input and output */
    char *output_dir;        /* NULL: none; else <dir>/rank.<r>/{stdout,stderr} */
    enum rg_tag tag;
    bool timestamps;
    int zone_min;            /* of them, where the head is not with its user: minutes by which the
                                user's clock is ahead of UTC, and RG_JOB_DAY_MIN more; 0: UTC */
    bool json;               /* events on stdout instead of plain output */
    struct rg_ranks show;    /* whose output reaches the terminal; files get all */
    enum rg_stdin stdin_mode;
    int stdin_rank;
    bool pty;                /* stdin_rank gets a terminal */
    /* how reigen itself behaves */
    int metrics_port;        /* where the head of a job that runs elsewhere tells its numbers, of
                              * all addresses of its host; 0: nowhere */
    char *record;            /* the folder that its record is written in, where its head is, or
                              * NULL */
    bool dry_run;
    int verbose;
#ifndef RG_AGENT             /* no plan's file has them */
    char *chaos;             /* the faults that it is to have (job/chaos/chaos.h), or NULL */
    char *sync;              /* the directory that goes to hosts that lack it (launch/sync), or
                              * NULL */
    char *notify;            /* the command that gets the verdict (head/notify.h), or NULL */
    char *metrics;           /* where its numbers are found (job/options/metrics.h), or NULL */
#endif
};

#define RG_AUTO_JOB rg_cleanup(rg_job_fini)

/* Defaults: np 0, start timeout 300 s, grace 5 s, lease 30 s (of an elastic job 7 s, as
 * rg_discovery_settle makes it), stdin to rank 0, tag auto. */
void rg_job_init(struct rg_job *job);
void rg_job_fini(struct rg_job *job);

/* How many ranks a platform that makes the hosts is to make room for, with spare ones; 0: np says
 * none. */
static inline int64_t rg_job_room(const struct rg_job *job)
{
    return (int64_t) (job->elastic.max_np ? job->elastic.max_np : job->np) + job->elastic.spares;
}

/* Append a host, NAME or USER@NAME; a name that is there already gets the slots added. 0, -ENOMEM,
 * -E2BIG, -EINVAL. */
int rg_job_add_host(struct rg_job *job, const char *text, int nslots, struct rg_error *err);

/* From the word that there is so much time left until SIGKILL, to SIGTERM for those that make
 * nothing of the word. */
static inline uint64_t rg_job_until_term_ms(const struct rg_job *job, uint64_t until_kill_ms)
{
    return until_kill_ms - (job->grace_ms < until_kill_ms / 4 ? job->grace_ms : until_kill_ms / 4);
}

/* notice_ms, of the seconds that a platform has between SIGTERM and SIGKILL: what is left of them
 * is for us. */
static inline uint64_t rg_job_notice_ms(uint64_t platform_s)
{
    return platform_s * 1000 - (platform_s < 10 ? platform_s * 500 : 5000);
}

/* Append all values of a setting that may be given more than once. 0 or -ENOMEM. */
int rg_job_settings(const struct rg_job *job, const char *name, struct rg_strv *values);

/* Who gets standard input was said: somebody else than rank 0. */
bool rg_job_reads(const struct rg_job *job);
/* Rules over several fields: a command is there, np within range, json excludes pty, ... Each
 * violation names the value and the remedy. 0 or -EINVAL. */
int rg_job_check(const struct rg_job *job, struct rg_error *err);

/* The range of ports, for agents and, by their environment, for the ranks; what names it in
 * errors. 0, -EINVAL, -ENOMEM. */
int rg_job_set_ports(struct rg_job *job, const char *what, const char *value, struct rg_error *err);
/* From REIGEN_PORT_RANGE, where the job says none. 0 or -errno with err. */
int rg_job_take_ports(struct rg_job *job, struct rg_error *err);
/* notice_ms from RG_POD_GRACE, where nobody has said it, and which no rank is to see. 1: it is from
 * there; 0; -EINVAL with err. */
int rg_job_take_notice(struct rg_job *job, struct rg_error *err);

/* "0,3-5" to a set. 0, -EINVAL, -ENOMEM. */
int rg_ranks_parse(const char *text, struct rg_ranks *ret_ranks, struct rg_error *err);
bool rg_ranks_has(const struct rg_ranks *ranks, int rank);
void rg_ranks_fini(struct rg_ranks *ranks);

#endif
