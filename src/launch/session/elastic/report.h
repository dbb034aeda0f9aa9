/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An elastic job as reigen status shows it: who is which rank on which host, and which machines are
 * not used, and why.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_ELASTIC_REPORT_H
#define RG_LAUNCH_SESSION_ELASTIC_REPORT_H

#include "launch/session/elastic/elastic_state.h"

/* Append it as an object of JSON; only: of the hosts, those that this means, as NAME or USER@NAME;
 * "": all. Time: all hosts and places that there ever were. */
void session_report_put(const struct rg_session *session, const char *only, struct rg_buf *text);
/* Whether a host of this name and user (or NULL) is meant by NAME or USER@NAME. */
bool session_report_means(const char *host, const char *name, const char *user);

#endif
