/* SPDX-License-Identifier: Apache-2.0 */
/* Which algorithm an operation of the tcp plane takes: the model's, or the one that is wanted. */
#include "coll/planes/tcp/tcp_way.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/time.h"
#include "coll/ground/blob.h"
#include "coll/ground/config.h"
#include "coll/net/sock.h"
#include "coll/planes/common.h"
#include "coll/planes/planes.h"
#include "coll/reduce/reduce.h"
#include "coll/team/team.h"

_Static_assert((int) RG_MODEL_ALLREDUCE == (int) RG_COLL_ALLREDUCE &&
               (int) RG_MODEL_REDUCE == (int) RG_COLL_REDUCE &&
               (int) RG_MODEL_BROADCAST == (int) RG_COLL_BROADCAST &&
               (int) RG_MODEL_ALLGATHER == (int) RG_COLL_ALLGATHERV &&
               (int) RG_MODEL_ALLTOALL == (int) RG_COLL_ALLTOALLV &&
               (int) RG_MODEL_REDUCESCATTER == (int) RG_COLL_REDUCESCATTERV,
               "one order of kinds");
_Static_assert((int) RG_MODEL_AGREED == (int) RG_DIRECT_NOT &&
               (int) RG_MODEL_DIRECT_DOUBLING == (int) RG_DIRECT_DOUBLING &&
               (int) RG_MODEL_DIRECT_ONE_SHOT == (int) RG_DIRECT_ONE_SHOT &&
               (int) RG_MODEL_DIRECT_TWO_SHOT == (int) RG_DIRECT_TWO_SHOT,
               "one order of ways");
_Static_assert((int) RG_MODEL_DIRECT_SMALL == (int) RG_DIRECT_SMALL &&
               (int) RG_MODEL_DIRECT_MAX == (int) RG_DIRECT_MAX &&
               (int) RG_MODEL_SHOTS_MAX == (int) RG_DIRECT_SHOTS_MAX,
               "the same limits");

int rg_tcp_way_offer(const struct rg_config *config, int rank, int size, bool allowed,
                     struct rg_buf *offer, struct rg_error *err)
{
    bool differs = config->model_given || config->sockets_per_pair > 0;

    (void) rank, (void) size, (void) err;
    for (int kind = 0; kind < RG_MODEL_NKINDS; kind++)
        differs = differs || config->algorithms[kind] != RG_ALGORITHM_AUTO;
    if (!allowed || !differs)
        return 0;
    for (int kind = 0; kind < RG_MODEL_NKINDS; kind++)
        rg_buf_put_u8(offer, (uint8_t) config->algorithms[kind]);
    rg_buf_put_u8(offer, (uint8_t) config->sockets_per_pair);
    if (config->model_given)
        rg_model_format(&config->model, offer);
    return 0;
}

int rg_tcp_way_agree(const struct rg_plane_options *options, struct rg_error *err)
{
    struct rg_blob first, part;

    for (int rank = 0; rank < options->group.nmembers; rank++) {
        if (rg_planes_find_offer(&options->offers[rank], "tcp", &part) < 0)
            return rg_error_set(err, EBADMSG, "what rank %d offers cannot be read",
                                rg_team_world_rank(options->team, rank));
        first = rank == 0 ? part : first;
        if (part.nbytes != first.nbytes ||
            (part.nbytes > 0 && memcmp(part.data, first.data, part.nbytes) != 0))
            return rg_error_set(err, EINVAL, "ranks %d and %d differ in REIGEN_ALGORITHM, in "
                                "REIGEN_SOCKETS_PER_PAIR or in what REIGEN_MODEL's file says; give "
                                "all ranks the same",
                                rg_team_world_rank(options->team, 0),
                                rg_team_world_rank(options->team, rank));
    }
    return 0;
}

static const uint64_t ps_per_s = UINT64_C(1000000000000);

/* Where nothing is learnt: by what the file says, and the kernel's own limit of buffers, as each
 * host may have another one. */
static int sockets_by_model(const struct rg_model_path *net)
{
    enum { USUAL_WINDOW_NBYTES = (4 << 20) / 3 * 2 };
    uint64_t rate = net->beta_ps ? ps_per_s / net->beta_ps : 0;
    int before, n = 1;

    do {
        before = n;
        n = rg_tcp_way_sockets(n, rate, UINT64_C(2) * net->alpha_ns, USUAL_WINDOW_NBYTES);
    } while (n > before);
    return n;
}

/* One half of the descriptors is for these sockets, if all pairs should need them. */
static int room_for_sockets(int nmembers)
{
    struct rlimit limit = { .rlim_cur = 0 };
    rlim_t each;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || nmembers < 2)
        return RG_TCP_SOCKETS_MAX;
    each = limit.rlim_cur / 2 / (rlim_t) (nmembers - 1);
    return each < 1 ? 1 : each < RG_TCP_SOCKETS_MAX ? (int) each : RG_TCP_SOCKETS_MAX;
}

void rg_tcp_way_init(struct rg_tcp_way *way, const struct rg_plane_options *options)
{
    int n = options->group.nmembers, nnodes = options->team->nnodes;

    *way = (struct rg_tcp_way){ .model = options->config->model, .first = options->config->model,
                                .scope = options->group.scope,
                                .given = options->config->model_given,
                                .knows_rate = options->config->model_given };
    memcpy(way->wanted, options->config->algorithms, sizeof(way->wanted));
    way->sockets_given = options->config->sockets_per_pair > 0;
    way->nsockets = way->sockets_given ? options->config->sockets_per_pair
                    : way->given ? sockets_by_model(&way->model.net) : 1;
    if (!way->sockets_given && way->nsockets < options->team->nrails)
        way->nsockets = options->team->nrails;
    way->room = room_for_sockets(n);
    way->window_nbytes = rg_sock_window_nbytes();
    /* Where hosts have unequal numbers of members, as if they were equal. */
    way->nhosts = n < nnodes ? n : nnodes;
    way->ranks_per_host = (n + way->nhosts - 1) / way->nhosts;
    way->crowding_pct = options->team->between.crowding_pct < RG_MODEL_CROWDING_MAX_PCT
                            ? options->team->between.crowding_pct : RG_MODEL_CROWDING_MAX_PCT;
    way->job_ranks_per_host = (options->team->size + nnodes - 1) / nnodes;
}

/* An allreduce whose elements must be added alike wherever they stand, as they may stand elsewhere
 * in the next run, and may have gone directly before. */
static enum rg_algorithm wanted(const struct rg_tcp_way *way, enum rg_coll_kind kind,
                                enum rg_repeat repeat)
{
    return repeat == RG_REPEAT_SMALL && kind == RG_COLL_ALLREDUCE ? RG_ALGORITHM_DOUBLING
                                                                 : way->wanted[kind];
}

struct rg_model_choice rg_tcp_way_choose(struct rg_tcp_way *way, enum rg_coll_kind kind,
                                         size_t nbytes, enum rg_repeat repeat)
{
    const struct rg_model_task task = { (enum rg_model_kind) kind, way->nhosts,
                                        way->ranks_per_host, nbytes };

    const struct rg_model *model = repeat == RG_REPEAT_NOT ? &way->model : &way->first;
    uint64_t hash = ((uint64_t) nbytes + (uint64_t) kind) * UINT64_C(0x9e3779b97f4a7c15);
    struct rg_tcp_known *known = &way->known[(hash >> 32) % RG_TCP_NKNOWN];

    if (!known->known || known->kind != kind || known->nbytes != nbytes || known->repeat != repeat)
        *known = (struct rg_tcp_known){
            true, kind, repeat, nbytes,
            rg_model_choose(model, &task, wanted(way, kind, repeat)) };
    return known->choice;
}

enum { SLOW_PS = 8000 }; /* 1 Gb/s */

uint8_t rg_tcp_way_direct(const struct rg_tcp_way *way, size_t nbytes, uint64_t round_trip_ns)
{
    const struct rg_model_task task = { RG_MODEL_ALLREDUCE, way->nhosts, way->job_ranks_per_host,
                                        nbytes };
    struct rg_model model = way->model;
    uint64_t alpha_ns = round_trip_ns / 2;
    enum rg_model_direct best, slow;
    bool crowded;

    if (way->wanted[RG_MODEL_ALLREDUCE] != RG_ALGORITHM_AUTO)
        return nbytes <= RG_MODEL_DIRECT_SMALL ? RG_DIRECT_DOUBLING : RG_DIRECT_NOT;
    if (!way->given && way->crowding_pct > model.crowding_pct)
        model.crowding_pct = way->crowding_pct;
    /* Other connections have measured another delay. The longer one counts; where hosts share cores
     * the shorter one, as what an answer waited for a core is not the network's. */
    crowded = model.crowding_pct >= RG_MODEL_CROWDED_PCT;
    if (!way->given && alpha_ns > 0 &&
        (way->nsurveys == 0 || (alpha_ns > model.net.alpha_ns) != crowded))
        model.net.alpha_ns = (uint32_t) (alpha_ns < RG_NS_PER_S ? alpha_ns : RG_NS_PER_S);
    best = rg_model_direct(&model, &task);
    if (way->knows_rate)
        return (uint8_t) best;
    /* What sends more bytes must not be slower than what sends fewer, if the line is slow. */
    model.net.beta_ps = SLOW_PS;
    slow = best == RG_MODEL_DIRECT_ONE_SHOT ? RG_MODEL_DIRECT_DOUBLING
           : best == RG_MODEL_DIRECT_DOUBLING && nbytes > RG_MODEL_DIRECT_SMALL && way->nhosts > 2
               ? rg_model_direct(&model, &task)
               : best;
    if (slow != best &&
        rg_model_direct_ns(&model, &task, best) > rg_model_direct_ns(&model, &task, slow))
        best = slow;
    return (uint8_t) best;
}

/* ------------------------------------------------------------ surveys */

enum { SURVEYS_APART = 1024, SOON = 2, TRIAL_NBYTES = 64 * 1024, TRIALS = 3 };

static bool is_survey_due(uint64_t number)
{
    bool power_of_two = (number & (number - 1)) == 0;

    if (number >= SURVEYS_APART)
        return number % SURVEYS_APART == 0;
    return number == 2 || (number > 2 && power_of_two && rg_floor_log2((int) number) % 2 == 0);
}

/* What a byte of two operands costs here, in ps. 0: out of memory. */
static int64_t measure_gamma(void)
{
    const struct rg_scale plain = { 1.0, 1.0, 1 };
    char *memory = calloc(2, TRIAL_NBYTES);
    uint64_t least = UINT64_MAX;

    if (!memory)
        return 0;
    for (int i = 0; i < TRIALS; i++) {
        const void *operands[2] = { memory, memory + TRIAL_NBYTES };
        uint64_t from = rg_now_ns(), took;

        rg_reduce(REIGEN_FLOAT32, REIGEN_SUM, memory, operands, 2, TRIAL_NBYTES / sizeof(float),
                  &plain);
        took = rg_now_ns() - from;
        least = took < least ? took : least;
    }
    free(memory);
    return (int64_t) (least * 1000 / TRIAL_NBYTES) + 1;
}

int rg_tcp_way_sockets(int nsockets, uint64_t rate, uint64_t round_trip_ns, uint64_t window_nbytes)
{
    /* Bytes under way. A double is exact enough, and cannot overflow. */
    double under_way = (double) rate * (double) round_trip_ns / (double) RG_NS_PER_S;
    int twice = nsockets * 2 < RG_TCP_SOCKETS_MAX ? nsockets * 2 : RG_TCP_SOCKETS_MAX;

    return under_way > 0.5 * (double) window_nbytes * nsockets ? twice : nsockets;
}

bool rg_tcp_way_due(struct rg_tcp_way *way)
{
    way->nposted++;
    return !way->given && way->nhosts * way->ranks_per_host > 1 &&
           (way->nposted == way->again_at || is_survey_due(way->nposted));
}

struct rg_coll rg_tcp_way_survey(struct rg_tcp_way *way, uint64_t round_trip_ns, uint64_t rate,
                                 struct rg_tcp_way *ret_way)
{
    if (way->gamma_ps == 0)
        way->gamma_ps = measure_gamma();
    way->facts[RG_TCP_ALPHA_NS] = (int64_t) (round_trip_ns / 2);
    way->facts[RG_TCP_BETA_PS] = rate ? (int64_t) (ps_per_s / rate) : 0;
    way->facts[RG_TCP_GAMMA_PS] = way->gamma_ps;
    way->facts[RG_TCP_NSOCKETS] =
        way->sockets_given ? way->nsockets
                           : rg_tcp_way_sockets(way->nsockets, rate, round_trip_ns,
                                                way->window_nbytes);
    way->facts[RG_TCP_ROOM] = -way->room;
    *ret_way = *way;
    ret_way->wanted[RG_MODEL_ALLREDUCE] = RG_ALGORITHM_DOUBLING;
    memset(ret_way->known, 0, sizeof(ret_way->known));
    return (struct rg_coll){ .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_INT64, .op = REIGEN_MAX,
                             .count = RG_TCP_NFACTS, .in = way->facts, .out = way->facts,
                             .scale = { 1.0, 1.0, 1 } };
}

/* What differs little stays, so that choices do. */
static void take(uint32_t *parameter, int64_t fact, int64_t max)
{
    int64_t old = *parameter, change = fact > old ? fact - old : old - fact;

    if (fact > 0 && change > old / 4)
        *parameter = (uint32_t) (fact < max ? fact : max);
}

/* Others' numbers are not trusted to be in bounds. */
static void add_sockets(struct rg_tcp_way *way, int64_t nsockets, int64_t room)
{
    nsockets = nsockets < room ? nsockets : room;
    nsockets = nsockets < RG_TCP_SOCKETS_MAX ? nsockets : RG_TCP_SOCKETS_MAX;
    if (nsockets <= way->nsockets)
        return;
    way->nsockets = (int) nsockets;
    way->again_at = way->nposted + SOON;
}

void rg_tcp_way_learn(struct rg_tcp_way *way)
{
    take(&way->model.net.alpha_ns, way->facts[RG_TCP_ALPHA_NS], (int64_t) RG_NS_PER_S);
    take(&way->model.net.beta_ps, way->facts[RG_TCP_BETA_PS], RG_MODEL_RATE_MAX_PS);
    way->knows_rate = way->knows_rate || way->facts[RG_TCP_BETA_PS] > 0;
    take(&way->model.gamma_ps, way->facts[RG_TCP_GAMMA_PS], RG_MODEL_RATE_MAX_PS);
    add_sockets(way, way->facts[RG_TCP_NSOCKETS], -way->facts[RG_TCP_ROOM]);
    memset(way->known, 0, sizeof(way->known));
    way->nsurveys++;
}

/* ------------------------------------------------------------ for people */

static void print_source(const struct rg_tcp_way *way, struct rg_buf *text)
{
    const struct rg_model *model = &way->model;
    /* Thousandths, as no locale is to change them: 10 Gb/s are 800 ps per byte. */
    uint64_t mbit = model->net.beta_ps ? 8000000 / model->net.beta_ps : 0;

    rg_buf_printf(text, "tcp, %s: alpha %u.%u us, %llu Mb/s, message %u.%u us, copy %u ps/byte, "
                  "reduction %u ps/byte; ",
                  way->scope == RG_SCOPE_ALL ? "all ranks" : "one rank per host",
                  model->net.alpha_ns / 1000, model->net.alpha_ns / 100 % 10,
                  (unsigned long long) mbit, model->net.message_ns / 1000,
                  model->net.message_ns / 100 % 10, model->net.copy_ps, model->gamma_ps);
    rg_buf_printf(text, "%d socket%s per pair%s; ", way->nsockets, way->nsockets > 1 ? "s" : "",
                  way->sockets_given ? " by REIGEN_SOCKETS_PER_PAIR" : "");
    if (way->given)
        rg_buf_printf(text, "given by REIGEN_MODEL\n");
    else if (way->nsurveys == 0)
        rg_buf_printf(text, "assumed, as there were too few operations to know better\n");
    else
        rg_buf_printf(text, "agreed %u time%s\n", way->nsurveys, way->nsurveys > 1 ? "s" : "");
}

/* Where the ways of allreduces change that come again. */
static void print_direct(const struct rg_tcp_way *way, struct rg_buf *text)
{
    uint8_t before = rg_tcp_way_direct(way, 0, way->round_trip_ns);

    rg_buf_printf(text, "an allreduce that comes again goes directly: by ");
    for (size_t nbytes = 4; nbytes <= RG_MODEL_DIRECT_MAX; nbytes *= 2) {
        uint8_t now = rg_tcp_way_direct(way, nbytes * 2, way->round_trip_ns);

        if (now == before)
            continue;
        rg_buf_printf(text, "%s up to %zu bytes%s",
                      rg_model_direct_name((enum rg_model_direct) before), nbytes,
                      now == RG_DIRECT_NOT ? "\n" : ", ");
        if (now == RG_DIRECT_NOT)
            return;
        before = now;
    }
}

void rg_tcp_way_print(struct rg_tcp_way *way, struct rg_buf *text)
{
    static const size_t sizes[] = { 4, 4u << 10, 64u << 10, 1u << 20, 64u << 20 };

    print_source(way, text);
    if (way->scope == RG_SCOPE_LEADERS)
        print_direct(way, text);
    rg_buf_printf(text, "%-14s %10s  %-10s %9s %12s\n", "operation", "bytes", "algorithm", "chunk",
                  "predicted");
    for (int kind = 0; kind < RG_MODEL_NKINDS; kind++) {
        bool composed = kind == RG_MODEL_ALLREDUCE || kind == RG_MODEL_BROADCAST;

        if (kind == RG_MODEL_REDUCE || composed == (way->scope == RG_SCOPE_ALL))
            continue;
        for (size_t i = 0; i < rg_array_len(sizes); i++) {
            struct rg_model_choice choice =
                rg_tcp_way_choose(way, (enum rg_coll_kind) kind, sizes[i], RG_REPEAT_NOT);

            rg_buf_printf(text, "%-14s %10zu  %-10s %9u %9llu us%s\n",
                          rg_model_kind_name((enum rg_model_kind) kind), sizes[i],
                          rg_algorithm_name(choice.algorithm), choice.chunk_nbytes,
                          (unsigned long long) (choice.ns + 999) / 1000,
                          choice.algorithm == way->wanted[kind] ? "  by REIGEN_ALGORITHM" : "");
        }
    }
}
