/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one option table of `reigen run`. From it come parsing, --help, the man pages, shell
 * completion, and the keys of the job file: an option and the key of its name share one handler, so
 * that a value means and is refused the same wherever it stands.
 *
 * job/request reads whole command lines and job files by it.
 *
 * Thread rule: constant tables; a request belongs to one thread. Nothing blocks but what reads
 * --hostfile and --env-file.
 */
#ifndef RG_JOB_OPTIONS_OPTIONS_H
#define RG_JOB_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"
#include "job/job.h"
#include "job/options/member.h"

struct rg_request;
struct rg_platform;

/* Job files of other programs that --config takes, too: put what the text says into the request,
 * as roles (job/role.h). path names the file in errors. 1; 0: it is no such file; -errno with
 * err. */
typedef int rg_request_reader(struct rg_request *request, const char *path, const char *text,
                              size_t nbytes, struct rg_error *err);

/* What a file with roles asks for. Of numbers that are 0 nothing is said. */
struct rg_request_share {
    int64_t cpus, memory_mb, gpus; /* of each task */
    bool rdma;
    /* What it has put into the job, so that an option that says something else is seen. */
    char *image; /* or NULL */
    uint64_t shm_nbytes;
    int max_restarts;
    size_t nenv;
    size_t nnotes;    /* how many of the notes are about running it on another platform */
    char *only_there; /* why it can run on its platform alone, or NULL */
};

/* As many GPUs for each rank as there are on its host, divided by its ranks. */
#define RG_GPUS_EVENLY (-1)

/* Whose words the handlers are reading: each wins over those in front of it, but for the first. */
enum rg_request_source {
    RG_FROM_LINE,     /* the command line: it comes last */
    RG_FROM_DEFAULTS, /* the user's configuration (job/config/config.h) */
    RG_FROM_PROFILE,  /* a profile in it */
    RG_FROM_JOBFILE,
};

/* What the user asked for: the job, and what concerns reigen itself. Owns all it points to. */
struct rg_request {
    struct rg_job job;
    int gpus_per_rank;    /* 0: all ranks see all of their host; or RG_GPUS_EVENLY. What the agents
                           * read follows from it in the job's environment (agent/ranks/gpus.h) */
    char *config;         /* the job file, or NULL */
    rg_request_reader *read_other; /* for --config; NULL: our own job files alone */
    struct rg_request_share share; /* what such a file asks for, of the platform */
    char *discovery;      /* the command that names hosts, or NULL (job/request/discovery.h) */
    int discovery_slots;  /* of a host for which it names none; 0: not said */
    /* Called while parsing waits for something, with what it waits for, unless quiet; or NULL */
    void (*tell)(const char *sentence);
    char *write_plan;     /* where the plan is to be written, in the place of running; or NULL */
    bool lease;           /* --lease was given */
    bool debugs;          /* --debug-rank was given: no rank's time is to run out */
    int debug_rank;       /* the rank that it named */
    bool display_map;     /* print where each rank runs, then run */
    bool report_bindings; /* print which cores each rank is bound to */
    bool quiet;           /* nothing from reigen itself but errors */
    bool help;            /* --help: nothing else was checked */
    bool version;         /* --version: the same */
    const char *unknown;  /* the argument at which parsing failed, as no option has it; or NULL */
    struct rg_strv notes; /* remarks for the user: what was accepted and does nothing */
    /* Where hosts and output filters came from, so that options replace what the file said. */
    enum rg_request_source source, hosts_source, on_source;
    bool configured;      /* the user's configuration counts; and one of its profiles, or NULL */
    char *profile;
    char *denied;         /* the configuration that this user must not look at, or NULL */
    struct rg_strv given; /* names of options that the command line or the job file has */
    struct rg_strv usual; /* names of options whose value only the configuration says: they give
                           * way where they have no place */
    struct rg_strv usual_places; /* "FILE:LINE" of each of these */
    const char *place;           /* of the line that is being applied, or NULL */
    struct rg_strv usual_hosts;  /* what it says of hosts, not looked at yet: FILE:LINE, name of the
                                  * option, value, and so on */
    bool stand_in;        /* the command line's command is none of the user's: the file's wins */
    /* Other launchers' flags whose meaning depends on the rest (job/request/launchers.h); 0:
     * not given */
    int per_host_or_nodes, nnodes;
    char *programs;       /* the file of --app, or NULL (job/request/programs.h), and what the */
    char programs_what[16]; /* user called the option */
    /* A colon stands between programs. Then what the options in front of all say of the first one
     * alone is kept here: values of --env as they were given, and of --cwd, or NULL. */
    bool several;
    struct rg_strv first_env;
    char *first_cwd;
};

enum rg_option_group {
    RG_GROUP_WHERE,  /* how many ranks, and where */
    RG_GROUP_NETWORK,/* by which way hosts are reached, and reach each other */
    RG_GROUP_ELASTIC,/* ... and how that may change */
    RG_GROUP_CONTAINER, /* in which image, with what of the host */
    RG_GROUP_ENV,    /* what the ranks find */
    RG_GROUP_OUTPUT, /* what is shown and kept */
    RG_GROUP_INPUT,
    RG_GROUP_TIME,
    RG_GROUP_REIGEN, /* about reigen itself */
    RG_GROUP_MPIRUN, /* accepted from mpirun's command lines; more: job/request/launchers.h */
    RG_GROUP_COUNT
};

/* How the option stands in the job file. */
enum rg_option_file {
    RG_FILE_NONE,   /* only on the command line */
    RG_FILE_SCALAR, /* key: value */
    RG_FILE_BOOL,   /* key: true or false; false calls the handler with "false" */
    RG_FILE_LIST,   /* one item, or a list of items; the handler is called for each */
    RG_FILE_MAP,    /* as a list, or a mapping NAME: VALUE, given to the handler as NAME=VALUE */
    RG_FILE_HOSTS,  /* as a list, or a mapping HOST: SLOTS, given as HOST:SLOTS */
};

/* What an option needs to change anything; job/options/effect.c says which jobs have it. */
enum rg_option_need {
    RG_NEEDS_NOTHING,
    RG_NEEDS_SSH,       /* a host that is reached by ssh */
    RG_NEEDS_ELASTIC,   /* a job that is elastic */
    RG_NEEDS_SCRIPT,    /* --host-discovery-script */
    RG_NEEDS_CONTAINER,
    RG_NEEDS_RESTARTS,  /* --max-restarts */
    RG_NEEDS_ASKING,    /* a platform that is asked for hosts, as there are none yet */
};

struct rg_option {
    const char *name;       /* without dashes; at most two dashes may precede it */
    const char *aliases;    /* other names, separated by spaces, or NULL */
    const char *key;        /* the name in the job file, or NULL when it is name */
    enum rg_option_group group;
    enum rg_option_file file;
    const char *arg;        /* what the value is called: "N"; NULL: no value */
    const char *arg2;       /* a second value (horovodrun has such flags), or NULL */
    /* Words, separated by spaces; after "@list" several of them with commas; "@file", "@dir",
     * "@var", "@host" (with commas), "@net" (an interface); for commands "@job"; or NULL */
    const char *completes;
    const char *help;       /* one or more sentences */
    /* Judge the value and put it into the request. what names it in errors ("--np"). Without arg,
     * value is "true" (or "false" from a job file). 0 or -errno with err. NULL: member says where
     * it goes. */
    int (*apply)(struct rg_request *request, const char *what, const char *value,
                 struct rg_error *err);
    struct rg_member member; /* of the request */
    /* Of an option of a platform, which has neither: judge the value, which is then kept for the
     * driver (job->settings), one that is not empty. A list's option adds, another one replaces.
     * The same; NULL: any will do. */
    int (*judge)(const char *what, const char *value, struct rg_error *err);
    const char *brief; /* of those that people use most: one line of --help; or NULL */
    bool optional;     /* only --name=VALUE gives it the value */
    const char *variable; /* of the environment: says the same, or NULL */
    enum rg_option_need needs;
};

/* What --help can be asked for: a group of options, or those that one platform alone takes. */
struct rg_option_topic {
    const char *name;  /* "elastic", "slurm"; NULL ends a list */
    const char *title; /* the heading: "Elastic jobs" */
    enum rg_option_group group;
    const struct rg_platform *platform; /* NULL: the group's, but for those of platforms */
};
#define RG_TOPICS_MAX 32

/* The table, in the order of --help, with the options of all platforms (job/platform.h). */
const struct rg_option *rg_options(size_t *ret_count);
/* The option that has this name or alias (without dashes), or NULL. */
const struct rg_option *rg_option_find(const char *name);
/* The option that has this key in the job file, or NULL. */
const struct rg_option *rg_option_find_key(const char *key);
/* The row that a platform has for an option of this name, or NULL. */
const struct rg_option *rg_option_of(const struct rg_platform *platform, const char *name);
/* Do as its apply, member and judge say. */
int rg_option_apply(const struct rg_option *option, struct rg_request *request, const char *what,
                    const char *value, struct rg_error *err);
/* Judge what options were given that several platforms have, and each understands in its own way:
 * only now it is sure which platform it is. 0 or -errno. */
int rg_request_settle_shared(struct rg_request *request, struct rg_error *err);
/* The key of an option in the job file. */
const char *rg_option_key(const struct rg_option *option);
/* Append all keys. 0 or -ENOMEM. */
int rg_option_keys(struct rg_strv *keys);
/* Append the name and each of the aliases. 0 or -ENOMEM. */
int rg_option_names(const char *name, const char *aliases, struct rg_strv *names);
/* All of them, in the order of --help. Returns how many; the array ends with a NULL name. */
size_t rg_option_topics(struct rg_option_topic ret_topics[RG_TOPICS_MAX]);
/* The one of this name. False: there is none. */
bool rg_option_topic_find(const char *name, struct rg_option_topic *ret_topic);
/* Whether the option, a row of rg_options, stands below this heading: each has one. */
bool rg_option_is_in(const struct rg_option *option, const struct rg_option_topic *topic);

#endif
