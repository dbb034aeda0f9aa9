/* SPDX-License-Identifier: Apache-2.0 */
/* Who is waited for most of the time is among the first few: others find no room, and are not. */
#include "launch/diagnosis/diagnosis.h"

#define MOST 0.5       /* of the job's time */
#define SURELY 0.6     /* of those seconds have this cause */
#define ANY_SHARE 0.05 /* below, it is nobody */

static bool is_of(const struct rg_tally_slot *slot, const struct rg_lateness *diagnosis)
{
    return slot->late.rank == diagnosis->late.rank && slot->late.host == diagnosis->late.host &&
           slot->to == diagnosis->to;
}

/* NULL: there is no room. */
static struct rg_tally_slot *find_slot(struct rg_tally *tally,
                                       const struct rg_lateness *diagnosis)
{
    struct rg_tally_slot *least = &tally->slots[0];

    for (int i = 0; i < RG_TALLY_SLOTS; i++) {
        struct rg_tally_slot *slot = &tally->slots[i];
        if (slot->seconds > 0 && is_of(slot, diagnosis))
            return slot;
        least = slot->seconds < least->seconds ? slot : least;
    }
    if (least->seconds > tally->seconds * MOST / RG_TALLY_SLOTS)
        return NULL;
    *least = (struct rg_tally_slot){ .late = diagnosis->late, .to = diagnosis->to };
    return least;
}

static bool is_same(const struct rg_lateness *a, const struct rg_lateness *b)
{
    return a->cause == b->cause && a->late.rank == b->late.rank && a->late.host == b->late.host &&
           a->to == b->to;
}

bool rg_tally_holds(const struct rg_tally *tally, const struct rg_lateness *diagnosis)
{
    return tally->held_s >= RG_TALLY_HELD_S && is_same(&tally->last, diagnosis);
}

void rg_tally_add(struct rg_tally *tally, const struct rg_lateness *diagnosis, double seconds)
{
    enum rg_cause cause = diagnosis->cause;
    bool late = diagnosis->late.rank >= 0 || diagnosis->late.host >= 0 || cause;
    struct rg_tally_slot *slot;

    tally->seconds += seconds;
    tally->held_s = is_same(&tally->last, diagnosis) ? tally->held_s + seconds : seconds;
    tally->last = *diagnosis;
    slot = late && diagnosis->share >= ANY_SHARE ? find_slot(tally, diagnosis) : NULL;
    if (!slot)
        return;
    slot->seconds += seconds;
    slot->share += diagnosis->share * seconds;
    slot->by_cause[cause] += seconds;
    slot->value[cause] += diagnosis->value * seconds;
    slot->usual[cause] += diagnosis->usual * seconds;
}

bool rg_tally_find(const struct rg_tally *tally, struct rg_lateness *ret_diagnosis)
{
    const struct rg_tally_slot *slot = &tally->slots[0];
    int cause = RG_CAUSE_UNKNOWN;

    for (int i = 1; i < RG_TALLY_SLOTS; i++)
        slot = tally->slots[i].seconds > slot->seconds ? &tally->slots[i] : slot;
    if (tally->seconds < RG_TALLY_MIN_S || slot->seconds < MOST * tally->seconds ||
        slot->share < RG_CAUSE_NOTABLE * tally->seconds)
        return false;
    for (int i = 1; i < RG_CAUSES; i++)
        cause = slot->by_cause[i] >= SURELY * slot->seconds ? i : cause;
    double s = slot->by_cause[cause] > 0 ? slot->by_cause[cause] : 1;
    *ret_diagnosis = (struct rg_lateness){
        .cause = (enum rg_cause) cause, .late = slot->late, .to = slot->to,
        .share = slot->share / tally->seconds, .value = slot->value[cause] / s,
        .usual = slot->usual[cause] / s,
    };
    return true;
}
