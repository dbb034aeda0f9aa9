/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `wait-workers`, of reigen-agent; reigen's own runs it (command.h). In the place of a sleep before
 * an mpirun, the head of a job waits by it until every worker is ready:
 *
 *     with ssh     `ssh -o BatchMode=yes -o ConnectTimeout=5 HOST true` works
 *     without      the worker runs `wait-workers`, too, and has called the head with the job's key
 *                  (rg_tasks_key): platform/common/callers.h has the words that are exchanged
 *
 * A worker that runs it stays, does the jobs of the head's `reigen run` (agent/pod/pod.h), and ends
 * with 0 when the head's task is over. For that the head leaves a keeper behind, which holds the
 * workers' connections: a process in a session of its own, that ends when the process does which
 * has started wait-workers, such as the script that it stands in. With a wait that ends without all
 * workers, those that have called it end, too.
 *
 * Exit codes: 0; 2, usage; 69, the head's port cannot be listened on; 124, somebody is missing, who
 * is named, or no head has answered, or its wait has ended so; a signal's own, which ends the wait.
 *
 * Thread rule: main thread. Blocks.
 */
#ifndef RG_AGENT_WAIT_WAIT_H
#define RG_AGENT_WAIT_WAIT_H

/* argv[0] is "wait-workers". The exit code. */
int rg_wait_main(int argc, char **argv);

#endif
