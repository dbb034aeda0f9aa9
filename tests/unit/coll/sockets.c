/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/sockets.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "coll/net/listener.h"
#include "coll/net/sock.h"
#include "help/hang.h"
#include "help/limit.h"

struct world {
    int n;
    int (*fn)(struct place *place);
    char addresses[SOCKETS_MANY][RG_SOCK_ADDRESS_MAX];
    char *address_list[SOCKETS_MANY];
    struct rg_strv rails[SOCKETS_MANY];
    int leaders[SOCKETS_MANY], node_ranks[SOCKETS_MANY];
    struct rg_team_peer peers[SOCKETS_MANY];
    struct place places[SOCKETS_MANY];
};

int sockets_fail(const struct place *place, int line, const char *what)
{
    fprintf(stderr, "rank %d of %d, line %d: not so: %s\n", place->me, place->n, line, what);
    return 1;
}

static void *run_place(void *arg)
{
    struct place *place = arg;
    int (*fn)(struct place *) = ((struct world *) place->team.segment)->fn;

    place->team.segment = NULL;
    place->result = fn(place);
    return NULL;
}

static int make_place(struct world *world, int i, void *arg)
{
    struct place *place = &world->places[i];
    uint8_t *key = place->team.data_key = rg_key_hold(NULL);
    struct rg_listener_options listener = { .key = key, .rank = i, .size = world->n };
    struct rg_sockaddr address;
    uint16_t port;

    place->me = i;
    place->n = world->n;
    place->arg = arg;
    place->deadline_ns = rg_now_ns() + unit_limit_s(20) * RG_NS_PER_S;
    strcpy(place->config.planes, "tcp");
    place->config.fusion_nbytes = 1 << 20;
    place->config.model = rg_model_assumed;
    place->team.rank = place->team.node = i;
    place->team.size = place->team.nnodes = world->n;
    place->team.node_size = 1;
    place->team.node_ranks = &world->node_ranks[i];
    place->team.leaders = world->leaders;
    place->team.peers = world->peers;
    place->team.addresses = world->address_list;
    place->team.address = world->addresses[i];
    place->team.segment = world;
    memset(key, 7, RG_KEY_NBYTES);
    rg_sock_parse("127.0.0.1:0", &address);
    listener.nlisten = 1;
    if (rg_sock_listen_tcp(&address, &listener.listen_fds[0], &port) < 0)
        return 1;
    snprintf(world->addresses[i], RG_SOCK_ADDRESS_MAX, "127.0.0.1:%u", port);
    world->address_list[i] = world->addresses[i];
    world->leaders[i] = world->node_ranks[i] = i;
    world->peers[i] = (struct rg_team_peer) {
        .node = i, .pidfd = -1, .pid = sockets_seen ? getpid() : 0,
    };
    strcpy(world->peers[i].host, "here");
    place->team.nrails = 1 + sockets_rails;
    place->team.rails = world->rails;
    for (int rail = 1; rail <= sockets_rails; rail++) {
        char host[RG_SOCK_ADDRESS_MAX];

        snprintf(host, sizeof(host), "127.0.0.%d", 1 + rail);
        rg_sock_parse_host(host, &address);
        if (rg_sock_listen_tcp(&address, &listener.listen_fds[rail], &port) < 0)
            return 1;
        listener.nlisten++;
        if (sockets_claims)
            rg_strv_add(&world->rails[i], sockets_claims[i]);
        else
            rg_strv_addf(&world->rails[i], "%s:%u", host, port);
    }
    return rg_listener_create(&listener, &place->team.listener);
}

bool sockets_seen;
int sockets_rails;
const char *const *sockets_claims;

int sockets_run(int n, int (*fn)(struct place *place), void *arg)
{
    struct world *world = calloc(1, sizeof(*world));
    pthread_t threads[SOCKETS_MANY];
    int first = 0;

    hang_begin(unit_limit_s(SOCKETS_LIMIT_S), "ranks that are threads");
    world->n = n;
    world->fn = fn;
    for (int i = 0; i < n && first == 0; i++)
        first = make_place(world, i, arg);
    for (int i = 0; i < n && first == 0; i++)
        pthread_create(&threads[i], NULL, run_place, &world->places[i]);
    if (first == 0)
        for (int i = 0; i < n; i++)
            pthread_join(threads[i], NULL);
    for (int i = 0; i < n; i++) {
        rg_listener_destroy(world->places[i].team.listener);
        rg_key_drop(world->places[i].team.data_key);
        rg_strv_fini(&world->rails[i]);
        if (first == 0)
            first = world->places[i].result;
    }
    free(world);
    hang_end();
    return first;
}
