/* SPDX-License-Identifier: Apache-2.0 */
/* How a pod ends, and what it says last. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "agent/pod/internal.h"
#include "base/exitcode.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/say.h"

#define WORDS_MAX 600 /* of which each may become six; Kubernetes keeps 4096 bytes */

void rg_pod_leave_words(const struct rg_pod *pod, int code, bool fault, const char *text)
{
    rg_autobuf struct rg_buf line = RG_BUF_INIT;
    rg_autoclose int fd = pod->words ? open(pod->words, O_WRONLY | O_TRUNC | O_CLOEXEC) : -1;

    rg_buf_printf(&line, "{\"exit_code\":%d,\"fault\":%s,\"cause\":", code,
                  fault ? "true" : "false");
    rg_json_put_bytes(&line, text, strnlen(text, WORDS_MAX));
    rg_buf_printf(&line, "}\n");
    if (fd >= 0 && code)
        rg_write_all(fd, rg_buf_bytes(&line), rg_buf_nbytes(&line));
}

int rg_pod_fail(const struct rg_pod *pod, const struct rg_error *err)
{
    int code = err->exit_code ? err->exit_code : RG_EXIT_INTERNAL;

    rg_log(RG_LOG_ERROR, "%s", err->text);
    rg_pod_leave_words(pod, code, true, err->text);
    return code;
}

static void leave(int signo)
{
    (void) signo;
    _exit(RG_EXIT_PREEMPTED);
}

void rg_pod_obey(void)
{
    signal(SIGTERM, leave);
}

int rg_pod_give_up(int nlost, struct rg_error *err)
{
    return rg_error_set_exit(err, EIO, RG_EXIT_HOST_LOST, "the job is not started again: pods of "
                             "it were lost %d times", nlost);
}
