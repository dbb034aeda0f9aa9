/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job, and what is decided of it already, as a file: for a head that runs it elsewhere, without
 * the command line that it came from (`reigen-agent head --plan FILE`).
 *
 *     8 bytes "reigen-p", u32 RG_PLAN_FILE_VERSION, u32 length of what follows, then the fields in
 *     the order of the table in plan_file.c, little-endian. A number of 32 bits or less takes 4
 *     bytes, one of 64 bits 8; text is a u32, its length and 1, or 0 where there is none, and the
 *     bytes; a list is a u32, its length, and its elements.
 *
 * The numbers have their limits and the lists their caps in that table, which writing and reading
 * share. A file of another version is refused: both are of one installation, or one is brought
 * along with the other.
 *
 * No secret belongs to a plan: the job's key is made by the head, and --share-env's values are
 * those of its environment. The file is the user's alone (0600) all the same, since --env and
 * command lines are nobody else's business.
 *
 * Thread rule: any thread. Files are read and written at once.
 */
#ifndef RG_LAUNCH_PLAN_PLAN_FILE_H
#define RG_LAUNCH_PLAN_PLAN_FILE_H

#include "base/buf.h"
#include "base/error.h"
#include "launch/plan/plan.h"
#include "job/job.h"

#define RG_PLAN_FILE_VERSION 1
#define RG_PLAN_FILE_MAX (64u << 20) /* bytes */

/* Owns all it points to. A zeroed one has a job that is not ready for use: rg_job_init. */
struct rg_planned {
    struct rg_job job;
    struct rg_plan plan;  /* nhosts 0: it is made where the job runs */
    struct rg_strv notes; /* remarks for the user, before the start */
    bool display_map;     /* print where each rank runs */
    bool report_bindings; /* print which cores each rank is bound to */
    bool quiet;           /* nothing from reigen itself but errors */
};

#define RG_AUTO_PLANNED rg_cleanup(rg_planned_fini)

void rg_planned_fini(struct rg_planned *planned);

/* Fill ret_planned with a copy for a head in a container that a platform makes: with the caller's
 * values of --env, as its environment is not there, and without what the launcher has cared for,
 * namely the container; standard input is nobody's. 0; -E2BIG, -ENOMEM with err. */
int rg_planned_send(const struct rg_planned *planned, struct rg_planned *ret_planned,
                    struct rg_error *err);

/* Append the file's bytes. 0; -E2BIG: a field is beyond what can be read again, err
 * names it; -ENOMEM. */
int rg_planned_encode(const struct rg_planned *planned, struct rg_buf *buf, struct rg_error *err);

/* Fill ret_planned. 0; -EBADMSG (cut short, damaged), -EPROTONOSUPPORT (another version's),
 * -ENOMEM: err names the field and its place, and ret_planned is untouched. What was taken is safe
 * to use, but need not make sense: rg_job_check. */
int rg_planned_decode(const void *bytes, size_t nbytes, struct rg_planned *ret_planned,
                      struct rg_error *err);

/* The same with a file. 0 or -errno with err, exit code 2 for one that cannot be used. */
int rg_planned_write(const struct rg_planned *planned, const char *path, struct rg_error *err);
int rg_planned_read(const char *path, struct rg_planned *ret_planned, struct rg_error *err);

#endif
