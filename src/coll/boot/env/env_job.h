/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and their companions say of the job, and where
 * its ranks meet.
 *
 * Thread rule: the thread in reigen_init. rg_env_resolve may block as long as the resolver does.
 */
#ifndef RG_COLL_BOOT_ENV_ENV_JOB_H
#define RG_COLL_BOOT_ENV_ENV_JOB_H

#include "coll/boot/boot.h"
#include "coll/net/sock.h"

#define RG_ENV_PORTS 16          /* tried in turn: MASTER_PORT + 1 and those that follow */
#define RG_ENV_ADDRESSES_MAX 4   /* of MASTER_ADDR */
#define RG_ENV_NAME_MAX 64
#define RG_ENV_FACTS_NBYTES 32
#define RG_ENV_LINK_JOB "env"    /* the link's job id; the facts travel inside it */

enum rg_trust {
    RG_TRUST_USER, /* processes of one user on one host: unix socket, peer credentials */
    RG_TRUST_KEY,  /* REIGEN_KEY_FILE */
    RG_TRUST_NONE, /* REIGEN_INSECURE=1: a key that anyone can derive */
};

struct rg_env_job {
    struct rg_boot_identity me;  /* its key: of the data, once it is known */
    char master[256];            /* MASTER_ADDR */
    const char *master_name;     /* "MASTER_ADDR": who said so */
    int first_port, nports;
    enum rg_trust trust;
    int naddresses;              /* 0 until resolved */
    struct rg_sockaddr addresses[RG_ENV_ADDRESSES_MAX];
    /* SHA-256 over what all ranks of one job must have in common: size, MASTER_ADDR, ports, job
     * ids. Jobs that meet on a port tell each other apart by it. */
    uint8_t facts[RG_ENV_FACTS_NBYTES];
    uint8_t link_key[RG_KEY_NBYTES];
};

/* 0 or -EINVAL naming the variable. MASTER_ADDR and a port are needed from two ranks on. */
int rg_env_read_job(const struct rg_config *config, struct rg_env_job *ret_job,
                    struct rg_error *err);
/* Bring first_port and nports into the range that ranks may listen in, where there is one. */
void rg_env_fit_ports(const struct rg_ports *ports, struct rg_env_job *job);
/* Fill addresses. 0; -EHOSTUNREACH when the name has no address (now). */
int rg_env_resolve(struct rg_env_job *job, struct rg_error *err);
/* 0 when nothing speaks against all ranks being on this host; -EPERM with the remedy. Resolves. */
int rg_env_check_one_host(struct rg_env_job *job, struct rg_error *err);
/* "@reigen-1000-29501" */
void rg_env_socket_name(uint16_t port, char ret_name[RG_ENV_NAME_MAX]);
/* Where rank 0 listens: at MASTER_ADDR if it is this host's and others can reach it, or if it says
 * loopback; else, as behind a service's address, everywhere. */
void rg_env_listen_address(const struct rg_env_job *job, uint16_t port,
                           struct rg_sockaddr *ret_address);

#endif
