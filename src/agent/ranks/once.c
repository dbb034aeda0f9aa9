/* SPDX-License-Identifier: Apache-2.0 */
/* Which ways a signal has come by tells whether it is a new one; only of the same way is time the
 * judge. */
#include "agent/ranks/once.h"

#include "base/time.h"

bool rg_heard_note(struct rg_heard *heard, enum rg_signal_way way, bool ends, uint64_t now_ns)
{
    uint64_t ms = (now_ns - heard->since_ns) / RG_NS_PER_MS;
    bool same = heard->ways & way ? way == RG_WAY_PARENT && ms < RG_SIGNAL_AGAIN_MS
                                  : ms < RG_SIGNAL_SAME_MS;

    if (heard->ways && (same || ends)) {
        heard->ways |= way;
        return false;
    }
    *heard = (struct rg_heard){ now_ns, way };
    return true;
}
