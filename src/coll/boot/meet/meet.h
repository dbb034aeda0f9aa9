/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that find each other by a way of the caller's own (struct reigen_meeting), as the key-value
 * store of torch.distributed. The runtime asks for nothing else than it asks of its own boots:
 * fences.
 *
 * Who may come: with REIGEN_KEY_FILE whoever has the key. Without it rank 0 makes one, and hands it
 * over in the first fence: the caller's way is trusted with it, as it is with everything else that
 * the job says over it. All ranks must be told of a key file, or none.
 *
 * Thread rule: the thread that makes the world or the process set, from whose call the fences come.
 */
#ifndef RG_COLL_BOOT_MEET_MEET_H
#define RG_COLL_BOOT_MEET_MEET_H

#include "coll/boot/boot.h"
#include "reigen/reigen.h"

/* 0, or -EINVAL: these are no numbers, or a function is missing. */
int rg_meet_check(const struct reigen_meeting *meeting, struct rg_error *err);
/* One fence, as rg_boot_ops.fence: the caller frees ret_blobs[0].data. */
int rg_meet_fence(const struct reigen_meeting *meeting, const void *blob, size_t nbytes,
                  uint64_t deadline_ns, struct rg_blob *ret_blobs, struct rg_error *err);
/* The boot of a whole job, with a key. 0; -EINVAL (some ranks have a key file and some have not),
 * -EPERM (the keys differ), or what a fence or the key's file ends with. */
int rg_meet_world(const struct reigen_meeting *meeting, const struct rg_config *config,
                  uint64_t deadline_ns, struct rg_boot **ret_boot, struct rg_error *err);
/* The boot of some of the ranks, whose identity the caller knows. broken: what is asked while they
 * wait for each other: 0, or -errno with err when there is no job any more; NULL: nothing. 0 or
 * -ENOMEM. */
int rg_meet_boot(const struct reigen_meeting *meeting, const struct rg_boot_identity *identity,
                 int (*broken)(void *arg, struct rg_error *err), void *arg,
                 struct rg_boot **ret_boot);
/* 32 bytes that nobody can guess, for rg_meet_set_key. 0 or -errno. */
int rg_meet_nonce(uint8_t ret_nonce[RG_KEY_NBYTES]);
/* The key of some of a job's ranks, who share a nonce. */
void rg_meet_set_key(const uint8_t job_key[RG_KEY_NBYTES], const uint8_t nonce[RG_KEY_NBYTES],
                     uint8_t ret_key[RG_KEY_NBYTES]);

#endif
