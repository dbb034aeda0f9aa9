/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of hosts as people write them: `-H a:2,b:4`, and the host files of Open MPI ("a slots=2
 * max_slots=4", "b cpu = 2 username = bob"), MPICH ("a:2") and Horovod (either). A '#' begins a
 * comment. IPv6 addresses stand as they are ("::1") or in brackets ("[::1]:4"). Other brackets
 * stand for several hosts with so many slots each: "node[1-4]:2", "n[01-10,12]-ib"; see
 * rg_slurm_nodes.
 *
 * A host without a number of slots has as many as cores; named n times, it has n (as with Open
 * MPI).
 *
 * Thread rule: any thread, one job at a time. Only rg_hostfile_read blocks (it reads the file).
 */
#ifndef RG_JOB_HOSTLIST_H
#define RG_JOB_HOSTLIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "job/job.h"

#define RG_HOSTFILE_NBYTES_MAX (4u << 20)

/* Add each host of a comma-separated list. what names the option in errors. 0, -EINVAL, -ERANGE
 * (slots), -E2BIG, -ENOMEM; after an error the hosts before it have been added. */
int rg_hostlist_parse(struct rg_job *job, const char *what, const char *text,
                      struct rg_error *err);

/* The same for the text of a host file; path names it in errors, which tell the line. Also -EINVAL
 * when no host is in it. */
int rg_hostfile_parse(struct rg_job *job, const char *path, const char *text, size_t nbytes,
                      struct rg_error *err);

/* Read the file first. Also -ENOENT, -EACCES, -EFBIG, ...: all with exit_code 2. */
int rg_hostfile_read(struct rg_job *job, const char *path, struct rg_error *err);

/* Whether a name can only mean this computer: localhost, 127.*, ::1, or its own host name (with or
 * without domain). */
bool rg_host_is_local(const char *name);

#endif
