/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that is stayed with, as the files have it that stay with it: follow.c its pods,
 * its Job and its end, follow_log.c the log of its head, follow_stream.c what both read by.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_PLATFORM_KUBERNETES_OUTSIDE_FOLLOWED_H
#define RG_PLATFORM_KUBERNETES_OUTSIDE_FOLLOWED_H

#include "platform/common/follower.h"
#include "platform/kubernetes/outside/internal.h"

struct follow;

/* What is read, and taken up again after a cut. */
struct watched {
    struct kube_stream stream;
    struct rg_timer timer;      /* until the next try */
    uint64_t pause_ms;
    uint64_t since_ns;          /* of its last begin */
    int ncomplaints;            /* since it worked */
};

/* What has been told so far. */
struct told {
    bool job;          /* the answer about the Job has come */
    bool head;         /* of the head's pod, since the pods were asked after */
    bool over;         /* it was */
    bool wants_events; /* as soon as the uid is known */
    char uid[64];      /* the Job's: an older one of its name has left events */
};

/* The head's log. */
struct followed_log {
    struct kube_log lines;
    char pod[256];             /* whose log it is */
    uint64_t at_ns;            /* when it has last come on, or the Job was seen to be over */
    uint64_t read_nbytes;      /* of it, when it was read to its end last */
    struct rg_timer held_timer; /* for lines that are held */
    bool over;                 /* it was read to its end */
    void (*on_over)(struct follow *f);
};

struct follow {
    struct rg_follower us;
    char place_text[KUBE_TEXT_MAX];
    struct kube_place place;
    char selector[KUBE_TEXT_MAX]; /* of its pods */
    struct kube_host *hosts;   /* us.o.nhosts, by index */
    struct kube_pod head;      /* the newest pod 0; no name: there was none */
    struct watched pods, logs, events, job;
    struct told told;
    struct followed_log log;
    struct kube_stream end_stream;
    struct kube_memory memory;
    struct rg_timer start_timer, stuck_timer, lost_timer;
    uint64_t lost_ms;          /* that Kubernetes waits before it replaces those that are lost */
    uint64_t begun_ns;
    bool running;              /* all pods do, or did; of an elastic job, the head's */
    bool elastic;              /* pods come and go while the job goes on */
    bool gone;                 /* the Job is deleted, by us */
};

/* --- follow_stream.c -------------------------------------------------------------------------- */

/* As kube_stream_start: the place and what is asked are the stream's while it goes on. */
int follow_start_stream(struct follow *f, struct kube_stream *stream,
                        const struct kube_request *request, struct kube_listener listener,
                        struct rg_error *err);
/* A stream was cut. Whether to go on: what is refused once is refused again. */
bool follow_may_retry(struct follow *f, struct watched *watched);
/* Streams that are cut at once are not begun at once each time. */
void follow_try_again(struct watched *watched, struct follow *f, void (*start)(void *arg));

/* --- follow_log.c ----------------------------------------------------------------------------- */

/* Read the log of log.pod, from where it was cut; arg: the follow. */
void follow_start_log(void *arg);
/* It is read no more, nor taken up again. */
void follow_stop_log(struct follow *f);

#endif
