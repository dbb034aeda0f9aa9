/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handlers of horovodrun's flags that do more than set a variable. Only the table in
 * spec/horovodrun/horovodrun.c calls them. Contract of all: struct rg_hvd_option's apply.
 */
#ifndef RG_SPEC_HOROVODRUN_HOROVODRUN_APPLY_H
#define RG_SPEC_HOROVODRUN_HOROVODRUN_APPLY_H

#include "spec/horovodrun/horovodrun.h"

/* clang-format off */
#define RG_HVD_APPLY_NAMES(X)                                                        \
    X(same) X(where) X(start_timeout) X(verbose) X(interfaces)                       \
    X(interface) X(ssh_identity) X(fusion) X(log_level) X(timestamp_off)             \
    X(stall_off) X(controller) X(jsrun) X(file_controller) X(discovery) X(cooldown)
/* clang-format on */

#define RG_HVD_APPLY_DECLARE(name)                                                             \
    int rg_hvd_apply_##name(struct rg_horovodrun *run, const struct rg_hvd_option *option,     \
                            const char *what, const char *value, struct rg_error *err);
RG_HVD_APPLY_NAMES(RG_HVD_APPLY_DECLARE)
#undef RG_HVD_APPLY_DECLARE

#endif
