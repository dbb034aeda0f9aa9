/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No silent wait: what a job waits for outside of its steps is told when it has lasted for some
 * seconds, and again when it has lasted twice as long. In its steps the runtime tells
 * (coll/observe). Told are ranks that do not come to init, or to meet the others for the next
 * epoch; hosts that an elastic job lacks; hosts of which nothing is heard; and who is still there
 * when others have ended. A remark changes nothing.
 *
 * Thread rule: the loop's thread. Nothing blocks.
 */
#ifndef RG_LAUNCH_SESSION_ELASTIC_WAITS_H
#define RG_LAUNCH_SESSION_ELASTIC_WAITS_H

#include "launch/session/core/session_core.h"

#define SESSION_WAITS_MS 7000 /* so long is no news */

/* A rank has ended badly, and the membership knows: where nobody is blamed for it, as another loss
 * came first, the user hears of it here. */
void session_waits_ended(struct rg_session *session, int place);
/* To be called every tick_ms. Time: all ranks and hosts, as long as somebody waits. */
void session_waits_look(struct rg_session *session, uint64_t tick_ms);

#endif
