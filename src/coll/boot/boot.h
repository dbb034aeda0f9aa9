/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ranks find each other: one vtable over the ways of being started (boot/env, boot/pm; find.h
 * has their table). All it offers is an identity and fences: an allgather of small blobs over any
 * rank, slow but always there.
 *
 * Thread rule: rg_boot_fence blocks (until its deadline) and belongs to the thread in reigen_init.
 * Afterwards the communication thread polls. rg_boot_note may be called from any thread.
 */
#ifndef RG_COLL_BOOT_BOOT_H
#define RG_COLL_BOOT_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "coll/ground/blob.h"
#include "coll/ground/config.h"
#include "wire/link.h"
#include "wire/numbers.h"

struct rg_boot;

struct rg_boot_identity {
    int rank, size;
    int local_rank, local_size, cross_rank, cross_size; /* -1: the boot does not say */
    uint32_t epoch; /* of an elastic job, from 1; 0: the ranks are the same all the time */
    bool sync;      /* not all ranks of the epoch have the state of rank 0 */
    bool has_key;
    uint8_t key[RG_KEY_NBYTES]; /* for the sockets between ranks */
    /* all ranks are known to be on this host (their credentials were checked) */
    bool one_host;
    /* a process set: the ranks of the world that its ranks are, borrowed for as long as the team
     * lives; NULL: the ranks are the world's own */
    const int *world_ranks;
    char warning[256];          /* for the user to see once (REIGEN_INSECURE), else "" */
};

#define RG_BOOT_IDENTITY_INIT \
    { .local_rank = -1, .local_size = -1, .cross_rank = -1, .cross_size = -1 }

/* Who is this rank already, for whoever else wants to be it. */
#define RG_BOOT_TAKEN_TEXT \
    "%s has taken this rank's place already, which is to be had once; start a process that is " \
    "to work alone, as a helper or a worker that loads data, with REIGEN_BOOT=single in its " \
    "environment"

/* A way of being started. Of the functions only fence is always there, for those of several ranks;
 * NULL is nothing to do, never, or as it says. */
struct rg_boot_ops {
    const char *name; /* "agent" */
    /* What detect looks for, for people; NULL: it finds out otherwise, and REIGEN_BOOT decides
     * without it. */
    const char *variables;
    /* The variables whose values name a rank's place (place.h), the last entry is NULL. NULL: a
     * process that inherits them is refused in another way. */
    const char *const *place;
    bool of_mpi;       /* MPI's launcher, or Slurm for MPI, has started the ranks; torchrun's word,
                        * where there is one, is younger */
    bool fences_alone; /* others see a fence of one rank; else one rank needs nobody for it */
    bool shows_notes;  /* the launcher shows notes of level 1 and 2 to its user */
    bool judges;       /* the launcher says who failed first, and goes by cut_off */
    /* 1: these variables are for me, 0: not, -errno: for me, but broken. */
    int (*detect)(struct rg_error *err);
    /* kept: what outlives a boot until the process ends, as connections that are made once; of this
     * way only, over all its boots in the process, NULL at first (rg_boot_keep). *ret_identity is
     * RG_BOOT_IDENTITY_INIT at first, and dropped on failure. */
    int (*open)(const struct rg_config *config, void **kept, uint64_t deadline_ns,
                void **ret_state, struct rg_boot_identity *ret_identity, struct rg_error *err);
    /* All ranks' blobs in order of rank; ret_blobs has room for size. The caller frees
     * ret_blobs[0].data. */
    int (*fence)(void *state, const void *blob, size_t nbytes, uint64_t deadline_ns,
                 struct rg_blob *ret_blobs, struct rg_error *err);
    int (*poll_fd)(void *state); /* readable when poll has something; -1: never */
    /* 1: rank *ret_rank died, text in err; 0: nothing; -EHOSTDOWN: the launcher is gone, and with
     * it the job, text in err; other -errno: the boot's own connection is lost. */
    int (*poll)(void *state, int *ret_rank, struct rg_error *err);
    /* As poll, while the ranks are being wired up and nobody has left: a boot may see more then.
     * -EHOSTDOWN: err's errnum is why there is no job any more. NULL: as poll. */
    int (*poll_start)(void *state, int *ret_rank, struct rg_error *err);
    void (*note)(void *state, int level, const char *text);
    void (*cut_off)(void *state, int rank);
    void (*numbers)(void *state, struct rg_numbers *numbers, int n); /* may change them */
    /* Elastic jobs: as rg_boot_elastic, rg_boot_update. */
    void (*elastic)(void *state, int failed);
    uint64_t (*update)(void *state, int *ret_result);
    bool (*where)(void *state); /* as rg_boot_asks_where */
    void (*close)(void *state, bool goodbye);
    void (*after_fork)(void *state);
    void (*leave)(void *kept); /* the process ends */
};

/* *kept, which is nbytes of zeros at first; NULL: there is no memory. */
void *rg_boot_keep(void **kept, size_t nbytes);
/* Some of the ranks as a world of their own (boot/comm.c): *boot becomes one of these n ranks, in
 * this order, over the boot it was, and is closed as one. Every rank of the job does so, with a
 * list that holds it; ranks with equal lists form one world. 0; -EINVAL (the lists do not fit
 * together, and which), or what a fence ends with: *boot is as it was. */
int rg_boot_comm(struct rg_boot **boot, const int *ranks, int n, uint64_t deadline_ns,
                 struct rg_error *err);

/* A boot of something that has been opened, or (_over) one that stands over another, whose way,
 * notes and descriptor are its own: state becomes the boot's, closed by ops->close. 0, or -ENOMEM
 * with state as it was. */
int rg_boot_make(const struct rg_boot_ops *ops, void *state,
                 const struct rg_boot_identity *identity, struct rg_boot **ret_boot);
int rg_boot_make_over(struct rg_boot *below, const struct rg_boot_ops *ops, void *state,
                      const struct rg_boot_identity *identity, struct rg_boot **ret_boot);
/* Hold this descriptor (place.h) until the boot is closed, or the process is a forked child. */
void rg_boot_hold(struct rg_boot *boot, int take_fd);
/* The way of being started, for its name and traits. */
const struct rg_boot_ops *rg_boot_way(const struct rg_boot *boot);
const struct rg_boot_identity *rg_boot_identity(const struct rg_boot *boot);
/* Wipe identity's key: who needs it has it. has_key stays. */
void rg_boot_forget_key(struct rg_boot *boot);
int rg_boot_fence(struct rg_boot *boot, const void *blob, size_t nbytes, uint64_t deadline_ns,
                  struct rg_blob *ret_blobs, struct rg_error *err);
int rg_boot_poll_fd(struct rg_boot *boot);
int rg_boot_poll(struct rg_boot *boot, int *ret_rank, struct rg_error *err);
int rg_boot_poll_start(struct rg_boot *boot, int *ret_rank, struct rg_error *err);
/* level 0: why this rank is about to fail, for the launcher's verdict; 1: for the user to see,
 * 2: the same, said for the whole job.
 * Never blocks for long; dropped where nobody listens (env boot: level 1 goes to stderr by the
 * caller). */
void rg_boot_note(struct rg_boot *boot, int level, const char *text);
/* What this rank was at ended because that rank died or left: if this rank fails now, that one
 * comes first. To be called before the operation's caller hears of its end. Never blocks for long;
 * any thread. */
void rg_boot_cut_off(struct rg_boot *boot, int rank);
/* What these n ranks have done, by their numbers in this boot; afterwards the array has no meaning.
 * Dropped where nobody listens, or not at the moment. Never blocks; any thread. */
void rg_boot_numbers(struct rg_boot *boot, struct rg_numbers *numbers, int n);
/* Tell the launcher of an elastic job that this program goes on with other ranks, by closing its
 * boot and opening another one; failed: the epoch ends by an error, so that its state is an older
 * one. Nothing in other jobs. Any thread. */
void rg_boot_elastic(struct rg_boot *boot, int failed);
/* Tell the launcher that this program wants to hear of the job's end before it comes. Whether there
 * is one that does so. Any thread. */
bool rg_boot_preemptible(struct rg_boot *boot);
/* Tell the launcher, which shows notes, that the job can never go on, and why: it ends the job. Any
 * thread. */
void rg_boot_deadlock(struct rg_boot *boot, const char *text);
/* What the launcher has said since the boot was opened: bits of enum reigen_update. Returns when it
 * spoke last of hosts, in ms of the wall clock; or 0. Never blocks; any thread; boot is polled by
 * others. */
uint64_t rg_boot_update(struct rg_boot *boot, int *ret_result);
/* The launcher has asked where this rank's program is, which rg_boot_tell_where answers; true once.
 * Never blocks; any thread; boot is polled by others. */
bool rg_boot_asks_where(struct rg_boot *boot);
/* text: as RG_NOTE_WHERE of wire/rankmsg.h has it. Any thread. */
void rg_boot_tell_where(struct rg_boot *boot, const char *text);
void rg_boot_close(struct rg_boot *boot, bool goodbye);
void rg_boot_after_fork(struct rg_boot *boot);

#endif
