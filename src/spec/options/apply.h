/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handlers behind the option table, one per option: each judges one value and puts it into the
 * request. Only spec/options/options.c's table and its readers call them. Contract of all: struct
 * rg_option's apply.
 */
#ifndef RG_SPEC_OPTIONS_APPLY_H
#define RG_SPEC_OPTIONS_APPLY_H

#include "spec/options/options.h"

/* clang-format off */
#define RG_APPLY_NAMES(X)                                                              \
    X(np) X(hosts) X(hostfile) X(map_by) X(bind_to) X(oversubscribe) X(on)             \
    X(engine) X(engine_option) X(ssh_port) X(ssh_identity) X(ssh_option)               \
    X(connect_timeout) X(env_file) X(port_range)                                       \
    X(image) X(container_runtime) X(mount) X(container_option) X(shm_size) X(gpus)     \
    X(network) X(user) X(pull) X(privileged) X(ibdevices)                              \
    X(inject_runtime) X(no_inject_runtime)                                             \
    X(env) X(share_env) X(cwd) X(tf_config)                                            \
    X(tag_output) X(no_tag_output) X(timestamps) X(output_dir) X(ranks) X(json)        \
    X(stdin) X(pty)                                                                    \
    X(ranks_per_host) X(max_restarts)                                                  \
    X(timeout) X(start_timeout) X(grace) X(lease)                                      \
    X(config) X(dry_run) X(write_plan) X(display_map) X(report_bindings)               \
    X(verbose) X(quiet) X(help) X(version)                                             \
    X(network_interface) X(require)                                                    \
    X(submit) X(accepted) X(mca)
/* clang-format on */

#define RG_APPLY_DECLARE(name)                                                           \
    int rg_apply_##name(struct rg_request *request, const char *what, const char *value, \
                        struct rg_error *err);
RG_APPLY_NAMES(RG_APPLY_DECLARE)
#undef RG_APPLY_DECLARE

/* Add a remark for the user, once however often it is made. 0 or -ENOMEM. */
int rg_request_note(struct rg_request *request, const char *fmt, ...) rg_printf(2, 3);

/* Whether the platform takes the options of platforms that were given. 0 or -EINVAL. */
int rg_request_settle_platform(const struct rg_request *request, struct rg_error *err);

/* What is left of the container's options when --container-runtime is none, and whether they go
 * together. 0 or -EINVAL. */
int rg_request_settle_container(struct rg_request *request, struct rg_error *err);

#endif
