/* SPDX-License-Identifier: Apache-2.0 */
/* A boot as its users see it: what its way leaves out is filled in here, once for all ways. */
#include "coll/boot/boot.h"
#include "wire/rankmsg.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

struct rg_boot {
    const struct rg_boot_ops *ops;
    struct rg_boot *below; /* or NULL */
    void *state;
    struct rg_boot_identity identity;
    int place_fd; /* or -1 */
    pthread_mutex_t lock; /* a note may come from any thread while another polls */
};

void *rg_boot_keep(void **kept, size_t nbytes)
{
    if (!*kept)
        *kept = calloc(1, nbytes);
    return *kept;
}

int rg_boot_make_over(struct rg_boot *below, const struct rg_boot_ops *ops, void *state,
                      const struct rg_boot_identity *identity, struct rg_boot **ret_boot)
{
    struct rg_boot *boot = calloc(1, sizeof(*boot));

    if (!boot)
        return -ENOMEM;
    boot->ops = ops;
    boot->below = below;
    boot->state = state;
    boot->identity = *identity;
    boot->place_fd = -1;
    pthread_mutex_init(&boot->lock, NULL);
    *ret_boot = boot;
    return 0;
}

int rg_boot_make(const struct rg_boot_ops *ops, void *state,
                 const struct rg_boot_identity *identity, struct rg_boot **ret_boot)
{
    return rg_boot_make_over(NULL, ops, state, identity, ret_boot);
}

void rg_boot_hold(struct rg_boot *boot, int take_fd)
{
    boot->place_fd = take_fd;
}

static void leave_place(struct rg_boot *boot)
{
    if (boot->place_fd >= 0)
        close(boot->place_fd);
    boot->place_fd = -1;
}

const struct rg_boot_ops *rg_boot_way(const struct rg_boot *boot)
{
    return boot->below ? rg_boot_way(boot->below) : boot->ops;
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
    if (boot->identity.size > 1 || boot->ops->fences_alone)
        return boot->ops->fence(boot->state, blob, nbytes, deadline_ns, ret_blobs, err);
    *ret_blobs = (struct rg_blob) { (uint8_t *) (uintptr_t) blob, nbytes };
    return rg_blobs_gather(ret_blobs, 1) < 0 ? rg_error_set(err, ENOMEM, "out of memory") : 0;
}

int rg_boot_poll_fd(struct rg_boot *boot)
{
    if (boot->below)
        return rg_boot_poll_fd(boot->below);
    return boot->ops->poll_fd ? boot->ops->poll_fd(boot->state) : -1;
}

static int poll_by(struct rg_boot *boot, int (*look)(void *, int *, struct rg_error *),
                   int *ret_rank, struct rg_error *err)
{
    if (!look)
        return 0;
    pthread_mutex_lock(&boot->lock);
    int r = look(boot->state, ret_rank, err);

    pthread_mutex_unlock(&boot->lock);
    return r;
}

int rg_boot_poll(struct rg_boot *boot, int *ret_rank, struct rg_error *err)
{
    return poll_by(boot, boot->ops->poll, ret_rank, err);
}

int rg_boot_poll_start(struct rg_boot *boot, int *ret_rank, struct rg_error *err)
{
    return poll_by(boot, boot->ops->poll_start ? boot->ops->poll_start : boot->ops->poll, ret_rank,
                   err);
}

void rg_boot_note(struct rg_boot *boot, int level, const char *text)
{
    if (boot->below)
        rg_boot_note(boot->below, level, text);
    if (!boot->ops->note)
        return;
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

void rg_boot_numbers(struct rg_boot *boot, struct rg_numbers *numbers, int n)
{
    if (!boot->ops->numbers)
        return;
    pthread_mutex_lock(&boot->lock);
    boot->ops->numbers(boot->state, numbers, n);
    pthread_mutex_unlock(&boot->lock);
}

void rg_boot_elastic(struct rg_boot *boot, int failed)
{
    if (boot->below)
        rg_boot_elastic(boot->below, failed);
    if (!boot->ops->elastic)
        return;
    pthread_mutex_lock(&boot->lock);
    boot->ops->elastic(boot->state, failed);
    pthread_mutex_unlock(&boot->lock);
}

/* Whoever can tell of updates takes notes, too. */
bool rg_boot_preemptible(struct rg_boot *boot)
{
    if (boot->below)
        return rg_boot_preemptible(boot->below);
    if (!boot->ops->update)
        return false;
    rg_boot_note(boot, RG_NOTE_PREEMPTIBLE, "");
    return true;
}

void rg_boot_deadlock(struct rg_boot *boot, const char *text)
{
    rg_boot_note(boot, RG_NOTE_DEADLOCK, text);
}

uint64_t rg_boot_update(struct rg_boot *boot, int *ret_result)
{
    uint64_t stamp = 0;

    *ret_result = 0;
    if (boot->below)
        return rg_boot_update(boot->below, ret_result);
    if (!boot->ops->update)
        return 0;
    pthread_mutex_lock(&boot->lock);
    stamp = boot->ops->update(boot->state, ret_result);
    pthread_mutex_unlock(&boot->lock);
    return stamp;
}

bool rg_boot_asks_where(struct rg_boot *boot)
{
    bool asked;

    if (boot->below)
        return rg_boot_asks_where(boot->below);
    if (!boot->ops->where)
        return false;
    pthread_mutex_lock(&boot->lock);
    asked = boot->ops->where(boot->state);
    pthread_mutex_unlock(&boot->lock);
    return asked;
}

void rg_boot_tell_where(struct rg_boot *boot, const char *text)
{
    rg_boot_note(boot, RG_NOTE_WHERE, text);
}

void rg_boot_close(struct rg_boot *boot, bool goodbye)
{
    if (!boot)
        return;
    if (boot->ops->close)
        boot->ops->close(boot->state, goodbye);
    leave_place(boot);
    pthread_mutex_destroy(&boot->lock);
    explicit_bzero(&boot->identity, sizeof(boot->identity));
    free(boot);
}

void rg_boot_after_fork(struct rg_boot *boot)
{
    if (boot->below)
        rg_boot_after_fork(boot->below);
    leave_place(boot);
    if (boot->ops->after_fork)
        boot->ops->after_fork(boot->state);
}
