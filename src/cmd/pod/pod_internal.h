/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share: a platform says which pod this process is in, and the rest
 * is equal for all.
 *
 * Thread rule: main thread.
 */
#ifndef RG_CMD_POD_POD_INTERNAL_H
#define RG_CMD_POD_POD_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/start/dial.h"
#include "base/error.h"
#include "launch/plan/plan_file.h"
#include "wire/link.h"

#define RG_POD_ADDRESS_MAX 128

struct rg_pod {
    bool planned; /* the job's plan is here; else the pod waits for jobs */
    bool leads;   /* the head runs here */
    bool ends_alike; /* it ends with the job's exit code: whichever host's end the platform sees
                      * first, it takes for that of the job */
    char place[RG_DIAL_PLACE_MAX + 1]; /* what this pod is called at the head; not of the head */
    char address[RG_POD_ADDRESS_MAX];  /* where the head listens; likewise */
    const char *itself; /* in sentences: "this pod" */
    const char *head;   /* the same of the head: "the pod of index 0" */
    const char *doubt;  /* why a head may not answer, as a question */
    const char *words;  /* a file that is there, for how the pod has ended; NULL: nobody reads it */
    const char *ready;  /* a file that says, by being there, that the pod waits; or NULL */
    const char *run;    /* can be written to where all else is read-only; or NULL */
    /* NULL, or: a pod with a plan stays where it is when another one is lost, and the head starts
     * the job again, with those that have stayed and the one that takes the lost one's place. How
     * long the platform waits before it makes that, when it was lost n times. */
    uint64_t (*backoff_ms)(int n);
    bool log;           /* the platform keeps what the head writes, and not all of it for long */
    int nstarts;        /* of the head: how often the job was started before, in other pods */
    uint64_t wait_ms;   /* how long a pod without a plan calls until it is answered first; 0: as
                         * long as it takes */
    /* 0; -errno with exit code 2. It is asked before each call, as it may change. */
    int (*key)(uint8_t ret_key[RG_KEY_NBYTES], struct rg_error *err);
    /* The plan of one that is planned. 0; -errno with exit code 2. */
    int (*plan)(struct rg_planned *planned, struct rg_error *err);
};

/* A platform: whether this process is in a pod of its, and which one. find fills a zeroed one; 0 or
 * -errno with an exit code, and then words is set all the same. */
struct rg_pod_platform {
    bool (*here)(void);
    int (*find)(struct rg_pod *pod, struct rg_error *err);
};
extern const struct rg_pod_platform rg_pod_kubernetes;
extern const struct rg_pod_platform rg_pod_openpai;

/* One JSON object with exit_code, cause, and fault, whether it is this pod that could not do its
 * part, into pod->words; nothing for code 0. */
void rg_pod_leave_words(const struct rg_pod *pod, int code, bool fault, const char *text);
/* Tell err, in the log and in words. Its exit code. */
int rg_pod_fail(const struct rg_pod *pod, const struct rg_error *err);

/* Until the head answers, for limit_ms from begin_ns on (0: there is no limit, and the log says
 * what is in the way), or until watched_fd (-1: none) has something to read. The socket; -ETIMEDOUT
 * with exit code 124; -EINTR: watched_fd. key is read anew for each call. */
int rg_pod_call(const struct rg_pod *pod, uint8_t key[RG_KEY_NBYTES], uint64_t begin_ns,
                uint64_t limit_ms, int watched_fd, struct rg_error *err);

/* Do what the plan has for this pod, which is not the head's: one start of the job, or, where there
 * is backoff_ms, start after start. The exit code, or -errno. */
int rg_pod_work(const struct rg_pod *pod, const struct rg_planned *planned, struct rg_error *err);
/* Job after job. The exit code: 75, told to stop; 0: the head's task is over; or -errno. */
int rg_pod_wait(const struct rg_pod *pod, struct rg_error *err);

/* A process 1 ignores what it does not handle: SIGTERM ends it with code 75. */
void rg_pod_obey(void);

#endif
