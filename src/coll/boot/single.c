/* SPDX-License-Identifier: Apache-2.0 */
/* No launcher at all: a job of one rank, when no launcher claims to have started several. */
#include "coll/boot/boot.h"
#include "coll/boot/launchers.h"

static int detect(const struct rg_config *config, struct rg_error *err)
{
    (void) config;
    return rg_claim_check_alone(err) < 0 ? -EPROTO : 1;
}

static int open_single(const struct rg_config *config, void **kept, uint64_t deadline_ns,
                       void **ret_state, struct rg_boot_identity *ret_identity,
                       struct rg_error *err)
{
    (void) config;
    (void) kept;
    (void) deadline_ns;
    (void) ret_state;
    (void) err;
    *ret_identity = (struct rg_boot_identity) { .size = 1, .local_size = 1, .cross_size = 1,
                                                .one_host = true };
    return 0;
}

const struct rg_boot_ops rg_boot_single = { .name = "single", .detect = detect,
                                            .open = open_single };
