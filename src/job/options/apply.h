/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handlers behind the option table, of the options that no member serves
 * (job/options/member.h): each judges one value and puts it into the request. Only
 * the table and its readers call them. Contract of all: struct rg_option's
 * apply.
 */
#ifndef RG_JOB_OPTIONS_APPLY_H
#define RG_JOB_OPTIONS_APPLY_H

#include "job/options/options.h"

/* clang-format off */
#define RG_APPLY_NAMES(X)                                                              \
    X(hosts) X(hostfile) X(host_discovery_script) X(ranks_per_host) X(map_by)          \
    X(blacklist_cooldown_range)                                                        \
    X(bind_to) X(on) X(engine)                                                         \
    X(ssh_option) X(connect_timeout) X(network_interface) X(port_range) X(require)     \
    X(image) X(container_runtime) X(mount) X(gpus) X(gpus_per_rank) X(pull)            \
    X(inject_runtime) X(no_inject_runtime)                                             \
    X(env) X(env_file) X(share_env) X(tag_output) X(no_tag_output) X(ranks) X(stdin)   \
    X(debug_rank)                                                                      \
    X(start_timeout) X(lease) X(chaos) X(metrics) X(sync) X(verbose) X(help) X(accepted)
/* clang-format on */

#define RG_APPLY_DECLARE(name)                                                           \
    int rg_apply_##name(struct rg_request *request, const char *what, const char *value, \
                        struct rg_error *err);
RG_APPLY_NAMES(RG_APPLY_DECLARE)
#undef RG_APPLY_DECLARE

/* The index of value among words, or -EINVAL with a text that names them all. */
int rg_apply_choice(const char *what, const char *value, const char *const *words,
                    struct rg_error *err);

/* Forget the hosts, and the command that names them. */
void rg_request_drop_hosts(struct rg_request *request);

/* Hosts come from the request's source: those of another source are forgotten, as the command
 * line's replace a file's, and so on. Of one source, several options add up. */
void rg_request_begin_hosts(struct rg_request *request);

/* Add a remark for the user, once however often it is made. 0 or -ENOMEM. */
int rg_request_note(struct rg_request *request, const char *fmt, ...) rg_printf(2, 3);

#endif
