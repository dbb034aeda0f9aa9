/* SPDX-License-Identifier: Apache-2.0 */
/* A job's output, for who was not there, or looks on again. */
#include "launch/host/showlog.h"

#include "base/exitcode.h"
#include "base/fd.h"

struct show {
    const struct rg_show_log *o;
    struct rg_loop *loop;
    int lost; /* -errno of standard output */
    struct rg_error err;
};

static void show_output(void *arg, const void *bytes, size_t nbytes)
{
    struct show *show = arg;
    int r = show->lost ? 0 : rg_write_all(show->o->fd, bytes, nbytes);

    if (r < 0) {
        show->lost = r;
        rg_loop_stop(show->loop);
    }
}

static void show_remark(void *arg, const char *text)
{
    const struct show *show = arg;

    show->o->on_say(NULL, text);
}

static void show_phase(void *arg, int host, int phase, const char *reason)
{
    (void) arg, (void) host, (void) phase, (void) reason;
}

static void show_running(void *arg)
{
    (void) arg;
}

static void show_done(void *arg, int exit_code, const struct rg_error *err)
{
    struct show *show = arg;

    if (err && exit_code < 0)
        show->err = *err;
    else if (err)
        show->o->on_say(NULL, err->text);
    rg_loop_stop(show->loop);
}

int rg_show_log(const struct rg_show_log *options, const struct rg_submitted_job *job,
                struct rg_error *err)
{
    struct show show = { .o = options };
    void *state;

    if (rg_loop_create(&show.loop) < 0)
        return rg_error_memory(err);
    const struct rg_follow_options followed = { .loop = show.loop, .submitted = job,
                                                .nhosts = options->nhosts,
                                                .on_phase = show_phase,
                                                .on_running = show_running,
                                                .on_output = show_output, .on_say = show_remark,
                                                .on_done = show_done, .arg = &show };
    int r = options->follow(&followed, &state, err);
    if (r == 0) {
        rg_loop_run(show.loop);
        options->unfollow(state);
    }
    rg_loop_destroy(show.loop);
    if (show.lost)
        return rg_error_set_exit(err, -show.lost, RG_EXIT_OUTPUT_LOST, "standard output was lost");
    if (r == 0 && show.err.errnum) {
        *err = show.err;
        r = -show.err.errnum;
    }
    return r;
}
