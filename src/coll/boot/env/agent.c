/* SPDX-License-Identifier: Apache-2.0 */
/* Started by Reigen's agent: REIGEN_AGENT_SOCKET names its unix socket. */
#include <limits.h>
#include <string.h>

#include "base/time.h"
#include "coll/boot/env/client.h"
#include "coll/boot/env/env.h"
#include "coll/boot/launchers.h"
#include "coll/net/sock.h"

#define RETRY_MS 20

/* Over every init of the process. */
struct kept {
    uint32_t generation; /* of the last fence in this epoch */
    uint32_t epoch;      /* the last one that this process was in; 0: none, or the job is fixed */
    bool knows;          /* the program has said that it can go on with other ranks */
    int failed;          /* that epoch: enum rg_meet_failed */
};

struct agent {
    struct rg_client client; /* its address is the boot's state */
    struct kept *kept;
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
    struct kept *kept = agent->kept;

    kept->generation = agent->client.generation;
    if (!kept->failed && (!goodbye || agent->client.ndeaths > 0))
        kept->failed = RG_MEET_FAILED;
    rg_client_fini(&agent->client, goodbye);
    free(agent);
}

/* Who this rank is in the epoch that begins. */
static void take_seat(struct agent *agent, struct rg_boot_identity *identity)
{
    const struct rg_rankmsg_epoch *seat = &agent->client.seat;
    struct kept *kept = agent->kept;

    identity->rank = agent->client.rank;
    identity->size = agent->client.size;
    identity->local_rank = (int) seat->local_rank;
    identity->local_size = (int) seat->local_size;
    identity->cross_rank = (int) seat->cross_rank;
    identity->cross_size = (int) seat->cross_size;
    identity->epoch = seat->epoch;
    identity->sync = seat->sync;
    agent->client.generation = seat->epoch == kept->epoch ? kept->generation : 0;
    kept->epoch = seat->epoch;
    kept->failed = RG_MEET_FINE;
}

/* identity: what the environment says; size 0: of an elastic job, and rank is a place. */
static int greet(struct agent *agent, int take_fd, const uint8_t *token, uint64_t deadline_ns,
                 struct rg_boot_identity *identity, struct rg_error *err)
{
    struct rg_client *client = &agent->client;
    const struct kept *kept = agent->kept;
    bool elastic = identity->size == 0;
    int r = rg_client_hello(client, take_fd, NULL, "the agent", identity->rank, identity->size,
                            token, RG_RANK_TOKEN_NBYTES, deadline_ns, err);

    if (r == 0 && elastic)
        r = rg_client_meet(client, kept->knows, kept->epoch, kept->failed, err);
    if (r == 0 && client->size > 1 && !client->has_key)
        r = rg_error_set(err, EBADMSG, "the agent sent no key");
    if (r < 0)
        return rg_error_prepend(err, elastic ? "place %d" : "rank %d", identity->rank);
    if (elastic)
        take_seat(agent, identity);
    identity->has_key = client->has_key;
    memcpy(identity->key, client->key, sizeof(identity->key));
    explicit_bzero(client->key, sizeof(client->key));
    if (identity->local_size < 0 && client->local_size > 0)
        identity->local_size = client->local_size;
    return 0;
}

/* Of a fixed job: who this rank is. Of an elastic one: its place, and size 0. */
static int read_identity(struct rg_boot_identity *identity, struct rg_error *err)
{
    int64_t elastic = 0, place = 0;
    int r = rg_var_int("REIGEN_ELASTIC", 0, 1, &elastic, err);

    if (r < 0)
        return r;
    if (elastic) {
        r = rg_var_int("REIGEN_PLACE", 0, INT_MAX, &place, err);
        identity->rank = (int) place;
        identity->size = 0;
    } else
        r = rg_var_identity("REIGEN", identity, err);
    if (r == 0)
        return rg_error_set(err, EINVAL, "REIGEN_AGENT_SOCKET is set, but %s not",
                            elastic ? "REIGEN_PLACE is" : "REIGEN_RANK and REIGEN_SIZE are");
    return r < 0 ? r : 0;
}

static void say_elastic(void *state, int failed)
{
    struct agent *agent = state;
    struct kept *kept = agent->kept;

    if (failed > kept->failed)
        kept->failed = failed;
    if (!kept->knows)
        rg_client_elastic(&agent->client);
    kept->knows = true;
}

static uint64_t newest_update(void *state, int *ret_result)
{
    struct agent *agent = state;

    *ret_result = (int) agent->client.update.result;
    return agent->client.update.stamp;
}

static bool is_asked_where(void *state)
{
    struct agent *agent = state;
    bool asked = agent->client.where;

    agent->client.where = false;
    return asked;
}

static int open_agent(const struct rg_config *config, void **kept, uint64_t deadline_ns,
                      void **ret_state, struct rg_boot_identity *ret_identity,
                      struct rg_error *err)
{
    struct kept *over_all = rg_boot_keep(kept, sizeof(*over_all));
    uint8_t token[RG_RANK_TOKEN_NBYTES];
    int fd = -1, r = read_identity(ret_identity, err);

    (void) config;
    if (r == 0)
        r = read_token(token, err);
    if (r == 0)
        r = connect_agent(rg_var("REIGEN_AGENT_SOCKET"), deadline_ns, &fd, err);
    if (r < 0)
        return r;
    struct agent *agent = over_all ? calloc(1, sizeof(*agent)) : NULL;

    if (!agent) {
        close(fd);
        return rg_error_set(err, ENOMEM, "out of memory");
    }
    agent->kept = over_all;
    agent->client.generation = over_all->generation;
    r = greet(agent, fd, token, deadline_ns, ret_identity, err);
    if (r < 0)
        close_agent(agent, false);
    else
        *ret_state = &agent->client;
    return r;
}

/* The token, as the rank's number is another one in each epoch. */
static const char *const place[] = { "REIGEN_AGENT_SOCKET", "REIGEN_RANK_TOKEN", NULL };

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
    .numbers = rg_client_numbers,
    .elastic = say_elastic,
    .update = newest_update,
    .where = is_asked_where,
    .close = close_agent,
    .after_fork = rg_client_after_fork,
};
