/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts that a platform has started, and that call the head by themselves, as `reigen-agent pod`
 * does in them (agent/pod/pod.h): pods of Kubernetes, tasks of OpenPAI. The head is a process on
 * one of the hosts, or on none. It starts the agent of its own host, and listens for those of the
 * others, which prove themselves by the job's key.
 *
 * A host that is lost before all are there is awaited again; one that is lost later ends the job
 * with code 76, or 75 if it has said so. Nothing but its link tells of it. In an elastic job it is
 * awaited again at any time, as another host of the same name: who calls is the last of that name.
 *
 * Hosts that were there before the job, or stay when it is started again, are told by one line on
 * the link, "JOB-ID DIRECTORY", before anything else: the link's handshake wants the id, and each
 * start has one of its own. Another process than
 * a head may listen for them meanwhile (agent/wait/wait.h), which says RG_POD_WAIT.
 *
 * The functions are driver.h's, under its rules.
 */
#ifndef RG_PLATFORM_COMMON_CALLERS_H
#define RG_PLATFORM_COMMON_CALLERS_H

#include "launch/host/driver.h"
#include "launch/host/listener.h"
#include "launch/plan/plan.h"
#include "wire/link.h"

#define RG_POD_WAIT "wait" /* the line of who only wants to know that a host is there, */
#define RG_POD_GO "go"     /* and the next one, when all are; its end is the head's task's */
#define RG_POD_OVER "over" /* or this, when it has ended without them */
#define RG_POD_WRONG_KEY "it has called with another key" /* a host's phase, in words */

/* What is particular to a platform. */
struct rg_pods_kind {
    const char *pending;  /* of a host that has not called yet: "its pod has not called yet" */
    const char *stopping; /* why the platform ends a host: for driver.h's stopping */
    const char *unseen;   /* of a host whose link has ended: for driver.h's unseen */
    const char *given_up; /* of a host that is not waited for any more */
    bool orders;          /* the hosts were there before the job, or outlive its starts */
    /* The port of the head, the same on all hosts. 0; -errno with exit code 2. */
    int (*port)(int *ret_port, struct rg_error *err);
    /* Why a port cannot be listened on, for people: sets err, and returns -errnum. */
    int (*port_taken)(int port, int errnum, struct rg_error *err);
    /* Whether this process runs on that host. */
    bool (*is_own)(const struct rg_plan *plan, int host);
    /* Whether who calls himself so is that host. */
    bool (*is_place)(const char *place, const struct rg_plan *plan, int host);
    /* NULL, or: the key as it is now, where somebody may give the hosts another one while they are
     * waited for. It is asked when one has called with a key that is not the job's: the job cannot
     * begin any more when its own has changed. 0 or -errno. */
    int (*key)(uint8_t ret_key[RG_KEY_NBYTES], struct rg_error *err);
};

int rg_pods_start(const struct rg_pods_kind *kind, const struct rg_driver_options *options,
                  void **ret_state, struct rg_error *err);
int rg_pods_add(void *state, int host, struct rg_error *err);
const char *rg_pods_stopping(void *state, bool by_root);
const char *rg_pods_unseen(void *state, int host);
void rg_pods_stop(void *state, int host);
void rg_pods_destroy(void *state);

#endif
