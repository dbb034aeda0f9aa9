/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the driver of OpenPAI share. Nothing outside src/platform/openpai
 * includes it, but tests. What is said to the REST server is in server/.
 *
 *   options.c  the options, and what a job cannot have on OpenPAI
 *   file.c     the job's file, of either version
 *   own.c      or that which the user has, repaired
 *   queue.c    submit, status, cancel, find
 *   follow.c   a job that is stayed with until it has ended
 *   show_log.c logs
 *   verdict.c  how a job has ended, by what the server says of its tasks
 *
 * A job has the role `master` with one task, where the head is and its ranks, and the role `worker`
 * with one task for each other host. All tasks run `reigen-agent pod`.  *
 * Thread rule: the loop's thread.
 */
#ifndef RG_PLATFORM_OPENPAI_OUTSIDE_INTERNAL_H
#define RG_PLATFORM_OPENPAI_OUTSIDE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "platform/openpai/server/server.h"
#include "launch/host/driver.h"
#include "launch/plan/plan_file.h"
#include "job/options/options.h"
#include "platform/openpai/outside/user.h"

#define PAI_MASTER "master"
#define PAI_WORKER "worker"
#define PAI_PORT "reigen"         /* the label of the head's port */
#define PAI_KEY_SECRET "reigenKey" /* of protocol v2: the job's key */
#define PAI_PLAN_MAX (96u << 10)  /* bytes in base64: a variable of Linux's takes 128 KiB */
#define PAI_HOST_MAX 128          /* of "ROLE-INDEX" */
#define PAI_TASK_RETRIES 100      /* so often a task of an elastic job is begun again */

#define PAI_AUTO_SERVER rg_cleanup(pai_server_drop)
static inline void pai_server_drop(struct pai_server **server)
{
    pai_server_close(*server);
}

#define PAI_AUTO_ANSWER rg_cleanup(pai_answer_fini)

/* --- options.c -------------------------------------------------------------------------------- */

/* The value of an option of this driver, or NULL. */
static inline const char *pai_option(const struct rg_job *job, const char *name)
{
    return rg_env_get(&job->settings, name);
}

/* What each task is to have, by the options or the defaults. */
struct pai_wants {
    int64_t cpu, gpu, memory_mb, shm_mb;
};
/* 0, or -EINVAL with exit code 2. */
int pai_wants_of(const struct rg_job *job, struct pai_wants *ret_wants, struct rg_error *err);
/* 1 or 2, as --pai-version says; 0: the server is to be asked. */
int pai_version_of(const struct rg_job *job);
/* Whether the job is to have the hosts' InfiniBand. 0 or 1; -EINVAL with exit code 2: --rdma names
 * what this version has not. */
int pai_rdma_of(const struct rg_job *job, int version, struct rg_error *err);

/* --- file.c ----------------------------------------------------------------------------------- */

/* The job's file for a server of version 1 or 2, appended. secrets: with a new key and the values
 * of --share-env in it; else a placeholder stands there, and comments say how to fill it in (v2).
 * Of v1 no file has a key. What was repaired in the user's own file is appended to words. 0; -errno
 * with err, exit code 2. */
int pai_file_put(const struct rg_planned *planned, int version, bool secrets, struct rg_buf *text,
                 struct rg_strv *words, struct rg_error *err);

/* --- own.c ------------------------------------------------------------------------------------ */

/* Of a job with a file of its own (file_text): take its name, unless there is one, and a host for
 * each task, as pai_host_of counts them. As pai_discover. */
int pai_own_discover(struct rg_job *wish, struct rg_error *err);
/* As pai_file_put. Where nothing was to be repaired or set, text gets its very bytes. */
int pai_own_put(const struct rg_job *wish, int version, bool secrets, struct rg_buf *text,
                struct rg_strv *words, struct rg_error *err);

/* --- queue.c ---------------------------------------------------------------------------------- */

/* Where a submitted job is, as its note says: "URL USER VERSION". It must outlive what it gave. */
struct pai_where {
    char *text;
    const char *url, *user; /* within text */
    int version;
};
void pai_where_fini(struct pai_where *where);
/* Open the server that has this job. 0, or -errno with err. */
int pai_open_submitted(const struct rg_submitted_job *job, struct pai_where *ret_where,
                       struct pai_server **ret_server, struct rg_error *err);

/* --- verdict.c -------------------------------------------------------------------------------- */

/* The task with the head: task 0 of the role master, else the first one; NULL: there is none. */
const struct pai_task *pai_head_of(const struct pai_job *job);
/* The host that a task is: the head is 0, and the others follow in the server's order. */
int pai_host_of(const struct pai_job *job, const struct pai_task *task);
/* "ROLE-INDEX" into text, which is returned. */
const char *pai_task_name(const struct pai_task *task, char text[PAI_HOST_MAX]);
/* How a job has ended that is not followed any more: the exit code, the head's own where it had
 * one; and into err, in words, what the head itself cannot have said; errnum 0: nothing. version:
 * of the server. */
int pai_verdict(int version, const struct pai_job *job, struct rg_error *err);

#endif
