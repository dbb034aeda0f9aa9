/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handlers behind the option table, of the options that no member serves
 * (job/options/member.h): each judges one value and puts it into the request. Only
 * job/options/options.c's table and its readers call them. Contract of all: struct rg_option's
 * apply.
 */
#ifndef RG_JOB_OPTIONS_APPLY_H
#define RG_JOB_OPTIONS_APPLY_H

#include "job/options/options.h"

/* clang-format off */
#define RG_APPLY_NAMES(X)                                                              \
    X(hosts) X(hostfile) X(host_discovery_script) X(ranks_per_host) X(map_by)          \
    X(bind_to) X(on) X(engine)                                                         \
    X(ssh_option) X(connect_timeout) X(network_interface) X(port_range) X(require)     \
    X(image) X(container_runtime) X(mount) X(gpus) X(gpus_per_rank) X(pull)            \
    X(inject_runtime) X(no_inject_runtime)                                             \
    X(env) X(env_file) X(share_env) X(tag_output) X(no_tag_output) X(ranks) X(stdin)   \
    X(start_timeout) X(lease) X(verbose) X(accepted)
/* clang-format on */

#define RG_APPLY_DECLARE(name)                                                           \
    int rg_apply_##name(struct rg_request *request, const char *what, const char *value, \
                        struct rg_error *err);
RG_APPLY_NAMES(RG_APPLY_DECLARE)
#undef RG_APPLY_DECLARE

/* The index of value among words, or -EINVAL with a text that names them all. */
int rg_apply_choice(const char *what, const char *value, const char *const *words,
                    struct rg_error *err);

/* Add a remark for the user, once however often it is made. 0 or -ENOMEM. */
int rg_request_note(struct rg_request *request, const char *fmt, ...) rg_printf(2, 3);

/* Judge what options were given that several platforms have, and each understands in its own way:
 * only now it is sure which platform it is. 0 or -errno. */
int rg_request_settle_shared(struct rg_request *request, struct rg_error *err);

/* Whether the platform takes the options of platforms that were given. 0 or -EINVAL. */
int rg_request_settle_platform(const struct rg_request *request, struct rg_error *err);

/* Whether the caller has the variables that are handed on by name: one that is not set is noted
 * and dropped, as mpirun does; a shared one is an error. 0 or -errno. */
int rg_request_check_caller_env(struct rg_request *request, struct rg_error *err);

/* Whether there are several programs, once the command is known, which has nwords words on the
 * command line; exact: "--" stood in front of it. 0 or -errno. */
int rg_request_settle_programs(struct rg_request *request, int nwords, bool exact,
                               struct rg_error *err);

/* What is left of the container's options when --container-runtime is none, and whether they go
 * together. 0 or -EINVAL. */
int rg_request_settle_container(struct rg_request *request, struct rg_error *err);

#endif
