/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenPAI's job files: the job JSON of API v1, and the YAML of protocol v2. A file is read and
 * judged as the server of its version would judge it, and for what the server takes and the job
 * then fails of. A job can be written in either version, and taken from one to the other.
 *
 * Ownership: what an object holds is its own; fini frees it. Thread rule: any thread, one object at
 * a time; no state is kept. Nothing blocks.
 */
#ifndef RG_PLATFORM_OPENPAI_JOBFILE_PAI_H
#define RG_PLATFORM_OPENPAI_JOBFILE_PAI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "job/options/options.h"

struct rg_pai_agent_source; /* prologue.h */

#define RG_PAI_FINDINGS_MAX 200 /* of one file; what is found beyond is counted, not kept */
#define RG_PAI_KEY_PLACE "64 hexadecimal digits" /* in a file for eyes, in the place of a key, */
#define RG_PAI_MASK "******"                     /* and of another secret */
#define RG_PAI_NONE INT64_MIN   /* a number that is null or not said */

/* One thing that is wrong, or will be. All texts are the finding's own. */
struct rg_pai_finding {
    bool is_error;    /* else a warning: the job can run as it is meant */
    bool mends;       /* converting the file repairs it */
    int line, column; /* from 1 */
    char *path;       /* "taskRoles[0].memoryMB"; "" for the file as a whole */
    char *what;       /* what stands there, for people */
    char *rule;       /* what it breaks */
    char *remedy;
    char *instead; /* the value that may stand there instead, as it would be written; or NULL */
};

struct rg_pai_findings {
    struct rg_pai_finding *v; /* in the order in which they were found; NULL while empty */
    size_t count, capacity;
    size_t nerrors, nwarnings; /* all that were found */
    size_t nfatal;             /* errors that converting does not repair */
    bool failed;               /* memory was short once */
};

/* A port of v1's list; v2 has the label and the count alone. */
struct rg_pai_port {
    char *label;
    int64_t begin, count; /* begin 0: wherever there is room */
};

/* What both versions say of a role; defaults of the version are filled in. */
struct rg_pai_role {
    char *name;
    int64_t tasks, cpu, gpu, memory_mb;
    int64_t shm_mb;                    /* RG_PAI_NONE: v2 says none, and the server takes 512 */
    int64_t min_failed, min_succeeded; /* RG_PAI_NONE: none; null in v1, -1 in v2 */
    struct rg_pai_port *ports;
    size_t nports, ports_capacity;
    struct rg_strv commands; /* v1: one */
    char *image;             /* v2: the name of its prerequisite; NULL in v1 */
    json_t *rest;            /* an object: v2's other fields, as they stand in the file; of
                              * completion what is v1's */
};

/* A job. Texts that are NULL are not said. */
struct rg_pai {
    int version;      /* 1 or 2: whose rules it keeps */
    bool commented;   /* its JSON has comments, which servers do not read */
    char *name;       /* v1: jobName */
    char *image;      /* v1 */
    char *cluster;    /* the virtual cluster; v2: of its defaults */
    char *gpu_type;   /* v1 */
    int64_t retries;  /* retryCount, jobRetryCount; RG_PAI_NONE: not said */
    json_t *env;      /* v1's jobEnvs, v2's parameters: an object, or NULL */
    json_t *extras;   /* an object, or NULL */
    json_t *rest;     /* an object: all other fields, as they stand in the file */
    struct rg_pai_role *roles;
    size_t nroles, roles_capacity;
};

#define RG_PAI_INIT { .retries = RG_PAI_NONE }
#define RG_PAI_FINDINGS_INIT { NULL, 0, 0, 0, 0, 0, false }

/* NULL and what is half built are fine; what is left is empty. */
void rg_pai_fini(struct rg_pai *job);
void rg_pai_findings_fini(struct rg_pai_findings *found);

/* Read and judge a file of either version, which it tells by itself: what has protocolVersion is
 * v2; else v1 is what has jobName or is written in braces; else it is v2. path names the file where
 * err does. job->version is always set; its other fields are, where no error that converting does
 * not repair was found (nfatal is 0). What is no JSON, or no YAML, is a finding, too. 0;
 * -EFBIG as rg_yaml_load says; -ENOMEM. */
int rg_pai_read(const char *path, const char *text, size_t nbytes, struct rg_pai *job,
                struct rg_pai_findings *found, struct rg_error *err);

/* Append the job as a file of its version: JSON with two blanks of indent, or YAML in blocks, with
 * a newline at the end. Reading it gives the same job. 0 or -ENOMEM. */
int rg_pai_write(const struct rg_pai *job, struct rg_buf *text);

/* Make ret_job, which is empty, of job, for version 1 or 2, which may be job's own: names and line
 * breaks that the version does not bear are repaired. Whatever that changes, and what the other
 * version cannot say, is one sentence in words (with the path of the field in front), so that
 * nothing is dropped in silence. 0; -EINVAL, exit_code 2, where the result would mean something
 * else; -ENOMEM. After an error ret_job is to be finished as well. */
int rg_pai_convert(const struct rg_pai *job, int version, struct rg_pai *ret_job,
                   struct rg_strv *words, struct rg_error *err);

/* What waits in the place of a sleep with which a command begins, in the hope that the other tasks
 * are up by then. */
enum rg_pai_wait {
    RG_PAI_WAIT_SHELL,  /* a loop of a POSIX shell, as nothing is known of the image */
    RG_PAI_WAIT_REIGEN, /* `reigen wait-workers`, as reigen is in the image */
    RG_PAI_WAIT_AGENT,  /* the same of reigen-agent, which the command has from the source */
};

/* Replace the sleeps in a job that was converted from another (or read: then from is job itself).
 * For RG_PAI_WAIT_SHELL they are only taken out where the ssh plugin's sshbarrier waits, and that
 * of a plugin which converting has added then does. The head's command in API v1 waits where from
 * had such a barrier. Each change is one sentence more in words. source
 * counts for RG_PAI_WAIT_AGENT and has passed rg_pai_agent_source_check. Roles of equal tasks,
 * which no head leads, get the loop. 0 or -ENOMEM. */
int rg_pai_mend_waits(const struct rg_pai *from, struct rg_pai *job, enum rg_pai_wait wait,
                      const struct rg_pai_agent_source *source, struct rg_strv *words);

/* A request's reader of other files (job/options/options.h): a job of either version becomes roles
 * with the variables that its server would set, to run anywhere. What means nothing elsewhere, or
 * is done in another way, is a remark; where its commands need a secret, it can only run there. The
 * job keeps the file's text, too. -EINVAL, exit_code 2: the file has errors that nobody can read
 * over. */
rg_request_reader rg_pai_request;

#endif
