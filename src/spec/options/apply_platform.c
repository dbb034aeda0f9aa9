/* SPDX-License-Identifier: Apache-2.0 */
/* The options that say on which platform a job runs, and those that a platform alone takes: their
 * values are kept as they are, and its driver reads them. */
#include <string.h>

#include "spec/job/platform.h"
#include "spec/options/apply.h"

int rg_apply_submit(struct rg_request *request, const char *what, const char *value,
                    struct rg_error *err)
{
    (void) what, (void) err;
    request->job.submit = strcmp(value, "true") == 0;
    return 0;
}

int rg_option_apply(const struct rg_option *option, struct rg_request *request, const char *what,
                    const char *value, struct rg_error *err)
{
    return option->apply ? option->apply(request, what, value, err)
                         : rg_request_set(request, option->name, what, value, err);
}

int rg_request_set(struct rg_request *request, const char *name, const char *what,
                   const char *value, struct rg_error *err)
{
    struct rg_strv *settings = &request->job.settings;
    const struct rg_option *option = rg_option_find(name);

    if (!*value)
        return rg_error_set(err, EINVAL, "%s: the value is empty", what);
    int r = option && option->file == RG_FILE_LIST ? rg_strv_addf(settings, "%s=%s", name, value)
                                                   : rg_env_set(settings, name, value);
    return r < 0 ? rg_error_set(err, ENOMEM, "out of memory") : 0;
}

static int refuse(const char *given, const char *prefix, const struct rg_platform *whose,
                  struct rg_error *err)
{
    return rg_error_set(err, EINVAL, "%s%s is for %s; say --on %s, too", prefix, given,
                        whose->title, whose->name);
}

/* One that is given as an option of another program's is told as that. */
static int check_options(const struct rg_job *job, const struct rg_platform *other,
                         struct rg_error *err)
{
    for (const struct rg_option *o = other->options; o && o->name; o++) {
        const char *value = rg_env_get(&job->settings, o->name);
        if (value)
            return *value == '-' ? refuse(value, "", other, err)
                                 : refuse(o->name, "--", other, err);
    }
    return 0;
}

int rg_request_settle_platform(const struct rg_request *request, struct rg_error *err)
{
    const struct rg_platform *own = rg_platform_of(&request->job);
    bool submit = request->job.submit && !own->queues;
    int r = 0;

    for (const struct rg_platform *const *p = rg_platforms(); r == 0 && *p; p++) {
        if (*p != own)
            r = check_options(&request->job, *p, err);
        if (r == 0 && submit && (*p)->queues)
            r = refuse("submit", "--", *p, err);
    }
    return r == 0 && submit ? rg_error_set(err, EINVAL, "--submit: nothing here runs jobs later")
                            : r;
}
