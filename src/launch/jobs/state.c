/* SPDX-License-Identifier: Apache-2.0 */
/* What the two kinds of files about jobs have in common. */
#include "launch/jobs/state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"

char *jobs_folder(const char *name)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    struct stat st;

    if (state && *state == '/')
        return rg_strf("%s/reigen/%s", state, name);
    /* Debian's system users have a home that is not there, and it is not for us to make it. */
    return home && *home == '/' && stat(home, &st) == 0 && S_ISDIR(st.st_mode)
               ? rg_strf("%s/.local/state/reigen/%s", home, name) : NULL;
}

char *jobs_path(const char *name, const char *id)
{
    rg_autofree char *dir = jobs_folder(name);

    return dir ? rg_strf("%s/%s", dir, id) : NULL;
}

bool jobs_is_id(const char *text)
{
    return *text && *text != '-' &&
           !text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-")];
}

void jobs_put(struct rg_buf *text, const char *value)
{
    for (const char *p = value; *p; p++)
        rg_buf_printf(text, "%c", (unsigned char) *p < ' ' ? ' ' : *p);
}

void jobs_put_command(struct rg_buf *text, const struct rg_job *job)
{
    if (job->nroles && job->file_name) {
        rg_buf_printf(text, "--config ");
        jobs_put(text, job->file_name);
        return;
    }
    if (job->title && !job->nroles) {
        jobs_put(text, job->title);
        return;
    }
    for (size_t i = 0; i < job->nroles; i++) {
        rg_buf_printf(text, i ? " " : "roles ");
        jobs_put(text, job->roles[i].name);
    }
    for (size_t i = 0; !job->nroles && i < job->command.count; i++) {
        rg_buf_printf(text, "%s", i ? " " : "");
        jobs_put(text, job->command.v[i]);
    }
}
