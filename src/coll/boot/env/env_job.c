/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a job out of the environment, apart from meeting in it: wrong ones are named here. */
#include "coll/boot/env/env_job.h"

#include <netdb.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "coll/boot/launchers.h"

#define PORT_MAX 65535

/* Variables in which ranks of one job agree and two jobs may differ. */
static const char *const job_facts[] = { "MASTER_ADDR", "MASTER_PORT", "REIGEN_JOB_ID",
                                         "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT" };

static void hash_facts(struct rg_env_job *job)
{
    crypto_hash_sha256_state state;
    char size[16];

    snprintf(size, sizeof(size), "%d", job->me.size);
    crypto_hash_sha256_init(&state);
    crypto_hash_sha256_update(&state, (const uint8_t *) size, strlen(size) + 1);
    for (size_t i = 0; i < rg_array_len(job_facts); i++) {
        const char *text = rg_var(job_facts[i]);

        text = text ? text : "";
        crypto_hash_sha256_update(&state, (const uint8_t *) text, strlen(text) + 1);
    }
    crypto_hash_sha256_final(&state, job->facts);
}

static int read_identity(struct rg_boot_identity *me, bool *ret_torch, struct rg_error *err)
{
    int r = rg_var_rank_size("RANK", "WORLD_SIZE", &me->rank, &me->size, err);

    *ret_torch = r == 1;
    if (r == 0)
        r = rg_var_identity("REIGEN", me, err);
    if (r >= 0 && *ret_torch)
        r = rg_var_optional("LOCAL_WORLD_SIZE", 1, me->size, &me->local_size, err);
    if (r >= 0 && *ret_torch)
        r = rg_var_optional("LOCAL_RANK", 0, me->size - 1, &me->local_rank, err);
    if (r >= 0 && me->local_size > 0 && me->local_rank >= me->local_size)
        r = rg_error_set(err, EINVAL, "LOCAL_RANK=%d: with LOCAL_WORLD_SIZE=%d local ranks are 0 "
                         "to %d", me->local_rank, me->local_size, me->local_size - 1);
    return r < 0 ? r : 0;
}

/* Every rank comes to the same ports, since each knows MASTER_PORT and the range. */
void rg_env_fit_ports(const struct rg_ports *ports, struct rg_env_job *job)
{
    int count = rg_ports_count(ports);

    if (!ports->first)
        return;
    if (job->nports > count)
        job->nports = count;
    if (job->first_port < ports->first || job->first_port + job->nports - 1 > ports->last)
        job->first_port = ports->first + job->first_port % (count - job->nports + 1);
}

static int read_ports(const struct rg_config *config, struct rg_env_job *job, struct rg_error *err)
{
    int64_t port = 0;
    int r = 0;

    job->nports = 1;
    job->first_port = config->master_port;
    if (config->master_port == 0) {
        r = rg_var_int("MASTER_PORT", 1, PORT_MAX - 1, &port, err);
        if (r == 0)
            return rg_error_set(err, EINVAL, "MASTER_PORT is not set (nor REIGEN_MASTER_PORT): "
                                "ranks cannot find each other");
        job->first_port = (int) port + 1;
        job->nports = RG_ENV_PORTS;
        rg_env_fit_ports(&config->ports, job);
        if (job->first_port + job->nports - 1 > PORT_MAX)
            job->nports = PORT_MAX - job->first_port + 1;
    }
    return r < 0 ? r : 0;
}

int rg_env_read_job(const struct rg_config *config, struct rg_env_job *ret_job,
                    struct rg_error *err)
{
    struct rg_env_job job = { .me = RG_BOOT_IDENTITY_INIT, .master_name = "MASTER_ADDR" };
    const char *master = rg_var("MASTER_ADDR");
    bool torch;
    int r = read_identity(&job.me, &torch, err);

    if (r == 0 && job.me.size > 1 && !master)
        r = rg_error_set(err, EINVAL, "there are %d ranks (%s), but MASTER_ADDR is not set: ranks "
                         "cannot find each other", job.me.size,
                         torch ? "WORLD_SIZE" : "REIGEN_SIZE");
    if (r == 0 && master && strlen(master) >= sizeof(job.master))
        r = rg_error_set(err, EINVAL, "MASTER_ADDR is longer than a host name can be");
    if (r == 0 && job.me.size > 1)
        r = read_ports(config, &job, err);
    if (r < 0)
        return r;
    if (sodium_init() < 0)
        return rg_error_set(err, ENOSYS, "libsodium cannot start");
    strcpy(job.master, master ? master : "");
    hash_facts(&job);
    *ret_job = job;
    return 0;
}

static void add_address(struct rg_env_job *job, const struct sockaddr *sa, socklen_t nbytes)
{
    struct rg_sockaddr *to = &job->addresses[job->naddresses];

    if (job->naddresses == RG_ENV_ADDRESSES_MAX || nbytes > sizeof(to->in6) ||
        (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
        return;
    memset(to, 0, sizeof(*to));
    memcpy(&to->sa, sa, nbytes);
    to->nbytes = nbytes;
    job->naddresses++;
}

int rg_env_resolve(struct rg_env_job *job, struct rg_error *err)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *list = NULL;
    struct rg_sockaddr loopback;
    int r = getaddrinfo(job->master, NULL, &hints, &list);

    job->naddresses = 0;
    for (struct addrinfo *i = list; r == 0 && i; i = i->ai_next)
        add_address(job, i->ai_addr, i->ai_addrlen);
    if (list)
        freeaddrinfo(list);
    /* An image without /etc/hosts. */
    if (job->naddresses == 0 && strcmp(job->master, "localhost") == 0 &&
        rg_sock_parse("127.0.0.1:0", &loopback) == 0)
        job->addresses[job->naddresses++] = loopback;
    if (job->naddresses == 0)
        return rg_error_set(err, EHOSTUNREACH, "%s=%s: %s", job->master_name, job->master,
                            r == EAI_SYSTEM ? strerror(errno) : r ? gai_strerror(r)
                                                                  : "it has no address");
    return 0;
}

int rg_env_check_one_host(struct rg_env_job *job, struct rg_error *err)
{
    const char *remedy = "give all ranks one key (a file of 64 hexadecimal digits, mode 600, named "
                         "by REIGEN_KEY_FILE), or set REIGEN_INSECURE=1 on all to do without";

    if (job->me.local_size > 0 && job->me.local_size < job->me.size)
        return rg_error_set_exit(err, EPERM, 77, "the job has several hosts (%d of %d ranks are "
                                 "on this one) and no key: %s", job->me.local_size, job->me.size,
                                 remedy);
    int r = rg_env_resolve(job, err);

    if (r < 0)
        return r;
    for (int i = 0; i < job->naddresses; i++)
        if (rg_sock_is_local(&job->addresses[i]))
            return 0;
    return rg_error_set_exit(err, EPERM, 77, "the job has several hosts (%s=%s is not this "
                             "one) and no key: %s", job->master_name, job->master, remedy);
}

void rg_env_socket_name(uint16_t port, char ret_name[RG_ENV_NAME_MAX])
{
    snprintf(ret_name, RG_ENV_NAME_MAX, "@reigen-%u-%u", (unsigned) geteuid(), port);
}

static bool says_loopback(const char *master)
{
    return strncmp(master, "127.", 4) == 0 || strcmp(master, "::1") == 0 ||
           strcmp(master, "localhost") == 0;
}

void rg_env_listen_address(const struct rg_env_job *job, uint16_t port,
                           struct rg_sockaddr *ret_address)
{
    struct rg_env_job copy = *job;
    struct rg_sockaddr any;
    bool resolved = rg_env_resolve(&copy, NULL) == 0;
    const struct rg_sockaddr *first = &copy.addresses[0];

    /* A host's own name often means 127.0.1.1 at home and another address elsewhere. */
    if (resolved && rg_sock_is_local(first) &&
        (!rg_sock_is_loopback(first) || says_loopback(job->master)))
        any = *first;
    else
        rg_sock_parse(resolved && first->sa.sa_family == AF_INET6 ? "[::]:0" : "0.0.0.0:0", &any);
    rg_sock_set_port(&any, port);
    explicit_bzero(&copy, sizeof(copy));
    *ret_address = any;
}
