/* SPDX-License-Identifier: Apache-2.0 */
/* Started by Reigen's agent: REIGEN_AGENT_SOCKET names its unix socket. */
#include <string.h>

#include "base/time.h"
#include "coll/boot/env/client.h"
#include "coll/boot/env/env.h"
#include "coll/boot/launchers.h"
#include "coll/net/sock.h"

#define RETRY_MS 20

struct agent {
    struct rg_client client; /* its address is the boot's state */
    uint32_t *generation; /* kept: fences of this rank's life are counted over every init */
};

/* A launcher under ours (torchrun or mpirun under reigen run) started this process: its numbers
 * count, the agent knows nothing of them. Those of a launcher around ours the agent has taken
 * away. */
static bool belongs_to_nested_launcher(void)
{
    int rank, size, inner_rank, inner_size;

    if (rg_launched_by_mpi())
        return true;

    if (!rg_var("MASTER_ADDR") ||
        rg_var_rank_size("RANK", "WORLD_SIZE", &inner_rank, &inner_size, NULL) != 1 ||
        rg_var_rank_size("REIGEN_RANK", "REIGEN_SIZE", &rank, &size, NULL) != 1)
        return false;
    return rank != inner_rank || size != inner_size;
}

static int detect(struct rg_error *err)
{
    (void) err;
    /* What an engine or a user's script has started finds the agent's socket too, but is no rank of
     * the agent's. */
    return rg_var("REIGEN_AGENT_SOCKET") && (rg_var("REIGEN_RANK") || rg_var("REIGEN_SIZE")) &&
           !belongs_to_nested_launcher();
}

static int read_token(uint8_t token[RG_RANK_TOKEN_NBYTES], struct rg_error *err)
{
    if (rg_rank_token_parse(rg_var("REIGEN_RANK_TOKEN"), token) < 0)
        return rg_error_set(err, EINVAL, "REIGEN_RANK_TOKEN is not %d hexadecimal digits: the "
                            "environment was changed after the agent made it",
                            2 * RG_RANK_TOKEN_NBYTES);
    return 0;
}

/* The agent listens before it starts ranks; only a full backlog makes a rank wait. */
static int connect_agent(const char *name, uint64_t deadline_ns, int *ret_fd, struct rg_error *err)
{
    rg_autoclose int fd = -1;
    uid_t uid;
    int r = rg_sock_connect_unix(name, &fd);

    while (r == -EAGAIN && rg_now_ns() < deadline_ns) {
        rg_sleep_ms(RETRY_MS);
        r = rg_sock_connect_unix(name, &fd);
    }
    if (r < 0)
        return rg_error_set(err, r == -ENOENT ? ECONNREFUSED : -r,
                            "REIGEN_AGENT_SOCKET=%s: %s; is the agent of this job still running, "
                            "and is this its container?", name, strerror(-r));
    r = rg_sock_peer(fd, &uid, NULL);
    if (r < 0)
        return rg_error_set(err, -r, "REIGEN_AGENT_SOCKET=%s: %s", name, strerror(-r));
    if (uid != geteuid() && uid != 0)
        return rg_error_set(err, EPERM, "REIGEN_AGENT_SOCKET=%s belongs to user %u, not to user "
                            "%u who runs this rank", name, (unsigned) uid, (unsigned) geteuid());
    *ret_fd = rg_steal_fd(&fd);
    return 0;
}

static void close_agent(void *state, bool goodbye)
{
    struct agent *agent = state;

    *agent->generation = agent->client.generation;
    rg_client_fini(&agent->client, goodbye);
    free(agent);
}

static int greet(struct rg_client *client, int take_fd, const uint8_t *token, uint64_t deadline_ns,
                 struct rg_boot_identity *identity, struct rg_error *err)
{
    int r = rg_client_hello(client, take_fd, NULL, "the agent", identity->rank, identity->size,
                            token, RG_RANK_TOKEN_NBYTES, deadline_ns, err);

    if (r == 0 && identity->size > 1 && !client->has_key)
        r = rg_error_set(err, EBADMSG, "the agent sent no key");
    if (r < 0)
        return rg_error_prepend(err, "rank %d", identity->rank);
    identity->has_key = client->has_key;
    memcpy(identity->key, client->key, sizeof(identity->key));
    explicit_bzero(client->key, sizeof(client->key));
    if (identity->local_size < 0 && client->local_size > 0)
        identity->local_size = client->local_size;
    return 0;
}

static int open_agent(const struct rg_config *config, void **kept, uint64_t deadline_ns,
                      void **ret_state, struct rg_boot_identity *ret_identity,
                      struct rg_error *err)
{
    uint32_t *generation = rg_boot_keep(kept, sizeof(*generation));
    uint8_t token[RG_RANK_TOKEN_NBYTES];
    int fd = -1, r = rg_var_identity("REIGEN", ret_identity, err);

    (void) config;
    if (r == 0)
        return rg_error_set(err, EINVAL,
                            "REIGEN_AGENT_SOCKET is set, but REIGEN_RANK and REIGEN_SIZE are not");
    if (r > 0)
        r = read_token(token, err);
    if (r == 0)
        r = connect_agent(rg_var("REIGEN_AGENT_SOCKET"), deadline_ns, &fd, err);
    if (r < 0)
        return r;
    struct agent *agent = generation ? calloc(1, sizeof(*agent)) : NULL;

    if (!agent) {
        close(fd);
        return rg_error_set(err, ENOMEM, "out of memory");
    }
    agent->generation = generation;
    agent->client.generation = *generation;
    r = greet(&agent->client, fd, token, deadline_ns, ret_identity, err);
    if (r < 0)
        close_agent(agent, false);
    else
        *ret_state = &agent->client;
    return r;
}

static const char *const place[] = { "REIGEN_AGENT_SOCKET", "REIGEN_RANK", NULL };

const struct rg_boot_ops rg_boot_agent = {
    .name = "agent",
    .variables = "REIGEN_AGENT_SOCKET, REIGEN_RANK and REIGEN_SIZE are",
    .place = place,
    .fences_alone = true,
    .shows_notes = true,
    .judges = true,
    .detect = detect,
    .open = open_agent,
    .fence = rg_client_fence,
    .poll_fd = rg_client_poll_fd,
    .poll = rg_client_poll,
    .note = rg_client_note,
    .cut_off = rg_client_cut_off,
    .close = close_agent,
    .after_fork = rg_client_after_fork,
};
