/* SPDX-License-Identifier: Apache-2.0 */
/* What horovodrun does where a host is not this computer. */
#include <stdio.h>
#include <string.h>

#include "spec/horovodrun/horovodrun_apply.h"
#include "spec/job/hostlist.h"

extern char **environ;

/* Variables that say where or who one is; those of the other host are right there. */
static const char *const own[] = {
    "HOME",   "USER",     "LOGNAME", "SHELL", "PWD",     "OLDPWD",   "SHLVL",
    "_",      "HOSTNAME", "TERM",    "TTY",   "DISPLAY", "WINDOWID", "MAIL",
    "TMPDIR", "LS_COLORS",
};
static const char *const own_prefixes[] = {
    "SSH_", "XDG_", "DBUS_", "BASH_FUNC_", "REIGEN_", "TMUX", "SUDO_",
};

static bool is_own(const char *name)
{
    for (size_t i = 0; i < rg_array_len(own); i++) {
        if (strcmp(name, own[i]) == 0)
            return true;
    }
    for (size_t i = 0; i < rg_array_len(own_prefixes); i++) {
        if (rg_str_starts(name, own_prefixes[i]))
            return true;
    }
    return false;
}

static bool is_named(const struct rg_job *job, const char *name)
{
    for (size_t i = 0; i < job->env.count; i++) {
        if (strcmp(job->env.v[i], name) == 0)
            return true;
    }
    return rg_env_get(&job->env, name) != NULL;
}

static int hand_on(struct rg_job *job, const char *entry)
{
    size_t n = strcspn(entry, "=");
    rg_autofree char *name = strndup(entry, n);

    if (!name)
        return -ENOMEM;
    if (!n || is_own(name) || is_named(job, name))
        return 0;
    return rg_strv_add(&job->env, name);
}

int rg_hvd_finish_remote(struct rg_horovodrun *run, struct rg_error *err)
{
    struct rg_job *job = &run->request.job;
    bool remote = false;
    int rc = 0;

    for (size_t i = 0; i < job->nhosts; i++)
        remote |= job->hosts[i].user || !rg_host_is_local(job->hosts[i].name);
    if (!remote)
        return 0;
    for (char **entry = environ; rc == 0 && *entry; entry++)
        rc = hand_on(job, *entry);
    if (rc == 0)
        rc = rg_strv_add(&job->ssh_options, "StrictHostKeyChecking=accept-new");
    return rc < 0 ? rg_error_set(err, ENOMEM, "out of memory") : 0;
}
