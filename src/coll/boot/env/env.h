/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boots whose ranks find each other by what is in their environment: Reigen's agent (agent.c),
 * Horovod's launcher (rendezvous.c), and anything that sets torchrun's variables (env.c); and the
 * meeting over our own sockets, which the last two have in common.
 *
 * Thread rule: the thread in reigen_init. rg_env_meet and rg_env_fence block until their deadline.
 */
#ifndef RG_COLL_BOOT_ENV_ENV_H
#define RG_COLL_BOOT_ENV_ENV_H

#include "coll/boot/boot.h"

struct rg_env_job;

extern const struct rg_boot_ops rg_boot_agent;
extern const struct rg_boot_ops rg_boot_rendezvous;
extern const struct rg_boot_ops rg_boot_env;

/* The key that REIGEN_KEY_FILE names. 0; -EPERM (others may read it), -EINVAL (it holds no key), or
 * why it cannot be read. */
int rg_env_read_key(const char *path, uint8_t key[RG_KEY_NBYTES], struct rg_error *err);

/* Rank 0 listens; the others find it and are let in. 0 and the state of rg_env_fence and its like,
 * which rg_env_close frees; or -errno. Takes what the caller knows: job's numbers, master, ports,
 * facts. */
int rg_env_meet(const struct rg_config *config, const struct rg_env_job *job, uint64_t deadline_ns,
                void **ret_state, struct rg_boot_identity *ret_identity, struct rg_error *err);
/* As in rg_boot_ops. */
int rg_env_fence(void *state, const void *blob, size_t nbytes, uint64_t deadline_ns,
                 struct rg_blob *ret_blobs, struct rg_error *err);
int rg_env_poll_start(void *state, int *ret_rank, struct rg_error *err);
void rg_env_note(void *state, int level, const char *text);
void rg_env_cut_off(void *state, int rank);
void rg_env_close(void *state, bool goodbye);
void rg_env_after_fork(void *state);

#endif
