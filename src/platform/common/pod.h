/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pod that this process is in: a host of a job that a platform has started, and which finds in
 * files and variables what it is to do (agent/pod/pod.h). A platform says which pod it is, and the
 * rest is equal for all.
 *
 * Thread rule: main thread, as the environment is read.
 */
#ifndef RG_PLATFORM_COMMON_POD_H
#define RG_PLATFORM_COMMON_POD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "launch/plan/plan_file.h"
#include "wire/auth.h"
#include "wire/link.h"

#define RG_POD_ADDRESS_MAX 128

/* A container that is killed from outside, or lost with its node, has one of these exit codes. The
 * Job can tell them from a verdict only where the head, whose verdict is such a code, ends with
 * RG_POD_FAILED: its termination message has the code. */
#define RG_POD_KILLED 137
#define RG_POD_LOST 255
#define RG_POD_FAILED 1

#define RG_POD_RESTARTS 3 /* how often the job is started again, however often pods are lost */

struct rg_pod {
    bool planned; /* the job's plan is here; else the pod waits for jobs */
    bool leads;   /* the head runs here */
    bool ends_alike; /* it ends with the job's exit code: whichever host's end the platform sees
                      * first, it takes for that of the job */
    char place[RG_AUTH_PLACE_MAX + 1]; /* what this pod is called at the head; not of the head */
    char address[RG_POD_ADDRESS_MAX];  /* where the head listens; likewise */
    const char *itself; /* in sentences: "this pod" */
    const char *head;   /* the same of the head: "the pod of index 0" */
    const char *doubt;  /* why a head may not answer, as a question */
    const char *words;  /* a file that is there, for how the pod has ended; NULL: nobody reads it */
    const char *ready;  /* a file that says, by being there, that the pod waits; or NULL */
    const char *known_as; /* the name that the job was given; NULL: nobody asks for it here */
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

/* What a driver of the agent's says of that (launch/host/driver.h). here: whether this process is
 * in a pod of the platform's. find fills a zeroed one: which it is. 0 or -errno with an exit code,
 * and then words is set all the same. */
struct rg_pod_platform {
    bool (*here)(void);
    int (*find)(struct rg_pod *pod, struct rg_error *err);
};

#endif
