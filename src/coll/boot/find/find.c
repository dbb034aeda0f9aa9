/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that knows all boots: a new one is its file and its line here. */
#include "coll/boot/find/find.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "coll/boot/env/env.h"
#include "coll/boot/launchers.h"
#include "coll/boot/place.h"
#include "coll/boot/pm/pm.h"

/* ---- no launcher at all: a job of one rank, when no launcher claims to have started several */

static int detect_single(struct rg_error *err)
{
    return rg_claim_check_alone(err) < 0 ? -EPROTO : 1;
}

static const struct rg_boot_identity alone = { .size = 1, .local_size = 1, .cross_size = 1,
                                               .one_host = true };
static const struct rg_boot_ops single = { .name = "single", .detect = detect_single };

/* ---- the table */

/* The innermost launcher comes first: each of these may have been started by one further down. */
static const struct rg_boot_ops *const table[] = { &rg_boot_agent, &rg_boot_rendezvous,
                                                   &rg_boot_mpi,   &rg_boot_pmix,
                                                   &rg_boot_pmi,   &rg_boot_env,
                                                   &single };

_Static_assert(rg_array_len(table) <= RG_BOOTS_MAX, "room for what each boot keeps");

/* An index of the table, or -errno. */
static int find(struct rg_error *err)
{
    bool torchrun = rg_launched_by_torchrun();

    for (int i = 0; i < (int) rg_array_len(table); i++) {
        int r = torchrun && table[i]->of_mpi ? 0 : table[i]->detect(err);

        if (r != 0)
            return r < 0 ? r : i;
    }
    return rg_error_set(err, ENOTSUP, "no boot"); /* single takes all */
}

static int no_such_boot(const char *name, struct rg_error *err)
{
    rg_autobuf struct rg_buf names = RG_BUF_INIT;
    size_t n = rg_array_len(table);

    for (size_t i = 0; i < n; i++)
        rg_buf_printf(&names, "%s%s", i == 0 ? "" : i == n - 1 ? " or " : ", ", table[i]->name);
    return rg_error_set(err, EINVAL, "REIGEN_BOOT=%s: give %s", name, rg_buf_text(&names));
}

static int find_named(const struct rg_config *config, struct rg_error *err)
{
    for (int i = 0; i < (int) rg_array_len(table); i++) {
        const struct rg_boot_ops *ops = table[i];

        if (strcmp(config->boot, ops->name) != 0)
            continue;
        int r = ops->variables ? ops->detect(err) : 1;

        if (r == 0)
            return rg_error_set(err, EINVAL, "REIGEN_BOOT=%s: this process was not started so: %s "
                                "not set", config->boot, ops->variables);
        return r < 0 ? r : i;
    }
    return no_such_boot(config->boot, err);
}

/* A process that descends from a rank has that one's variables, but not its place. In a job of one
 * rank nobody waits for it, and it runs alone, as its parent does. 0 and *ops, or -EBUSY. */
static int leave_to_parent(const struct rg_boot_ops **ops, struct rg_error *err)
{
    struct rg_place holder;
    char who[64];

    if (!(*ops)->place || !rg_place_is_taken((*ops)->name, (*ops)->place, &holder))
        return 0;
    if (holder.size == 1) {
        *ops = &single;
        return 0;
    }
    snprintf(who, sizeof(who), "process %d, from which this one descends,", (int) holder.pid);
    rg_error_set(err, EBUSY, RG_BOOT_TAKEN_TEXT, who);
    return rg_error_prepend(err, "rank %d", holder.rank);
}

/* Children see from now on that the place is taken. Where no descriptor is to be had they do not,
 * which is no reason to fail. */
static void take_place(struct rg_boot *boot, const struct rg_boot_ops *ops)
{
    const struct rg_boot_identity *identity = rg_boot_identity(boot);

    if (ops->place)
        rg_boot_hold(boot, rg_place_take(ops->name, ops->place, identity->rank, identity->size));
}

int rg_boot_open(struct rg_boots *boots, const struct rg_config *config, uint64_t deadline_ns,
                 struct rg_boot **ret_boot, struct rg_error *err)
{
    struct rg_error unheard = RG_ERROR_INIT;
    struct rg_boot_identity identity = RG_BOOT_IDENTITY_INIT;
    void *state = NULL;
    int i, r = 0;

    err = err ? err : &unheard;
    i = config->boot[0] ? find_named(config, err) : find(err);
    if (i < 0)
        return i;
    const struct rg_boot_ops *ops = table[i];

    r = leave_to_parent(&ops, err);
    if (r == 0 && ops->open)
        r = ops->open(config, &boots->kept[i], deadline_ns, &state, &identity, err);
    else if (r == 0)
        identity = alone;
    if (r == 0 && rg_boot_make(ops, state, &identity, ret_boot) < 0) {
        if (ops->close)
            ops->close(state, false);
        r = rg_error_set(err, ENOMEM, "out of memory");
    }
    if (r == 0)
        take_place(*ret_boot, ops);
    explicit_bzero(&identity, sizeof(identity));
    return r;
}

void rg_boots_leave(struct rg_boots *boots)
{
    for (size_t i = 0; i < rg_array_len(table); i++)
        if (boots->kept[i] && table[i]->leave)
            table[i]->leave(boots->kept[i]);
}
