/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has said what an error is about: somebody who did not type the option looks for it in vain.
 *
 * Thread rule: any thread, one request and error at a time. Nothing blocks.
 */
#ifndef RG_JOB_REQUEST_BLAME_H
#define RG_JOB_REQUEST_BLAME_H

#include "job/options/options.h"

/* Put file and line of the configuration in front of an error that names an option which it alone
 * says (request->usual). Returns rc. */
int rg_request_blame(const struct rg_request *request, int rc, struct rg_error *err);

#endif
