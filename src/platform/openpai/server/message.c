/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of each version, and what is taken of their answers. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "platform/openpai/server/message.h"
#include "platform/common/http/url.h"

/* Nobody has such a job. */
#define NOBODYS "/api/v2/jobs/reigen~none"
#define PAGES_MAX 3 /* of a log, one behind the other */

const char *pai_call_user(const struct pai_call *call)
{
    return call->q.user ? call->q.user : call->server->user;
}

/* --- addresses -------------------------------------------------------------------------------- */

/* The path of the user's jobs in version 1, and that of one of them in either. */
static void put_jobs(struct pai_call *call)
{
    rg_buf_printf(&call->url, "/api/v1/user/");
    rg_http_put_escaped(&call->url, pai_call_user(call));
    rg_buf_printf(&call->url, "/jobs");
}

static void put_job(struct pai_call *call, const char *what)
{
    if (call->server->version == 1) {
        put_jobs(call);
        rg_buf_printf(&call->url, "/");
    } else {
        rg_buf_printf(&call->url, "/api/v2/jobs/");
        rg_http_put_escaped(&call->url, pai_call_user(call));
        rg_buf_printf(&call->url, "~");
    }
    rg_http_put_escaped(&call->url, call->q.name);
    rg_buf_printf(&call->url, "%s", what);
}

static void put_list(struct pai_call *call)
{
    const char *user = pai_call_user(call);

    rg_buf_printf(&call->url, "/api/v%d/jobs", call->server->version);
    if (!*user)
        return;
    rg_buf_printf(&call->url, "?username=");
    rg_http_put_escaped(&call->url, user);
}

/* --- what is sent ----------------------------------------------------------------------------- */

/* Append a text as JSON. */
static int put_text(const char *text, size_t nbytes, void *arg)
{
    rg_buf_put(arg, text, nbytes);
    return 0;
}

static int make_login(struct pai_call *call, struct pai_message *message)
{
    PAI_AUTO_JSON json_t *login = json_pack("{s:s,s:s}", "username", call->server->user,
                                            "password", call->server->password);

    rg_buf_printf(&call->url, "/api/v1/token");
    if (!login || json_dump_callback(login, put_text, &call->upload, JSON_COMPACT) < 0)
        return login ? -ENOMEM : -EILSEQ;
    message->method = "POST";
    message->type = "Content-Type: application/json";
    message->authorized = false;
    message->body = rg_buf_bytes(&call->upload);
    message->nbytes = rg_buf_nbytes(&call->upload);
    return 0;
}

static void make_submit(struct pai_call *call, struct pai_message *message)
{
    if (call->server->version == 1)
        put_jobs(call);
    else
        rg_buf_printf(&call->url, "/api/v2/jobs");
    message->method = "POST";
    message->type = call->server->version == 1 ? "Content-Type: application/json"
                                               : "Content-Type: text/yaml";
    message->body = call->q.text;
    message->nbytes = call->q.nbytes;
}

static void make_stop(struct pai_call *call, struct pai_message *message)
{
    static const char stop[] = "{\"value\":\"STOP\"}";

    put_job(call, "/executionType");
    message->method = "PUT";
    message->type = "Content-Type: application/json";
    message->body = stop;
    message->nbytes = sizeof(stop) - 1;
}

/* Logs may be on any node, which does not get to see the token. */
static int make_log(struct pai_call *call, struct pai_message *message)
{
    const char *url = call->q.log->file ? call->q.log->file : call->q.url;
    rg_autofree char *whole = pai_url_join(call->server->url, url, strlen(url));
    rg_autofree char *asked = whole ? pai_log_url(call->q.log, whole, call->all, &call->part)
                                    : NULL;

    if (!asked)
        return whole ? -ENOMEM : -EINVAL;
    rg_buf_clear(&call->url);
    rg_buf_printf(&call->url, "%s", asked);
    message->authorized = call->server->token && rg_http_same_origin(call->server->url, whole);
    snprintf(message->range, sizeof(message->range), "Range: bytes=%llu-%llu",
             (unsigned long long) call->q.log->offset,
             (unsigned long long) call->q.log->offset + PAI_LOG_MAX - 1);
    return 0;
}

static int make_ask(struct pai_call *call, struct pai_message *message)
{
    switch (call->q.verb) {
    case PAI_SUBMIT:
        make_submit(call, message);
        break;
    case PAI_CONFIG:
        put_job(call, "/config");
        break;
    case PAI_DELETE:
        if (call->server->version == 1) {
            put_job(call, "");
            message->method = "DELETE";
            break;
        }
        /* fall through */
    case PAI_STOP:
        make_stop(call, message);
        break;
    case PAI_LIST:
        put_list(call);
        break;
    case PAI_LOG:
        return make_log(call, message);
    case PAI_LOOK:
    case PAI_FIND:
        put_job(call, "");
        break;
    }
    return 0;
}

int pai_message_make(struct pai_call *call, struct pai_message *message)
{
    int r = 0;

    rg_buf_clear(&call->url);
    rg_buf_wipe(&call->upload);
    rg_buf_printf(&call->url, "%s", call->server->url);
    message->authorized = call->server->token;
    switch (call->step) {
    case PAI_STEP_FIND: /* who does not say who asks learns the version */
        rg_buf_printf(&call->url, NOBODYS);
        message->authorized = false;
        break;
    case PAI_STEP_INFO:
        rg_buf_printf(&call->url, "/api/v2/info");
        message->authorized = false;
        break;
    case PAI_STEP_LOGIN:
        r = make_login(call, message);
        break;
    case PAI_STEP_FREE:
        put_job(call, "");
        break;
    case PAI_STEP_PLACE:
        rg_buf_printf(&call->url, "%s", call->q.places);
        break;
    case PAI_STEP_ASK:
        r = make_ask(call, message);
        break;
    case PAI_STEP_CHECK:
        put_job(call, "/config");
        break;
    }
    r = r < 0 ? r : rg_buf_status(&call->url);
    return r < 0 ? r : rg_buf_status(&call->upload);
}

/* --- what is taken ---------------------------------------------------------------------------- */

const char *pai_call_body(const struct pai_call *call, size_t *ret_nbytes)
{
    const struct rg_buf *body = rg_http_body(call->http);

    *ret_nbytes = rg_buf_nbytes(body);
    return *ret_nbytes ? (const char *) rg_buf_bytes(body) : "";
}

bool pai_is_json(const struct pai_call *call)
{
    size_t nbytes;
    const char *text = pai_call_body(call, &nbytes);
    PAI_AUTO_JSON json_t *value = json_loadb(text, nbytes, 0, NULL);

    return value;
}

bool pai_is_page(const struct pai_call *call)
{
    return strcasestr(rg_http_reply(call->http)->type, "html");
}

/* A job's file: text, or, if the server packs it, that text as JSON. */
int pai_call_config(const struct pai_call *call, struct rg_buf *to)
{
    size_t nbytes;
    const char *text = pai_call_body(call, &nbytes);
    PAI_AUTO_JSON json_t *packed = json_loadb(text, nbytes, JSON_DECODE_ANY, NULL);

    if (!nbytes || pai_is_page(call))
        return -EPROTO;
    if (json_is_string(packed))
        rg_buf_put(to, json_string_value(packed), json_string_length(packed));
    else
        rg_buf_put(to, text, nbytes);
    return rg_buf_status(to);
}

int pai_call_take(struct pai_call *call)
{
    size_t nbytes;
    const char *text = pai_call_body(call, &nbytes);

    switch (call->q.verb) {
    case PAI_LOOK:
        return pai_read_job(text, nbytes, &call->answer.job);
    case PAI_LIST:
        return pai_read_jobs(text, nbytes, *pai_call_user(call) ? pai_call_user(call) : NULL,
                             call->q.name, &call->answer.jobs);
    case PAI_CONFIG:
        return pai_call_config(call, &call->answer.text);
    case PAI_SUBMIT:
    case PAI_STOP:
    case PAI_DELETE:
        return pai_is_json(call) || (!nbytes && call->q.verb != PAI_SUBMIT) ? 0 : -EPROTO;
    case PAI_FIND:
    case PAI_LOG:
        break;
    }
    return 0;
}

static enum pai_refused no_memory(const char **ret_text)
{
    *ret_text = strerror(ENOMEM);
    return PAI_REFUSED;
}

/* What the log has now. What does not go with what was told is looked for in all of it. */
static enum pai_refused take_text(struct pai_call *call, const char *text, size_t nbytes,
                                  bool whole, bool *ret_again, const char **ret_text)
{
    struct pai_log *log = call->q.log, before = *log;
    struct pai_answer *answer = &call->answer;
    const char *url = rg_buf_text(&call->url);
    bool has_more = call->part || strstr(url, "/log-manager/tail/");
    bool fits = call->part && nbytes >= log->ntail && memcmp(text, log->tail, log->ntail) == 0;
    size_t told = fits ? log->ntail : 0;

    if (pai_log_take(log, text + told, nbytes - told, whole && !fits, &answer->text,
                     &answer->skipped) < 0)
        return no_memory(ret_text);
    *ret_again = answer->skipped && has_more && !call->all && !log->too_long;
    if (*ret_again) {
        *log = before;
        rg_buf_clear(&answer->text);
        call->all = true;
    }
    return PAI_FINE;
}

/* A page that leads to the log, or that shows it. */
static enum pai_refused take_page(struct pai_call *call, const char *html, size_t nbytes,
                                  bool *ret_again, const char **ret_text)
{
    rg_autobuf struct rg_buf shown = RG_BUF_INIT;
    struct pai_log *log = call->q.log;
    char *link = call->npages < PAGES_MAX ? pai_log_link(rg_buf_text(&call->url), html, nbytes)
                                          : NULL;

    *ret_again = link && (!log->file || strcmp(link, log->file) != 0);
    if (*ret_again) {
        free(log->file);
        log->file = link;
        call->npages++;
        return PAI_FINE;
    }
    free(link);
    if (!pai_log_shown(html, nbytes, &shown)) {
        *ret_text = "a page in HTML without a log";
        return PAI_FOREIGN;
    }
    if (rg_buf_status(&shown) < 0)
        return no_memory(ret_text);
    return take_text(call, rg_buf_text(&shown), rg_buf_nbytes(&shown), true, ret_again, ret_text);
}

enum pai_refused pai_call_take_log(struct pai_call *call, long status, bool *ret_again,
                                   const char **ret_text)
{
    rg_autobuf struct rg_buf clean = RG_BUF_INIT;
    size_t nbytes;
    const char *text = pai_call_body(call, &nbytes);

    *ret_again = false;
    if (status == 416) /* nothing is there yet behind what was told */
        return PAI_FINE;
    if (pai_is_page(call))
        return take_page(call, text, nbytes, ret_again, ret_text);
    int r = pai_log_clean(rg_buf_text(&call->url), text, nbytes, call->q.once, &clean);
    if (r == -ENOENT) {
        free(rg_steal_ptr(&call->q.log->file));
        *ret_text = "No such file!";
        return PAI_MISSING;
    }
    if (r < 0)
        return no_memory(ret_text);
    return take_text(call, rg_buf_text(&clean), rg_buf_nbytes(&clean), status != 206, ret_again,
                     ret_text);
}
