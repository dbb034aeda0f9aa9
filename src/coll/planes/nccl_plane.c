/* SPDX-License-Identifier: Apache-2.0 */
/* The nccl plane: its life and its progress; nccl.h tells how it works. */
#include "coll/planes/nccl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"

#define SCORE 300
#define NAP_US 20            /* between two looks at what NCCL is busy with */
#define WATCH_US 20000       /* at what is on the stream */

static int open_nccl(const struct rg_plane_options *options, void **ret_state,
                     struct rg_error *err)
{
    struct rg_nccl_plane *plane = calloc(1, sizeof(*plane));

    if (!plane)
        return rg_error_set(err, ENOMEM, "out of memory");
    *plane = (struct rg_nccl_plane){ .n = options->group.nmembers, .me = options->group.me,
                                     .team = options->team, .group = options->group,
                                     .device = -1, .premul = -1 };
    *ret_state = plane;
    return 0;
}

static int score(const void *state, const struct rg_plane_task *task)
{
    (void) state;
    return rg_nccl_takes(task) ? SCORE : -1;
}

/* ---- the end of a communicator */

/* Everything that it has launched ends, so that streams go on. */
static void give_up(struct rg_nccl_plane *plane, const struct rg_error *cause)
{
    if (plane->phase == RG_NCCL_DEAD)
        return;
    plane->phase = RG_NCCL_DEAD;
    plane->active = false;
    if (cause)
        plane->cause = *cause;
    if (plane->comm && rg_gpu_enter(plane->device, NULL) == 0) {
        plane->nccl->abort(plane->comm);
        rg_gpu_leave();
    }
    plane->comm = NULL;
}

static int dead(const struct rg_nccl_plane *plane, struct rg_error *err)
{
    if (plane->cause.text[0] && err)
        *err = plane->cause;
    else
        rg_error_set(err, ECONNRESET, "the nccl plane was given up");
    return plane->cause.text[0] ? -plane->cause.errnum : -ECONNRESET;
}

/* ---- wiring */

static int wire(void *state, const void *all, struct rg_error *err)
{
    struct rg_nccl_plane *plane = state;
    struct rg_nccl_config config = RG_NCCL_CONFIG_NONBLOCKING;
    const struct rg_nccl_word *words = all;
    int r = rg_nccl_judge(plane, words, err);

    if (r < 0)
        return r;
    r = rg_gpu_enter(plane->device, err);
    if (r < 0)
        return r;
    r = plane->nccl->init_rank(&plane->comm, plane->n, words[0].id, plane->me, &config);
    rg_gpu_leave();
    if (r != RG_NCCL_SUCCESS && r != RG_NCCL_IN_PROGRESS)
        return rg_nccl_error(plane->nccl, r, "NCCL does not start", err);
    plane->phase = RG_NCCL_STARTING;
    return 0;
}

/* ---- operations */

static int post_fused(void *state, const struct rg_coll *colls, int n)
{
    struct rg_nccl_plane *plane = state;

    if (plane->phase == RG_NCCL_DEAD)
        return -ECONNRESET;
    if (n > plane->capacity) {
        struct rg_coll *room = realloc(plane->colls, (size_t) n * sizeof(*room));

        if (!room)
            return -ENOMEM;
        plane->colls = room;
        plane->capacity = n;
    }
    memcpy(plane->colls, colls, (size_t) n * sizeof(*colls));
    plane->ncolls = n;
    plane->active = true;
    return 0;
}

static int post(void *state, const struct rg_coll *coll)
{
    return post_fused(state, coll, 1);
}

/* Of a fault of the GPU NCCL says only that there was one, and the driver which. */
static int fail(const struct rg_nccl_plane *plane, int result, struct rg_error *err)
{
    struct rg_gpu_mark *mark = NULL;
    struct rg_error why = RG_ERROR_INIT;
    void *stream = plane->ncolls > 0 && plane->colls[0].stream ? plane->colls[0].stream
                                                               : plane->stream;

    if (result == RG_NCCL_UNHANDLED_CUDA_ERROR &&
        rg_gpu_mark(plane->device, stream, &mark, &why) < 0)
        return rg_error_set(err, EIO, "NCCL failed: %s", why.text);
    rg_gpu_mark_unref(mark);
    return rg_nccl_error(plane->nccl, result, "NCCL failed", err);
}

/* 1: NCCL is through with what it was asked for, 0: not yet, -errno. */
static int look(struct rg_nccl_plane *plane, struct rg_error *err)
{
    int state = RG_NCCL_SUCCESS, r = plane->nccl->async_error(plane->comm, &state);

    if (r == RG_NCCL_SUCCESS)
        r = state;
    if (r == RG_NCCL_IN_PROGRESS)
        return 0;
    return r == RG_NCCL_SUCCESS ? 1 : fail(plane, r, err);
}

/* Launched: in order on the stream. */
static int end_operation(struct rg_nccl_plane *plane, struct rg_error *err)
{
    void *stream = plane->colls[0].stream ? plane->colls[0].stream : plane->stream;

    if (plane->premul >= 0)
        plane->nccl->op_destroy(plane->premul, plane->comm);
    plane->premul = -1;
    plane->phase = RG_NCCL_READY;
    plane->active = false;
    rg_gpu_mark_unref(plane->last);
    plane->last = NULL;
    return rg_gpu_mark(plane->device, stream, &plane->last, err);
}

static int go_on(struct rg_nccl_plane *plane, bool *ret_moved, struct rg_error *err)
{
    int r = look(plane, err);

    if (r <= 0)
        return r;
    if (plane->phase == RG_NCCL_STARTING) {
        plane->phase = RG_NCCL_READY;
        *ret_moved = true;
    }
    if (!plane->active)
        return 1;
    if (plane->phase == RG_NCCL_READY) {
        r = rg_nccl_launch(plane, err);
        if (r < 0)
            return r;
        plane->phase = RG_NCCL_LAUNCHING;
        *ret_moved = true;
        r = look(plane, err);
    }
    if (r <= 0)
        return r;
    r = end_operation(plane, err);
    *ret_moved = true;
    return r < 0 ? r : 1;
}

/* Operations of tensors on another GPU than the communicator's are refused before (call.h). */
static int progress(void *state, bool *ret_moved, struct rg_error *err)
{
    struct rg_nccl_plane *plane = state;
    struct rg_error cause = RG_ERROR_INIT;
    int r;

    if (plane->phase == RG_NCCL_DEAD)
        return dead(plane, err);
    if (!plane->comm)
        return !plane->active ? 1 : rg_error_set(err, ENOTCONN, "the nccl plane was not wired up");
    r = rg_gpu_enter(plane->device, &cause);
    if (r == 0) {
        r = go_on(plane, ret_moved, &cause);
        rg_gpu_leave();
    }
    if (r < 0) {
        give_up(plane, &cause);
        return dead(plane, err);
    }
    return r;
}

/* An error on the stream shows here, as nobody waits for it: NCCL is told to let go of it. */
static int watch(void *state, struct rg_error *err)
{
    struct rg_nccl_plane *plane = state;
    struct rg_error cause = RG_ERROR_INIT;
    uint64_t now_ns = rg_now_ns();
    int r;

    if (plane->phase == RG_NCCL_DEAD)
        return dead(plane, err);
    if (!plane->last || now_ns < plane->watched_ns + WATCH_US * 1000)
        return 0;
    plane->watched_ns = now_ns;
    r = rg_gpu_mark_passed(plane->last, &cause);
    if (r == 1) {
        rg_gpu_mark_unref(plane->last);
        plane->last = NULL;
    }
    if (r >= 0)
        r = look(plane, &cause);
    if (r >= 0)
        return 0;
    give_up(plane, &cause);
    return dead(plane, err);
}

static unsigned poll_us(void *state)
{
    struct rg_nccl_plane *plane = state;

    if (plane->phase == RG_NCCL_DEAD || !plane->comm)
        return 0;
    if (plane->active || plane->phase == RG_NCCL_STARTING)
        return NAP_US;
    return plane->last ? WATCH_US : 0;
}

static void abort_nccl(void *state)
{
    give_up(state, NULL);
}

/* ---- the end */

/* All members end it; who does not come in time is not waited for. */
static void end_comm(struct rg_nccl_plane *plane, int timeout_ms)
{
    uint64_t until_ns = rg_now_ns() + (uint64_t) timeout_ms * RG_NS_PER_MS;
    int r = plane->phase == RG_NCCL_READY ? rg_gpu_mark_passed(plane->last, NULL) : -EBUSY;
    int result;

    while (r == 0 && rg_now_ns() < until_ns) {
        rg_sleep_ms(1);
        r = rg_gpu_mark_passed(plane->last, NULL);
    }
    if (r == 1) {
        result = plane->nccl->finalize(plane->comm);
        r = result == RG_NCCL_SUCCESS || result == RG_NCCL_IN_PROGRESS ? look(plane, NULL) : -EIO;
        while (r == 0 && rg_now_ns() < until_ns) {
            rg_sleep_ms(1);
            r = look(plane, NULL);
        }
    }
    if (r == 1)
        plane->nccl->destroy(plane->comm);
    else
        plane->nccl->abort(plane->comm);
    plane->comm = NULL;
}

static void close_nccl(void *state, int timeout_ms)
{
    struct rg_nccl_plane *plane = state;

    if (!plane)
        return;
    if (plane->comm && rg_gpu_enter(plane->device, NULL) == 0) {
        end_comm(plane, timeout_ms);
        rg_gpu_leave();
    }
    rg_gpu_mark_unref(plane->last);
    if (plane->device >= 0) {
        rg_gpu_free(plane->device, plane->stream, plane->scratch);
        rg_gpu_stream_destroy(plane->device, plane->stream);
    }
    free(plane->colls);
    free(plane);
}

static const struct rg_plane_late_ops late = { .nbytes = sizeof(struct rg_nccl_word),
                                               .offer = rg_nccl_offer, .wire = wire };

const struct rg_plane_ops rg_plane_nccl = {
    .name = "nccl",
    .scopes = 1u << RG_SCOPE_NODE | 1u << RG_SCOPE_ALL,
    .memories = 1u << RG_MEMORY_CUDA,
    .takes_streams = true,
    .open = open_nccl,
    .score = score,
    .post = post,
    .post_fused = post_fused,
    .progress = progress,
    .watch = watch,
    .poll_us = poll_us,
    .abort = abort_nccl,
    .close = close_nccl,
    .late = &late,
};
