/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/boot/boot.h"

#include <pthread.h>
#include <string.h>

#include "coll/boot/launchers.h"

struct rg_boot {
    const struct rg_boot_ops *ops;
    void *state;
    struct rg_boot_identity identity;
    pthread_mutex_t lock; /* a note may come from any thread while another polls */
};

/* The innermost launcher comes first: each of these may have been started by one further down. */
static const struct rg_boot_ops *const boots[] = { &rg_boot_agent, &rg_boot_rendezvous,
                                                   &rg_boot_mpi,   &rg_boot_pmix,
                                                   &rg_boot_pmi,   &rg_boot_env,
                                                   &rg_boot_single };

static int find_boot(const struct rg_config *config, const struct rg_boot_ops **ret_ops,
                     struct rg_error *err)
{
    bool torchrun = rg_launched_by_torchrun();

    for (size_t i = 0; i < rg_array_len(boots); i++) {
        const struct rg_boot_ops *ops = boots[i];
        bool older = ops == &rg_boot_mpi || ops == &rg_boot_pmix || ops == &rg_boot_pmi;
        int r = torchrun && older ? 0 : ops->detect(config, err);

        if (r > 0 && ops == &rg_boot_single)
            r = rg_claim_check_alone(err) < 0 ? -err->errnum : 1;
        if (r != 0) {
            *ret_ops = ops;
            return r < 0 ? r : 0;
        }
    }
    return rg_error_set(err, ENOTSUP, "no boot"); /* single takes all */
}

static int named_boot(const struct rg_config *config, const struct rg_boot_ops **ret_ops,
                      struct rg_error *err)
{
    for (size_t i = 0; i < rg_array_len(boots); i++) {
        const struct rg_boot_ops *ops = boots[i];

        if (strcmp(config->boot, ops->name) != 0)
            continue;
        int r = ops->variables ? ops->detect(config, err) : 1;

        if (r == 0)
            return rg_error_set(err, EINVAL, "REIGEN_BOOT=%s: this process was not started so: %s "
                                "not set", config->boot, ops->variables);
        *ret_ops = ops;
        return r < 0 ? r : 0;
    }
    return rg_error_set(err, EINVAL, "REIGEN_BOOT=%s: give agent, rendezvous, mpi, pmix, pmi, env "
                        "or single", config->boot);
}

int rg_boot_open(const struct rg_config *config, uint64_t deadline_ns, struct rg_boot **ret_boot,
                 struct rg_error *err)
{
    rg_autofree struct rg_boot *boot = calloc(1, sizeof(*boot));
    struct rg_error unheard = RG_ERROR_INIT;
    int r;

    err = err ? err : &unheard;
    if (!boot)
        return rg_error_set(err, ENOMEM, "out of memory");
    r = config->boot[0] ? named_boot(config, &boot->ops, err) : find_boot(config, &boot->ops, err);
    if (r == 0)
        r = boot->ops->open(config, deadline_ns, &boot->state, &boot->identity, err);
    if (r < 0)
        return r;
    pthread_mutex_init(&boot->lock, NULL);
    *ret_boot = rg_steal_ptr(&boot);
    return 0;
}

int rg_boot_make(const struct rg_boot_ops *ops, void *state,
                 const struct rg_boot_identity *identity, struct rg_boot **ret_boot)
{
    struct rg_boot *boot = calloc(1, sizeof(*boot));

    if (!boot)
        return -ENOMEM;
    boot->ops = ops;
    boot->state = state;
    boot->identity = *identity;
    pthread_mutex_init(&boot->lock, NULL);
    *ret_boot = boot;
    return 0;
}

const char *rg_boot_name(const struct rg_boot *boot)
{
    return boot->ops->name;
}

bool rg_boot_is_by_mpi(const struct rg_boot *boot)
{
    return boot->ops->by_mpi;
}

const struct rg_boot_identity *rg_boot_identity(const struct rg_boot *boot)
{
    return &boot->identity;
}

void rg_boot_forget_key(struct rg_boot *boot)
{
    explicit_bzero(boot->identity.key, sizeof(boot->identity.key));
}

int rg_boot_fence(struct rg_boot *boot, const void *blob, size_t nbytes, uint64_t deadline_ns,
                  struct rg_blob *ret_blobs, struct rg_error *err)
{
    return boot->ops->fence(boot->state, blob, nbytes, deadline_ns, ret_blobs, err);
}

int rg_boot_poll_fd(struct rg_boot *boot)
{
    return boot->ops->poll_fd(boot->state);
}

int rg_boot_poll(struct rg_boot *boot, int *ret_rank, struct rg_error *err)
{
    pthread_mutex_lock(&boot->lock);
    int r = boot->ops->poll(boot->state, ret_rank, err);

    pthread_mutex_unlock(&boot->lock);
    return r;
}

int rg_boot_poll_start(struct rg_boot *boot, int *ret_rank, struct rg_error *err)
{
    if (!boot->ops->poll_start)
        return rg_boot_poll(boot, ret_rank, err);
    pthread_mutex_lock(&boot->lock);
    int r = boot->ops->poll_start(boot->state, ret_rank, err);

    pthread_mutex_unlock(&boot->lock);
    return r;
}

void rg_boot_note(struct rg_boot *boot, int level, const char *text)
{
    pthread_mutex_lock(&boot->lock);
    boot->ops->note(boot->state, level, text);
    pthread_mutex_unlock(&boot->lock);
}

void rg_boot_cut_off(struct rg_boot *boot, int rank)
{
    if (!boot->ops->cut_off)
        return;
    pthread_mutex_lock(&boot->lock);
    boot->ops->cut_off(boot->state, rank);
    pthread_mutex_unlock(&boot->lock);
}

bool rg_boot_hears_cut_off(const struct rg_boot *boot)
{
    return boot->ops->cut_off;
}

void rg_boot_close(struct rg_boot *boot, bool goodbye)
{
    if (!boot)
        return;
    boot->ops->close(boot->state, goodbye);
    pthread_mutex_destroy(&boot->lock);
    explicit_bzero(&boot->identity, sizeof(boot->identity));
    free(boot);
}

void rg_boot_after_fork(struct rg_boot *boot)
{
    boot->ops->after_fork(boot->state);
}
