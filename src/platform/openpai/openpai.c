/* SPDX-License-Identifier: Apache-2.0 */
/* The driver. It is on the user's computer alone: what the head has in its task is another one. */
#include "platform/openpai/door.h"

#include "platform/openpai/outside/user.h"

static const struct rg_queue_ops queue_ops = {
    .submit = pai_submit,
    .status = pai_status,
    .logs = pai_logs,
    .cancel = pai_cancel,
};

static const struct rg_away_ops away_ops = {
    .describe = pai_describe,
    .find = pai_find,
    .follow = pai_follow,
    .end = pai_end,
    .unfollow = pai_unfollow,
};

const struct rg_driver_ops rg_driver_openpai = {
    .platform = {
        .name = "openpai",
        .title = "OpenPAI",
        .about = ", tasks of a job on an OpenPAI cluster",
        .options = pai_options,
        .places = { "pai-server", "pai-user" },
        .finds_hosts = true,
        .own_cpus = true,
        .clears_up = true,
        .queues = true,
        .own_containers = true,
        .away = true,
        .takes_files = true,
        .elastic = true,
    },
    .discover = pai_discover,
    .queue = &queue_ops,
    .away = &away_ops,
};
