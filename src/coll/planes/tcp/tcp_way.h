/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which algorithm an operation of the tcp plane takes, and how many sockets the members of a pair
 * have, the same on all members.
 *
 * It is the model's choice (model/model.h). The model's parameters are assumed at first, or given
 * (REIGEN_MODEL). Else the members refine them: before their operations number 2, 4, 16, 64, 256,
 * and then each 1024th, they look up what their kernels know of the sockets so far (the least round
 * trip, the rate of delivery), and how quickly bytes have come to them, and take the greatest
 * values of all by a small allreduce, a survey.
 * So no rank waits for measurements when it starts, and all members change their minds at the same
 * operation.
 *
 * The number of sockets is given (REIGEN_SOCKETS_PER_PAIR), or there is at first one for each
 * network (team->nrails). What one socket has under way is at most its window, which the buffers of
 * both kernels limit. Where the rate that was seen times the round trip comes near to what the
 * sockets' windows hold together, these and not the line may have limited the rate: a member that
 * sees it asks for twice as many in the next survey, and where that makes them more there is
 * another one two operations later. It gets no more than each member has descriptors for. They are
 * never made fewer.
 *
 * Thread rule: a plane's.
 */
#ifndef RG_COLL_PLANES_TCP_TCP_WAY_H
#define RG_COLL_PLANES_TCP_TCP_WAY_H

#include "coll/ground/config.h"
#include "coll/planes/plane.h"
#include "model/model.h"

enum rg_tcp_fact {
    RG_TCP_ALPHA_NS,
    RG_TCP_BETA_PS,
    RG_TCP_GAMMA_PS,
    RG_TCP_NSOCKETS,
    RG_TCP_ROOM,      /* sockets per pair that a member may have, negative: the least counts */
    RG_TCP_NFACTS
};

enum { RG_TCP_NKNOWN = 64, RG_TCP_SOCKETS_MAX = RG_SOCKETS_PER_PAIR_MAX };

struct rg_tcp_way {
    struct rg_model model, first;            /* as all members know it, and did at first */
    enum rg_algorithm wanted[RG_MODEL_NKINDS];
    int nhosts, ranks_per_host;              /* of the members */
    int job_ranks_per_host;
    unsigned crowding_pct;                   /* the team's */
    uint64_t round_trip_ns;                  /* of leaders, as it was told last, for people */
    enum rg_plane_scope scope;
    int nsockets;                            /* of each pair */
    bool sockets_given;                      /* no survey changes their number */
    int room;                                /* the most of them for which there are descriptors */
    uint64_t window_nbytes;                  /* of one socket, as far as this host limits it */
    bool given;                              /* no survey changes the model */
    bool knows_rate;                         /* given, or by a survey */
    uint64_t nposted;                        /* operations, without surveys */
    uint64_t again_at;                       /* before this one there is a survey, too; 0: none */
    unsigned nsurveys;
    int64_t gamma_ps;                        /* this host's; 0: not measured yet */
    int64_t facts[RG_TCP_NFACTS];            /* of a survey, 0: not known; the rate's inverse */
    struct rg_tcp_known {
        bool known;
        enum rg_coll_kind kind;
        enum rg_repeat repeat;
        size_t nbytes;
        struct rg_model_choice choice;
    } known[RG_TCP_NKNOWN];                  /* operations repeat; by a hash */
};

/* Of all ranks, before any is made: what differs from the defaults, and whether all say the same.
 * As a plane's functions of these names. */
int rg_tcp_way_offer(const struct rg_config *config, int rank, int size, bool allowed,
                     struct rg_buf *offer, struct rg_error *err);
int rg_tcp_way_agree(const struct rg_plane_options *options, struct rg_error *err);
void rg_tcp_way_init(struct rg_tcp_way *way, const struct rg_plane_options *options);
/* repeat: of a reduction; by what was assumed or given at first, and small ones by doubling, which
 * adds all elements alike. */
struct rg_model_choice rg_tcp_way_choose(struct rg_tcp_way *way, enum rg_coll_kind kind,
                                         size_t nbytes, enum rg_repeat repeat);
/* Count an operation. Whether a survey comes before it. */
bool rg_tcp_way_due(struct rg_tcp_way *way);
/* How many sockets a pair should have, which has nsockets now, where data came at this rate (bytes
 * per second; 0: not known) over that round trip. Not fewer than now, at most twice as many. */
int rg_tcp_way_sockets(int nsockets, uint64_t rate, uint64_t round_trip_ns, uint64_t window_nbytes);
/* That survey: an allreduce of facts, which takes ret_way. round_trip_ns and rate (bytes per
 * second) are what this member has seen, 0: nothing. */
struct rg_coll rg_tcp_way_survey(struct rg_tcp_way *way, uint64_t round_trip_ns, uint64_t rate,
                                 struct rg_tcp_way *ret_way);
/* The survey is over: facts are everybody's. */
void rg_tcp_way_learn(struct rg_tcp_way *way);
/* How an allreduce that comes again goes best among leaders, as a plane's function of that name. By
 * what they know of their sockets, and the round trip of others, which know it from the start: by
 * the longer one, and by the shorter one where three hosts and more share a core. As
 * long as nobody knows the rate, a way that sends more bytes than another one is taken only if it
 * is no slower than that on a slow line. A wanted algorithm takes all that is not small. */
uint8_t rg_tcp_way_direct(const struct rg_tcp_way *way, size_t nbytes, uint64_t round_trip_ns);
/* For people: the parameters, and what is chosen for some sizes. */
void rg_tcp_way_print(struct rg_tcp_way *way, struct rg_buf *text);

#endif
