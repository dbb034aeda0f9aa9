/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drivers of a head that runs in a task of an OpenPAI job (tasks.h): the other tasks call it
 * (platform/common/callers.h), each by its host's name, as "worker-0".
 *
 * rg_driver_openpai_head is what the head of a job of `reigen run --on openpai` has: reigen-agent's
 * driver of the name "openpai", whose plan has all tasks as its hosts.
 *
 * rg_driver_openpai_tasks is for a job of the user's own, on whose master `reigen run` runs: it
 * finds the tasks as hosts, with a slot for each GPU, or one. Without a word about hosts, a job
 * within such a task is its job.
 */
#ifndef RG_PLATFORM_OPENPAI_INSIDE_TASKS_DRIVER_H
#define RG_PLATFORM_OPENPAI_INSIDE_TASKS_DRIVER_H

#include "launch/host/driver.h"

extern const struct rg_driver_ops rg_driver_openpai_head;
extern const struct rg_driver_ops rg_driver_openpai_tasks;

#endif
