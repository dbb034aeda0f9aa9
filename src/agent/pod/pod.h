/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `reigen-agent pod`: what each host of a job runs that a platform has started, in any image and as
 * any user, with a root that may be read-only. No name is looked up, and the platform is asked
 * nothing. The head (head/head.h) runs on one of the hosts. The others call it until it
 * answers, for as long as the plan's --start-timeout, also again when their link ends before the
 * start, as a head that was lost comes again. The head's code is the job's. The others end with
 *
 *     0     the job has ended well
 *     75    it has not, or this host was told to stop. On OpenPAI a job that has not ended well
 *           gives its own code to all hosts, as the platform takes the first end that it sees for
 *           the job's, and so do hosts whose head is gone
 *     124   no head has answered in time
 *
 * On Kubernetes a host that is lost is replaced, and the others stay for that: they end their ranks
 * and call again when the head is gone, or the job was ended with 75 or 76, as the head starts it
 * again up to three times. A head that may not any more, or whose ranks end the job with a code
 * that Kubernetes gives to pods that it has lost, ends with 1, as the Job is to fail.
 *
 * A host without a plan was there before its jobs. It calls the head until one answers, which may
 * take days. It does that job, however it ends, and calls again, until somebody ends it (75). Only
 * what it cannot do without (key, address, name) ends it by itself. Where `reigen wait-workers` has
 * said on the head that all are there (agent/wait/wait.h), it ends with 0 when the task of the head
 * does.
 *
 * On Kubernetes:
 *
 *     /reigen/agent/reigen-agent   this program
 *     /reigen/job/plan             what is to be run (launch/plan/plan_file.h)
 *     /reigen/key/key              the job's key, 64 hexadecimal digits
 *     /reigen/run                  can be written
 *     /reigen/bundle/0, 1, ...     perhaps: the archive of our Python packages that the plan speaks
 *                                  of (container/bundle.h), packed (container/lz4.h) and cut
 *                                  anywhere
 *     JOB_COMPLETION_INDEX         which pod it is; 0 is the head. Without it there is no plan
 *     REIGEN_POD_SERVICE           the Service by whose <NAME>_SERVICE_HOST the head is called
 *     REIGEN_POD_PORT              its port; 7461 where that is not set
 *     REIGEN_POD_NAME              what a pod without a plan is called; and, if that is set, ".",
 *     REIGEN_POD_MARK              and this
 *     REIGEN_POD_FAILURES, REIGEN_POD_DISRUPTIONS
 *                                  how often the pod of this index was lost before
 *     /dev/termination-log         if it is there: what happened, as one JSON object with exit_code
 *                                  and cause; the head's has what --json's verdict has
 *
 * In a task of OpenPAI's:
 *
 *     PAI_*                        which task it is (platform/openpai/inside/tasks.h)
 *     REIGEN_PLAN                  what is to be run, in base64 (RFC 4648). Without it there is no
 *                                  plan, and `reigen run` is the head
 *     REIGEN_KEY, ...              the job's key, see rg_tasks_key. The ranks do not get it
 */
#ifndef RG_AGENT_POD_POD_H
#define RG_AGENT_POD_POD_H

#include <stdint.h>

/* The exit code. Main thread; blocks until the pod has done its part. rg_drivers_init was called
 * before. */
int rg_pod_main(void);

/* Be a host without a plan: place calls the head at address, as rg_agent_dial takes it; NULL: what
 * OpenPAI's variables tell. For wait_ms at most until a head answers first; 0: as long as it takes.
 * The exit code; else as rg_pod_main. */
int rg_pod_wait_main(const char *address, const char *place, uint64_t wait_ms);

#endif
