/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0's end of the boot when no agent serves: gathers the ranks' HELLOs and fences, and answers.
 * It has no thread: it works while rank 0 is in a fence, which is when the others need it.
 *
 * Garbage, wrong keys and connections that say nothing cost a slot for at most
 * RG_SERVER_HALF_OPEN_MS and never an answer beyond the handshake. A rank that said GOODBYE before
 * the first fence was complete may come again. One whose connection ends without it is dead: the
 * fence ends, and all are told who it was, and what it said last.
 *
 * Thread rule: one thread at a time. rg_server_fence blocks until its deadline.
 */
#ifndef RG_COLL_BOOT_ENV_SERVER_H
#define RG_COLL_BOOT_ENV_SERVER_H

#include "coll/boot/env/client.h"
#include "coll/boot/env/env_job.h"

#define RG_SERVER_HALF_OPEN_MS 10000
/* Connections that have not said HELLO; beyond it the oldest goes. */
#define RG_SERVER_PENDING_MAX 128

struct rg_server;

/* Rank 0 of job serves at listen_fd, which is taken. It keeps a copy of job, whose keys it wipes
 * when all ranks are there. 0 or -ENOMEM. */
int rg_server_create(const struct rg_env_job *job, int take_listen_fd,
                     struct rg_server **ret_server);
/* As rg_boot_ops.fence, for rank 0. The earliest deadline of all ranks that came is kept, so that
 * all of them learn who is missing: "ranks 2, 5-7 did not come within 300 s". All parts together
 * have RG_FENCE_NBYTES_MAX bytes at most; more are not kept and end it with -EMSGSIZE. */
int rg_server_fence(struct rg_server *server, const void *blob, size_t nbytes,
                    uint64_t deadline_ns, struct rg_blob *ret_blobs, struct rg_error *err);
/* As rg_boot_ops.poll_start, for rank 0; the other ranks are told, too. */
int rg_server_poll(struct rg_server *server, int *ret_rank, struct rg_error *err);
/* Tell the other ranks why rank 0 gives up; of_other: text names the rank that it is for. */
void rg_server_tell(struct rg_server *server, bool of_other, const char *text);
void rg_server_destroy(struct rg_server *server); /* NULL is fine */
void rg_server_after_fork(struct rg_server *server);

/* "rank 2", "ranks 2, 5-7" of those for which missing[r] is set; at most 8 runs, then "and n
 * more". */
void rg_ranks_format(const bool *missing, int size, struct rg_buf *text);

#endif
