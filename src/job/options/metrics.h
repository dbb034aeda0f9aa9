/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The value of --metrics: an address to listen at, or a file. What has a '/' in it, or no ':', is a
 * file.
 *
 * Thread rule: any; nothing blocks.
 */
#ifndef RG_JOB_OPTIONS_METRICS_H
#define RG_JOB_OPTIONS_METRICS_H

#include "base/error.h"

/* "HOST:PORT", "[ADDRESS]:PORT", or ":PORT", whose host is 127.0.0.1, into its parts; the host is
 * the caller's to free. 1; 0: it is a file, and there are no parts; -EINVAL, -ENOMEM with err. */
int rg_metrics_split(const char *what, const char *value, char **ret_host, int *ret_port,
                     struct rg_error *err);

#endif
