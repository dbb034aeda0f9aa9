/* SPDX-License-Identifier: Apache-2.0 */
/* An agent goes to hosts that have nothing of ours, so it must be found here first. */
#include "launch/host/agentfile.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/fd.h"
#include "base/exitcode.h"
#include "base/process/self.h"

extern char **environ;

int rg_agent_file_find(char path[PATH_MAX], struct rg_error *err)
{
    const char *named = getenv("REIGEN_AGENT");
    char dir[PATH_MAX];

    if (named && *named) {
        if (strlen(named) < PATH_MAX && access(named, X_OK) == 0) {
            strcpy(path, named);
            return 0;
        }
        return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                                 "REIGEN_AGENT is %s, which is no program", named);
    }
    if (rg_self_folder(dir) < 0)
        return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                                 "/proc is not mounted here, so it is not known where this program "
                                 "and reigen-agent beside it lie: mount it, or set REIGEN_AGENT to "
                                 "that one's path");
    if (rg_self_beside("reigen-agent", path) ||
        rg_self_beside("../libexec/reigen/reigen-agent", path) ||
        rg_self_beside("../agent/reigen-agent", path))
        return 0;
    return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                             "the program reigen-agent is neither in %s nor in "
                             "%s/../libexec/reigen; install Reigen again, or set REIGEN_AGENT "
                             "to its path",
                             dir, dir);
}

static int digest(struct rg_agent_file *file)
{
    unsigned char hash[crypto_hash_sha256_BYTES];

    if (sodium_init() < 0)
        return -ENOSYS;
    crypto_hash_sha256(hash, file->data, file->nbytes);
    sodium_bin2hex(file->digest, sizeof(file->digest), hash, sizeof(hash));
    snprintf(file->name, sizeof(file->name), "agent-%.16s", file->digest);
    return 0;
}

int rg_agent_file_load(const char *machine, struct rg_agent_file *ret_file, struct rg_error *err)
{
    struct rg_agent_file file = { .data = NULL };
    struct utsname here;
    char path[PATH_MAX], *data = NULL;
    int r = rg_agent_file_find(path, err);

    if (r < 0)
        return r;
    if (uname(&here) == 0 && strcmp(here.machine, machine) != 0) {
        size_t n = strlen(path);
        if (snprintf(path + n, sizeof(path) - n, "-%s", machine) >= (int) (sizeof(path) - n))
            return rg_error_set(err, ENAMETOOLONG, "%s: the name is too long", path);
    }
    r = rg_read_file(path, RG_AGENT_FILE_MAX, &data, &file.nbytes);
    if (r < 0)
        return rg_error_set_exit(err, -r, RG_EXIT_UNAVAILABLE, "cannot read %s: %s", path,
                                 strerror(-r));
    file.data = (uint8_t *) data;
    snprintf(file.machine, sizeof(file.machine), "%s", machine);
    if (digest(&file) < 0) {
        free(data);
        return rg_error_set_exit(err, ENOSYS, RG_EXIT_INTERNAL, "libsodium cannot start");
    }
    *ret_file = file;
    return 0;
}

void rg_agent_file_fini(struct rg_agent_file *file)
{
    free(file->data);
    *file = (struct rg_agent_file){ .data = NULL };
}

int rg_agent_env_make(const struct rg_job *job, bool (*drops)(const char *entry),
                      struct rg_strv *env)
{
    for (char **e = environ; e && *e; e++) {
        if (!drops || !drops(*e))
            rg_strv_add(env, *e);
    }
    for (size_t i = 0; job && i < job->share_env.count; i++)
        rg_env_unset(env, job->share_env.v[i]);
    if (!env->count)
        rg_strv_add(env, "LANG=C");
    return rg_strv_status(env);
}
