/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/boot.h"

#include <pthread.h>
#include <string.h>

struct rg_boot {
    const struct rg_boot_ops *ops;
    void *state;
    struct rg_boot_identity identity;
    pthread_mutex_t lock; /* a note may come from any thread while another polls */
};

static const struct rg_boot_ops *const boots[] = { &rg_boot_agent, &rg_boot_env, &rg_boot_single };

int rg_boot_open(const struct rg_config *config, uint64_t deadline_ns, struct rg_boot **ret_boot,
                 struct rg_error *err)
{
    rg_autofree struct rg_boot *boot = calloc(1, sizeof(*boot));
    int r = 0;

    if (!boot)
        return rg_error_set(err, ENOMEM, "out of memory");
    for (size_t i = 0; i < rg_array_len(boots) && r == 0; i++) {
        boot->ops = boots[i];
        r = boot->ops->detect(config, err);
    }
    if (r > 0)
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

const struct rg_boot_identity *rg_boot_identity(const struct rg_boot *boot)
{
    return &boot->identity;
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

void rg_boot_note(struct rg_boot *boot, int level, const char *text)
{
    pthread_mutex_lock(&boot->lock);
    boot->ops->note(boot->state, level, text);
    pthread_mutex_unlock(&boot->lock);
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
