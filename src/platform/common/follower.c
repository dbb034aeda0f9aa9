/* SPDX-License-Identifier: Apache-2.0 */
/* Servers go away and come back, and a job has one end, whoever looks on. */
#include "platform/common/follower.h"

#include <stdarg.h>
#include <stdio.h>

#define COMPLAINTS_MAX 3 /* of one kind, one after the other */

void rg_remark(void (*say)(void *arg, const char *text), void *arg, const char *fmt, ...)
{
    char text[RG_ERROR_TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    say(arg, text);
}

void rg_follower_tell(void *arg)
{
    struct rg_follower *f = arg;

    f->o.on_done(f->o.arg, f->exit_code, f->err.errnum ? &f->err : NULL);
}

void rg_follower_finish(struct rg_follower *f, int exit_code)
{
    if (f->done)
        return;
    f->done = true;
    f->exit_code = exit_code;
    rg_timer_stop(&f->end_timer);
    if (!f->close(f->state))
        rg_timer_start(&f->done_timer, f->o.loop, 0, 0, rg_follower_tell, f);
}

void rg_follower_leave(struct rg_follower *f)
{
    rg_error_prepend(&f->err, "job %s goes on, but cannot be followed (reigen stop %s ends it)",
                     f->o.submitted->id, f->o.submitted->id);
    rg_follower_finish(f, RG_FOLLOW_LEFT);
}

bool rg_follower_bears(struct rg_follower *f, enum rg_trouble trouble, int *ncomplaints,
                       const struct rg_error *cause)
{
    if (trouble == RG_TROUBLE_PASSES) {
        if (!f->away)
            rg_follower_sayf(f, "%s; the job goes on, and so does this as soon as it answers",
                             cause->text);
        f->away = true;
        return true;
    }
    if (trouble == RG_TROUBLE_ODD && ++*ncomplaints < COMPLAINTS_MAX)
        return true;
    f->err = *cause;
    rg_follower_leave(f);
    return false;
}

void rg_follower_is_back(struct rg_follower *f)
{
    if (f->away)
        rg_follower_sayf(f, "%s answers again", f->who);
    f->away = false;
}

bool rg_follower_end(struct rg_follower *f, void (*late)(void *state))
{
    if (f->ending || f->done)
        return false;
    f->ending = true;
    rg_timer_start(&f->end_timer, f->o.loop, RG_FOLLOWER_END_MS, 0, late, f->state);
    return true;
}

void rg_follower_fini(struct rg_follower *f)
{
    rg_timer_stop(&f->end_timer);
    rg_timer_stop(&f->done_timer);
}
