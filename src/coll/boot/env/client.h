/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's end of the boot, whoever serves: an agent, or rank 0 of a job started by RANK,
 * WORLD_SIZE and MASTER_ADDR. HELLO and WELCOME, in an elastic job MEET and EPOCH, then fences.
 * Messages are those of wire/rankmsg.h.
 *
 * Thread rule: one thread at a time, for which rg_boot locks. hello and fence block until their
 * deadline.
 */
#ifndef RG_COLL_BOOT_ENV_CLIENT_H
#define RG_COLL_BOOT_ENV_CLIENT_H

#include "coll/boot/boot.h"
#include "wire/conn.h"
#include "wire/rankmsg.h"

/* A fence's own server ends it at the deadline and says who is missing; so much longer do we wait
 * for that. */
#define RG_CLIENT_GRACE_MS 2000
#define RG_CLIENT_DEATHS_MAX 64
/* Of a rank whose connection to rank 0 ended, or rank 0 itself. */
#define RG_BOOT_DIED_TEXT "rank %d died while the job started: its connection was closed"

struct rg_client {
    struct rg_conn conn;
    const char *server;      /* "the agent", "rank 0": for messages; borrowed */
    int rank, size;          /* of an elastic job: its place and 0, until EPOCH has come */
    bool welcomed, failed, done;
    int local_size;          /* of WELCOME */
    bool seated;
    struct rg_rankmsg_epoch seat;     /* of EPOCH; its key is in key; zeros: the job is fixed */
    struct rg_rankmsg_update update;  /* the newest, or zeros */
    bool where;              /* the launcher asks where this rank is, and has no answer yet */
    uint8_t key[RG_KEY_NBYTES];
    bool has_key;
    uint32_t generation;     /* of the last fence that was complete, in this epoch */
    struct rg_buf blobs;     /* of the FENCE_DONEs that have come */
    struct rg_error failure; /* of FENCE_FAILED */
    int ndeaths, deaths_told;
    int dead_rank[RG_CLIENT_DEATHS_MAX]; /* of PEER_DIED; later ones are dropped */
    char *dead_text[RG_CLIENT_DEATHS_MAX];
};

/* What is done with frames, by type; fields NULL: none are expected. message is the decoded frame:
 * on takes out of it what it keeps, the rest is freed. */
struct rg_rank_handler {
    const struct rg_field *fields;
    int (*on)(void *arg, void *message);
};
/* 0 or what on returned; -EBADMSG: no frame that is expected; -ENOMEM. */
int rg_rank_dispatch(const struct rg_rank_handler *handlers, size_t nhandlers, void *arg,
                     uint16_t type, const uint8_t *payload, size_t nbytes);

/* Take fd and say HELLO with token (nbytes of it); wait for WELCOME. link_options: NULL for a plain
 * socket. size 0: the job is elastic, and rank the number of this rank's place. 0; -ETIMEDOUT;
 * -EBUSY (another process is this rank); -ECONNREFUSED (the server says why not, or hung up);
 * -EPERM; -EBADMSG; -ENOMEM. The client must be ended by rg_client_fini in every case. */
int rg_client_hello(struct rg_client *client, int take_fd,
                    const struct rg_link_options *link_options, const char *server, int rank,
                    int size, const void *token, size_t nbytes, uint64_t deadline_ns,
                    struct rg_error *err);
/* In an elastic job: wait, as long as it takes, until the next epoch has a seat for this rank.
 * knows: its program can go on with other ranks. epoch, failed: of MEET. 0, and who it is stands in
 * seat; -ECONNRESET: the agent went away; -EBADMSG; -ENOMEM. */
int rg_client_meet(struct rg_client *client, bool knows, uint32_t epoch, int failed,
                   struct rg_error *err);
/* Say that this rank's program can go on with other ranks. */
void rg_client_elastic(struct rg_client *client);
/* As in rg_boot_ops; state is a struct rg_client. A fence also ends with -ECONNRESET: a rank died,
 * or the server went away. */
int rg_client_fence(void *state, const void *blob, size_t nbytes, uint64_t deadline_ns,
                    struct rg_blob *ret_blobs, struct rg_error *err);
int rg_client_poll_fd(void *state);
int rg_client_poll(void *state, int *ret_rank, struct rg_error *err);
void rg_client_note(void *state, int level, const char *text);
void rg_client_cut_off(void *state, int rank);
void rg_client_numbers(void *state, struct rg_numbers *numbers, int n);
void rg_client_after_fork(void *state);
/* goodbye: tell the server first (at most a second). */
void rg_client_fini(struct rg_client *client, bool goodbye);

#endif
