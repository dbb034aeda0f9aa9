/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Started by anything that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (torchrun's names):
 * rank 0 serves.
 *
 * Who may come: with a key (REIGEN_KEY_FILE) whoever has it, over TCP inside a Noise link; without
 * one, the processes of this user that see the same files and processes as we do, over an abstract
 * unix socket of which both sides check the peer (peer.h). docs/protocol.md, "Boot by RANK".
 *
 * While the ranks are wired up a connection that closes is a death, of which rank 0 tells the
 * others. Later this boot sees nothing, and rank 0 has no thread here.
 */
#include "coll/boot/env/env.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/time.h"
#include "coll/boot/env/client.h"
#include "coll/boot/env/env_job.h"
#include "coll/boot/launchers.h"
#include "coll/net/peer.h"
#include "coll/boot/env/server.h"
#include "coll/ground/report.h"

#define ATTEMPT_MS 1000
#define ATTEMPT_MAX_MS 10000
#define PAUSE_MIN_MS 5
#define PAUSE_MAX_MS 200
#define KEY_FILE_MAX 4096

struct env {
    struct rg_env_job job;
    struct rg_server *server;  /* rank 0 of several */
    struct rg_client client;   /* another rank */
    uint64_t silence_ms;
    uint64_t lost_ns;          /* when rank 0, or who was in its place, hung up last */
    bool refusal_told;
    int cut_by;                /* the rank for which this one fails, or -1 */
};

static int detect(struct rg_error *err)
{
    int rank, size;
    int r = rg_var_rank_size("RANK", "WORLD_SIZE", &rank, &size, err);

    if (r == 0)
        r = rg_var_rank_size("REIGEN_RANK", "REIGEN_SIZE", &rank, &size, err);
    return r;
}

int rg_env_read_key(const char *path, uint8_t key[RG_KEY_NBYTES], struct rg_error *err)
{
    rg_autofree char *text = NULL;
    size_t nbytes;
    struct stat st;

    if (stat(path, &st) < 0)
        return rg_error_set(err, errno, "REIGEN_KEY_FILE=%s: %s", path, strerror(errno));
    if ((st.st_mode & 077) != 0)
        return rg_error_set_exit(err, EPERM, 77, "REIGEN_KEY_FILE=%s can be read by others (mode "
                                 "%03o): chmod 600 %s", path, (unsigned) st.st_mode & 0777, path);
    int r = rg_read_trusted("REIGEN_KEY_FILE", path, RG_TRUST_SECRET, KEY_FILE_MAX, &text, &nbytes,
                            err);

    if (r < 0) {
        if (err)
            err->exit_code = r == -EPERM ? 77 : 0;
        return r;
    }
    r = rg_key_parse(text, key);
    explicit_bzero(text, nbytes);
    if (r < 0)
        return rg_error_set(err, EINVAL, "REIGEN_KEY_FILE=%s does not hold 64 hexadecimal digits; "
                            "make one with: openssl rand -hex 32", path);
    return 0;
}

/* Which way ranks meet, and with what key. */
static int choose_trust(const struct rg_config *config, struct rg_env_job *job,
                        struct rg_error *err)
{
    uint8_t key[RG_KEY_NBYTES] = { 0 };
    int r;

    job->trust = config->key_file[0] ? RG_TRUST_KEY
                 : config->insecure  ? RG_TRUST_NONE
                                     : RG_TRUST_USER;
    if (job->trust == RG_TRUST_USER)
        return rg_env_check_one_host(job, err);
    r = job->trust == RG_TRUST_KEY ? rg_env_read_key(config->key_file, key, err) : 0;
    if (r < 0)
        return r;
    if (job->trust == RG_TRUST_NONE)
        memcpy(key, job->facts, RG_KEY_NBYTES);
    rg_key_derive(key, "boot", job->link_key);
    rg_key_derive(key, "data", job->me.key);
    explicit_bzero(key, sizeof(key));
    return 0;
}

static int listen_at(const struct rg_env_job *job, uint16_t port, int *ret_fd)
{
    struct rg_sockaddr address;
    char name[RG_ENV_NAME_MAX];
    uint16_t bound;

    if (job->trust == RG_TRUST_USER) {
        rg_env_socket_name(port, name);
        return rg_sock_listen_unix(name, ret_fd);
    }
    rg_env_listen_address(job, port, &address);
    return rg_sock_listen_tcp(&address, ret_fd, &bound);
}

/* A name in the abstract name space can be taken by anybody, for whatever user it is named. */
static const char *name_holder(uint16_t port, struct rg_error *ret_holder)
{
    char name[RG_ENV_NAME_MAX];
    rg_autoclose int fd = -1;

    rg_env_socket_name(port, name);
    if (rg_sock_connect_unix(name, &fd) < 0)
        return "a process that does not answer";
    return rg_peer_check(fd, ret_holder) < 0 ? ret_holder->text : "another job of yours";
}

static int no_place(const struct rg_env_job *job, int r, struct rg_error *err)
{
    struct rg_error holder = RG_ERROR_INIT;
    int last_port = job->first_port + job->nports - 1;

    if (job->trust != RG_TRUST_USER || r != -EADDRINUSE)
        return rg_error_set(err, -r, "no port for the ranks to meet: ports %d-%d: %s",
                            job->first_port, last_port, strerror(-r));
    return rg_error_set(err, EADDRINUSE, "no place for the ranks to meet: the abstract unix "
                        "sockets @reigen-%u-%d to %d are taken, the first by %s; choose another "
                        "MASTER_PORT, or give all ranks a REIGEN_KEY_FILE",
                        (unsigned) geteuid(), job->first_port, last_port,
                        name_holder((uint16_t) job->first_port, &holder));
}

static int serve(struct env *env, struct rg_error *err)
{
    struct rg_env_job *job = &env->job;
    int fd = -1, r = -EADDRINUSE;

    for (int i = 0; i < job->nports && r < 0; i++)
        r = listen_at(job, (uint16_t) (job->first_port + i), &fd);
    if (r < 0)
        return no_place(job, r, err);
    r = job->trust == RG_TRUST_USER ? rg_key_generate(job->me.key) : 0;
    if (r < 0) {
        close(fd);
        return rg_error_set(err, -r, "no randomness for a key: %s", strerror(-r));
    }
    r = rg_server_create(job, fd, &env->server);
    return r < 0 ? rg_error_set(err, -r, "%s", strerror(-r)) : 0;
}

/* Is rank 0 behind this socket, as far as can be seen? The first that is not is worth a word, as
 * the search may go on for minutes. */
static int check_holder(struct env *env, int fd, const char *name, struct rg_error *cause)
{
    struct rg_error holder = RG_ERROR_INIT;
    int r = rg_peer_check(fd, &holder);

    if (r == 0)
        return 0;
    if (!env->refusal_told && r != -ESRCH)
        rg_report(RG_LOG_WARN, "%s, where the ranks meet, is held by %s; if it is rank 0, give all "
                  "ranks a REIGEN_KEY_FILE", name, holder.text);
    env->refusal_told |= r != -ESRCH;
    return rg_error_set(cause, -r, "held by %s", holder.text);
}

/* One try at one place: 0 welcomed; -errno with cause otherwise. */
static int try_place(struct env *env, const struct rg_sockaddr *address, const char *name,
                     uint64_t deadline_ns, struct rg_error *cause)
{
    struct rg_env_job *job = &env->job;
    struct rg_link_options link = { .key = job->link_key, .job_id = RG_ENV_LINK_JOB,
                                    .role = "rank", .initiator = true };
    int fd, r;

    r = address ? rg_sock_reach_tcp(address, deadline_ns, &fd) : rg_sock_connect_unix(name, &fd);
    if (r < 0)
        return rg_error_set(cause, -r, "%s", strerror(-r));
    if (!address && (r = check_holder(env, fd, name, cause)) < 0) {
        close(fd);
        return r;
    }
    r = rg_client_hello(&env->client, fd, address ? &link : NULL, "rank 0", job->me.rank,
                        job->me.size, job->facts, sizeof(job->facts), deadline_ns, cause);
    if (r == 0 && !address && !env->client.has_key)
        r = rg_error_set(cause, EBADMSG, "rank 0 sent no key");
    /* Rank 0 must not take an attempt that was given up for a death. */
    if (r < 0)
        rg_client_fini(&env->client, r == -ETIMEDOUT);
    return r;
}

/* Every address and port once. *worst keeps the most telling failure: anything beats a refused
 * connection. -ECONNREFUSED, or -ESHUTDOWN: this is the place, and the start has failed. */
static int sweep(struct env *env, unsigned attempt_ms, uint64_t deadline_ns,
                 struct rg_error *worst)
{
    struct rg_env_job *job = &env->job;
    bool is_unix = job->trust == RG_TRUST_USER;
    int naddresses = is_unix ? 1 : job->naddresses;

    for (int i = 0; i < naddresses * job->nports; i++) {
        uint16_t port = (uint16_t) (job->first_port + i % job->nports);
        char name[RG_ENV_NAME_MAX], text[RG_SOCK_ADDRESS_MAX];
        struct rg_sockaddr address;
        struct rg_error cause = RG_ERROR_INIT;
        uint64_t until_ns = rg_now_ns() + attempt_ms * RG_NS_PER_MS;

        rg_env_socket_name(port, name);
        if (!is_unix) {
            address = job->addresses[i / job->nports];
            rg_sock_set_port(&address, port);
            rg_sock_format(&address, text);
        }
        int r = try_place(env, is_unix ? NULL : &address, name,
                          until_ns < deadline_ns ? until_ns : deadline_ns, &cause);

        if (r == 0)
            return 0;
        if (env->client.welcomed && env->client.failed) {
            *worst = cause;
            return -ESHUTDOWN;
        }
        if ((r == -ECONNRESET || r == -EPIPE) && !env->client.failed)
            env->lost_ns = rg_now_ns();
        if (r != -ECONNREFUSED || worst->errnum == 0) {
            *worst = cause;
            rg_error_prepend(worst, "%s", is_unix ? name : text);
        }
        if (rg_now_ns() >= deadline_ns)
            break;
    }
    return -ECONNREFUSED;
}

/* Rank 0 may start later, its name may not resolve yet, its port may be the second or the
 * sixteenth. */
static int find_server(struct env *env, uint64_t deadline_ns, struct rg_error *err)
{
    struct rg_env_job *job = &env->job;
    struct rg_error worst = RG_ERROR_INIT;
    unsigned attempt_ms = ATTEMPT_MS, pause_ms = PAUSE_MIN_MS;
    uint64_t began_ns = rg_now_ns();

    while (rg_now_ns() < deadline_ns) {
        int r = 0;

        if (job->naddresses == 0 && rg_env_resolve(job, &worst) < 0)
            pause_ms = PAUSE_MAX_MS;
        else if ((r = sweep(env, attempt_ms, deadline_ns, &worst)) == 0)
            return 0;
        if (r == -ESHUTDOWN)
            return rg_error_set(err, worst.errnum, "%s", worst.text);
        if (env->lost_ns && rg_now_ns() > env->lost_ns + env->silence_ms * RG_NS_PER_MS)
            return rg_error_set(err, ECONNRESET, RG_BOOT_DIED_TEXT " (%s), and nobody answers "
                                "since", 0, worst.text);
        attempt_ms = attempt_ms * 2 < ATTEMPT_MAX_MS ? attempt_ms * 2 : ATTEMPT_MAX_MS;
        rg_sleep_ms(pause_ms);
        pause_ms = pause_ms * 3 / 2 < PAUSE_MAX_MS ? pause_ms * 3 / 2 : PAUSE_MAX_MS;
    }
    uint64_t waited_ms = (rg_now_ns() - began_ns) / RG_NS_PER_MS;

    return rg_error_set_exit(err, ETIMEDOUT, 124, "rank %d: rank 0 did not answer at %s=%s, "
                             "ports %d-%d, within %.*f s (%s)", job->me.rank, job->master_name,
                             job->master, job->first_port, job->first_port + job->nports - 1,
                             waited_ms < 10000, (double) waited_ms / 1000, worst.text);
}

void rg_env_close(void *state, bool goodbye)
{
    struct env *env = state;

    rg_server_destroy(env->server);
    rg_client_fini(&env->client, goodbye);
    explicit_bzero(&env->job, sizeof(env->job));
    free(env);
}

static void tell_identity(const struct rg_env_job *job, struct rg_boot_identity *identity)
{
    *identity = job->me;
    identity->has_key = job->me.size > 1;
    identity->one_host = job->me.size == 1 || job->trust == RG_TRUST_USER;
    if (job->trust == RG_TRUST_NONE && job->me.rank == 0 && job->me.size > 1)
        snprintf(identity->warning, sizeof(identity->warning), "REIGEN_INSECURE=1: whoever can "
                 "reach this network can join the job and read or change its data; a "
                 "REIGEN_KEY_FILE prevents it");
}

int rg_env_meet(const struct rg_config *config, const struct rg_env_job *job, uint64_t deadline_ns,
                void **ret_state, struct rg_boot_identity *ret_identity, struct rg_error *err)
{
    struct env *env = calloc(1, sizeof(*env));
    int r = 0;

    if (!env)
        return rg_error_set(err, ENOMEM, "out of memory");
    env->client.conn.fd = env->cut_by = -1;
    env->job = *job;
    env->silence_ms = config->silence_ms;
    if (env->job.me.size > 1)
        r = choose_trust(config, &env->job, err);
    if (r == 0 && env->job.me.size > 1)
        r = env->job.me.rank == 0 ? serve(env, err) : find_server(env, deadline_ns, err);
    if (r < 0) {
        rg_env_close(env, false);
        return r;
    }
    if (env->client.has_key)
        memcpy(env->job.me.key, env->client.key, RG_KEY_NBYTES);
    tell_identity(&env->job, ret_identity);
    explicit_bzero(env->client.key, sizeof(env->client.key));
    explicit_bzero(env->job.link_key, sizeof(env->job.link_key));
    explicit_bzero(env->job.me.key, sizeof(env->job.me.key));
    *ret_state = env;
    return 0;
}

static int open_env(const struct rg_config *config, void **kept, uint64_t deadline_ns,
                    void **ret_state, struct rg_boot_identity *ret_identity, struct rg_error *err)
{
    struct rg_env_job job;
    int r = rg_env_read_job(config, &job, err);

    (void) kept;
    return r < 0 ? r : rg_env_meet(config, &job, deadline_ns, ret_state, ret_identity, err);
}

int rg_env_fence(void *state, const void *blob, size_t nbytes, uint64_t deadline_ns,
                 struct rg_blob *ret_blobs, struct rg_error *err)
{
    struct env *env = state;

    if (env->server)
        return rg_server_fence(env->server, blob, nbytes, deadline_ns, ret_blobs, err);
    int r = rg_client_fence(&env->client, blob, nbytes, deadline_ns, ret_blobs, err);

    /* Neither rank 0 nor a rank it knows of said why. */
    if (r == -ECONNRESET && !env->client.failed && env->client.ndeaths == env->client.deaths_told)
        rg_error_set(err, ECONNRESET, RG_BOOT_DIED_TEXT, 0);
    return r;
}

int rg_env_poll_start(void *state, int *ret_rank, struct rg_error *err)
{
    struct env *env = state;

    if (env->job.me.size == 1)
        return 0;
    if (env->server)
        return rg_server_poll(env->server, ret_rank, err);
    int r = rg_client_poll(&env->client, ret_rank, err);

    if (r == 0 && !env->client.failed)
        return 0;
    if (r != 1) {
        *ret_rank = 0;
        if (env->client.failed)
            rg_error_set(err, ECONNRESET, "%s", env->client.failure.text);
        else
            rg_error_set(err, ECONNRESET, RG_BOOT_DIED_TEXT, 0);
    }
    return 1;
}

void rg_env_note(void *state, int level, const char *text)
{
    struct env *env = state;
    bool of_other = env->cut_by >= 0;

    if (level != 0 || env->job.me.size == 1)
        return;
    if (env->server) {
        rg_server_tell(env->server, of_other, text);
        return;
    }
    if (of_other)
        rg_client_cut_off(&env->client, env->cut_by);
    rg_client_note(&env->client, level, text);
}

void rg_env_cut_off(void *state, int rank)
{
    struct env *env = state;

    env->cut_by = rank;
}

void rg_env_after_fork(void *state)
{
    struct env *env = state;

    if (env->server)
        rg_server_after_fork(env->server);
    rg_client_after_fork(&env->client);
}

static const char *const place[] = { "RANK",        "WORLD_SIZE",  "MASTER_ADDR",   "MASTER_PORT",
                                     "REIGEN_RANK", "REIGEN_SIZE", "REIGEN_JOB_ID", NULL };

const struct rg_boot_ops rg_boot_env = {
    .name = "env",
    .variables = "RANK and WORLD_SIZE are",
    .place = place,
    .detect = detect,
    .open = open_env,
    .fence = rg_env_fence,
    .poll_start = rg_env_poll_start,
    .note = rg_env_note,
    .cut_off = rg_env_cut_off,
    .close = rg_env_close,
    .after_fork = rg_env_after_fork,
};
