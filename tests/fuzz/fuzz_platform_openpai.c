/* SPDX-License-Identifier: Apache-2.0 */
/* What OpenPAI's server answers: jobs, lists, logins, refusals, the pages and the text of logs. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "platform/openpai/server/server_internal.h"

static void read_answers(const char *text, size_t nbytes)
{
    struct pai_job job = { .ntasks = 0 };
    struct pai_answer answer = { .was_there = false };
    char *token = NULL, *user = NULL;
    int r = pai_read_job(text, nbytes, &job);

    must(r == 0 || r == -EPROTO);
    must(r < 0 || (job.user && job.name && *pai_state_name(job.state)));
    for (size_t i = 0; r == 0 && i < job.ntasks; i++) {
        int port = pai_task_port(&job.tasks[i], "ssh");
        must(port >= 0 && port <= 65535);
    }
    if (r == 0) {
        int code = pai_job_exit(2, &job);
        must(code >= 0 && code <= 255 && (code == 0) == (job.state == PAI_SUCCEEDED));
    }
    pai_job_fini(&job);
    r = pai_read_jobs(text, nbytes, NULL, NULL, &answer.jobs);
    must(r == 0 || r == -EPROTO);
    pai_answer_fini(&answer);
    r = pai_read_login(text, nbytes, &token, &user);
    must(r == -EPROTO || (r == 0 && *token && user));
    free(token);
    free(user);
}

static void read_refusals(const char *text, size_t nbytes)
{
    static const long statuses[] = { 200, 400, 401, 404, 409, 429, 500, 503 };

    for (size_t i = 0; i < rg_array_len(statuses); i++) {
        struct pai_refusal refusal = { .why = PAI_FINE };
        pai_read_refusal(statuses[i], "text/plain", text, nbytes, &refusal);
        must(refusal.why != PAI_FINE && refusal.status == statuses[i]);
        must(strlen(refusal.text) < sizeof(refusal.text));
        must(strlen(refusal.code) < sizeof(refusal.code));
    }
}

/* Each half is told once, however the server tells them. */
static void read_logs(const char *text, size_t nbytes)
{
    struct pai_log log = { .offset = 0 };
    rg_autobuf struct rg_buf told = RG_BUF_INIT, shown = RG_BUF_INIT;
    bool skipped;

    must(pai_log_take(&log, text, nbytes / 2, true, &told, &skipped) == 0);
    must(pai_log_take(&log, text, nbytes, true, &told, &skipped) == 0 && !skipped);
    must(rg_buf_nbytes(&told) == nbytes && log.offset == nbytes);
    must(nbytes == 0 || memcmp(rg_buf_bytes(&told), text, nbytes) == 0);
    pai_log_take(&log, text + nbytes / 3, nbytes - nbytes / 3, true, &told, &skipped);
    pai_log_fini(&log);
    char *link = pai_log_link("http://host:1/a/b?c", text, nbytes);
    must(!link || strncmp(link, "http://", 7) == 0 || strncmp(link, "https://", 8) == 0);
    free(link);
    pai_log_shown(text, nbytes, &shown);
    must(rg_buf_nbytes(&shown) <= nbytes);
    rg_buf_clear(&shown);
    pai_log_clean("http://h/log-manager/n/api/v1/logs/a", text, nbytes, false, &shown);
    must(rg_buf_nbytes(&shown) <= nbytes);
    char *place = pai_read_place("http://host:1/a", text, nbytes);
    must(!place || strncmp(place, "http://", 7) == 0 || strncmp(place, "https://", 8) == 0);
    free(place);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    /* A copy of its own size, so that a byte behind it is seen. */
    char *text = malloc(nbytes ? nbytes : 1), buf[4096];

    must(text != NULL);
    memcpy(text, data, nbytes);
    read_answers(text, nbytes);
    read_refusals(text, nbytes);
    read_logs(text, nbytes);
    free(pai_token_user(text_of(data, nbytes, buf, sizeof(buf))));
    free(text);
    return 0;
}
