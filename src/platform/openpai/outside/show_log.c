/* SPDX-License-Identifier: Apache-2.0 */
/* reigen logs, for who was not there, or looks on again. */
#include "base/exitcode.h"
#include "base/fd.h"
#include "launch/host/showlog.h"
#include "platform/openpai/outside/internal.h"

#define LOG_MS 60000 /* a log that is not followed */
/* What the head's log has now. A long one comes in pieces. */
static int show_log(struct pai_server *server, const struct pai_task *task, int fd,
                    struct rg_error *err)
{
    rg_cleanup(pai_log_fini) struct pai_log log = { .offset = 0 };
    const struct pai_request request = { .verb = PAI_LOG, .url = task->log, .places = task->places,
                                         .once = true, .log = &log, .ms = LOG_MS };
    size_t nbytes = 1;
    int r = 0;

    while (r == 0 && nbytes) {
        PAI_AUTO_ANSWER struct pai_answer answer = { .was_there = false };
        r = pai_ask(server, &request, &answer, NULL, err);
        nbytes = r == 0 ? rg_buf_nbytes(&answer.text) : 0;
        if (nbytes && rg_write_all(fd, rg_buf_bytes(&answer.text), nbytes) < 0)
            return rg_error_set_exit(err, EPIPE, RG_EXIT_OUTPUT_LOST, "standard output was lost");
        if (nbytes < PAI_LOG_MAX)
            break;
    }
    return r;
}

static int show_all(const struct rg_submitted_job *job, int fd, struct rg_error *err)
{
    PAI_AUTO_SERVER struct pai_server *server = NULL;
    PAI_AUTO_ANSWER struct pai_answer answer = { .was_there = false };
    rg_cleanup(pai_where_fini) struct pai_where where = { .text = NULL };
    int r = pai_open_submitted(job, &where, &server, err);

    const struct pai_request look = { .verb = PAI_LOOK, .user = where.user, .name = job->id };
    r = r < 0 ? r : pai_ask(server, &look, &answer, NULL, err);
    if (r < 0)
        return r;
    const struct pai_task *head = pai_head_of(&answer.job);
    if (!head || !*head->log)
        return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                                 "it has no log there: it is %s",
                                 pai_state_name(answer.job.state));
    return show_log(server, head, fd, err);
}

int pai_logs(const struct rg_submitted_job *job, bool follow, int fd,
             void (*on_say)(void *arg, const char *text), struct rg_error *err)
{
    const struct rg_show_log show = { .follow = pai_follow, .unfollow = pai_unfollow, .fd = fd,
                                      .on_say = on_say };

    return follow ? rg_show_log(&show, job, err) : show_all(job, fd, err);
}
