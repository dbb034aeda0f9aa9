/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's log: what it has to say where there is no link to the launcher, or no longer. Others
 * report elsewhere: libraries return errors, and the runtime has coll/ground/report.h.
 *
 * Thread rule: any thread; a record is one write(2) of whole lines.
 */
#ifndef RG_BASE_LOG_H
#define RG_BASE_LOG_H

#include "base/cleanup.h"

/* Error: cannot go on; warn: went on, and says what it ignored; info: milestones of the job; debug:
 * per object; trace: per message. The agent has the first two only. */
enum rg_log_level { RG_LOG_ERROR, RG_LOG_WARN, RG_LOG_INFO, RG_LOG_DEBUG, RG_LOG_TRACE };

/* Write "reigen-agent: error: TEXT" or "reigen-agent: warning: TEXT" and a newline to standard
 * error. Further lines are indented under the first. Write errors are ignored: there is no better
 * place to report them. errno is kept. */
void rg_log(enum rg_log_level level, const char *fmt, ...) rg_printf(2, 3);

#endif
