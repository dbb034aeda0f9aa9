/* SPDX-License-Identifier: Apache-2.0 */
/* What another leader sends for small allreduces: a result, or an error, and nothing kept. */
#include "fuzz.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coll/far/far.h"

static int ndone;

static void on_done(void *arg, struct rg_far_op *op)
{
    (void) arg, (void) op;
    ndone++;
}

static void on_early(void *arg, uint32_t id, uint32_t seq, uint8_t round)
{
    (void) arg, (void) round;
    must(id < RG_FAR_IDS_MAX && seq > 0);
}

static void receive(const uint8_t *data, size_t nbytes, uint8_t way)
{
    struct rg_team_peer peers[3] = { 0 };
    int ranks[3] = { 0, 1, 2 }, fds[2];
    struct rg_team team = { .nnodes = 3, .size = 3, .leaders = ranks, .peers = peers };
    struct rg_far_events events = { on_done, on_early, NULL };
    struct rg_error err = RG_ERROR_INIT;
    float in[4] = { 1, 2, 3, 4 }, out[4];
    struct rg_far_op op = { .id = 2, .seq = 5, .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM,
                            .count = 4, .in = in, .out = out, .scale = { 1.0, 1.0, 1 } };
    struct rg_far *far;
    bool moved = false;

    ndone = 0;
    must(rg_far_create(&team, &events, &far) == 0);
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    must(rg_far_adopt(far, 2, fds[0]) == 0);
    must(rg_far_expect(far, 2, 5, way) == 0 && rg_far_expect(far, 3, 1, way) == 0);
    must(rg_far_post(far, &op) == 0);
    must(nbytes == 0 || write(fds[1], data, nbytes) == (ssize_t) nbytes);
    int r = rg_far_progress(far, true, &moved, &err);

    must(r == 0 || (r == -EPROTO && err.text[0]));
    must(ndone <= 1);
    rg_far_destroy(far, 0);
    close(fds[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    for (uint8_t way = RG_DIRECT_DOUBLING; way < RG_NDIRECT_WAYS && nbytes <= 60000; way++)
        receive(data, nbytes, way);
    return 0;
}
