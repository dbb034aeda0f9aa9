/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenPAI job that this process is in, as its variables tell: those of API v1, those of
 * protocol v2, and the older names that both still set.
 *
 *     PAI_CURRENT_TASK_ROLE_NAME                  or PAI_TASK_ROLE_NAME
 *     PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX    or PAI_TASK_INDEX, PAI_TASK_ROLE_INDEX
 *     PAI_TASK_ROLE_LIST                          or PAI_JOB_TASK_ROLE_LIST: "master,worker"
 *     PAI_TASK_ROLE_TASK_COUNT_<role>             or as many as PAI_TASK_ROLE_<role>_HOST_LIST has
 *     PAI_HOST_IP_<role>_<i>
 *     PAI_PORT_LIST_<role>_<i>_<label>            the first port counts
 *     PAI_RESOURCE_<role>, PAI_RESOURCE           "gpu,cpu,memory,shm"; v1 has its own role's alone
 *
 * Task i of role r is host r-i. The head is task 0 of the role `master`, where there is one, else
 * of the first role.
 *
 * Thread rule: main thread, as all of it reads the environment; only rg_tasks_key blocks, for a
 * small file.
 */
#ifndef RG_PLATFORM_OPENPAI_INSIDE_TASKS_H
#define RG_PLATFORM_OPENPAI_INSIDE_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "platform/common/pod.h"
#include "wire/link.h"

#define RG_TASKS_NAME_MAX 100 /* characters of a host's name */
#define RG_TASKS_ADDRESS_MAX 80
#define RG_TASKS_PORT "REIGEN_POD_PORT" /* in all tasks: the head's port in place of the job's */

struct rg_tasks {
    struct rg_strv names; /* of the hosts: the head, then the others in the order of the roles */
    int *nslots;          /* of each: its role's GPUs, or 1; owned */
    size_t capacity;      /* of nslots */
    size_t own;           /* which of them this process is in; 0: it is the head */
    bool ssh;             /* every other task has a port for ssh */
};

#define RG_TASKS_INIT { RG_STRV_INIT, NULL, 0, 0, false }

void rg_tasks_fini(struct rg_tasks *tasks);
#define RG_AUTO_TASKS rg_cleanup(rg_tasks_fini)

/* True within a task of OpenPAI's. */
bool rg_tasks_here(void);

/* job->notice_ms there: a task of protocol v2 is a pod, whose spec leaves Kubernetes' own time
 * between SIGTERM and SIGKILL as it is. 0: nobody knows. */
uint64_t rg_tasks_notice_ms(void);

/* Fill tasks, which is empty. 0; -EINVAL, -E2BIG with exit code 2, and err names the variable that
 * is missing or wrong; -ENOMEM. It is to be finished in any case. */
int rg_tasks_read(struct rg_tasks *tasks, struct rg_error *err);

/* Where the head listens: REIGEN_POD_PORT, else its port `reigen`, else `http`. */
int rg_tasks_port(int *ret_port, struct rg_error *err);
/* The same with its address, as rg_agent_dial takes it. 0; -EINVAL with exit code 2. */
int rg_tasks_head(char ret_address[RG_TASKS_ADDRESS_MAX], struct rg_error *err);

#define RG_TASKS_KEY_COMMAND "openssl rand -hex 32"
/* The job's key: what REIGEN_KEY is or the file of REIGEN_KEY_FILE has (rg_key_parse), else, with
 * API v1, one derived from the ssh private key that the platform puts into each of the job's
 * containers (rg_key_extract), ~/.ssh/USER~JOB or /root/.ssh/USER~JOB, USER~JOB being PAI_JOB_NAME
 * and the derivation's info. 0; -errno with exit code 2: err names what there is to set. */
int rg_tasks_key(uint8_t ret_key[RG_KEY_NBYTES], struct rg_error *err);
/* The same, once, and then what was found then: ranks are not to find REIGEN_KEY in the
 * environment. Main thread. */
int rg_tasks_take_key(uint8_t ret_key[RG_KEY_NBYTES], struct rg_error *err);
/* Take a variable out of the environment, also of that which /proc shows. */
void rg_tasks_forget(const char *name);

/* Which task this process is in (agent/pod/pod.h has the variables). */
extern const struct rg_pod_platform rg_pod_openpai;

#endif
