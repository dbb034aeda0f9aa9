/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call, as steps that are one request each:
 *
 *   FIND    which version is it, and where? (once for a server)
 *   INFO    a version that does not show by that
 *   LOGIN   a token for the password
 *   FREE    SUBMIT: the name must not be in use
 *   PLACE   LOG: where is it now? (newer servers of version 2 know)
 *   ASK     what the call is about
 *   CHECK   SUBMIT: the answer was lost: is the job there, and is it ours?
 *
 * What only reads, logs in or stops is tried again after a while. The job's file goes out a second
 * time only when CHECK has not found it for CHECKS times.
 */
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "platform/openpai/server/message.h"

#define TRIES_MAX 4      /* of a request that may be repeated */
#define PAUSE_MS 200     /* before the second; twice that before each more */
#define BUSY_MAX_S 5     /* what a server may ask us to wait */
#define CHECKS 3         /* a server of version 1 shows a job a little later than it takes it */
#define CHECK_PAUSE_MS 1000
#define ANSWER_MAX (64u << 20)

static void next(struct pai_call *call);
static void begin(void *arg);

/* --- the end ---------------------------------------------------------------------------------- */

static void tell_end(void *arg)
{
    struct pai_call *call = arg;

    call->ended = true;
    call->on_end(call->arg, call);
}

/* The call is over: it is told from the loop. */
static void end(struct pai_call *call)
{
    rg_timer_start(&call->timer, call->loop, 0, 0, tell_end, call);
}

static void refuse(struct pai_call *call, enum pai_refused why, const char *text)
{
    call->refusal = (struct pai_refusal){ .why = why };
    snprintf(call->refusal.text, sizeof(call->refusal.text), "%s", text);
    pai_blank_controls(call->refusal.text, "");
    end(call);
}

static void succeed(struct pai_call *call)
{
    call->refusal = (struct pai_refusal){ .why = PAI_FINE };
    end(call);
}

/* The same step, or another one, after a pause; false: there is no time left. */
static bool go_later(struct pai_call *call, enum pai_step step, uint64_t ms)
{
    if (rg_now_ns() + ms * RG_NS_PER_MS >= call->deadline_ns)
        return false;
    call->step = step;
    rg_timer_start(&call->timer, call->loop, ms, 0, begin, call);
    return true;
}

static void go_on(struct pai_call *call, enum pai_step step)
{
    call->tries = 0;
    if (!go_later(call, step, 0))
        refuse(call, PAI_LATE, "the time is over");
}

/* --- sending ---------------------------------------------------------------------------------- */

/* Whether the request of this step may be sent again without a look. */
static bool is_safe(const struct pai_call *call)
{
    return call->step != PAI_STEP_ASK || call->q.verb != PAI_SUBMIT;
}

/* What is left; a job that is sent leaves time to look whether it is there. */
static uint64_t time_for(const struct pai_call *call)
{
    uint64_t now_ns = rg_now_ns();
    uint64_t left_ns = call->deadline_ns > now_ns ? call->deadline_ns - now_ns : 0;
    uint64_t left_ms = left_ns / RG_NS_PER_MS;

    left_ms = is_safe(call) ? left_ms : left_ms / 2;
    return left_ms ? left_ms : 1;
}

static void begin(void *arg)
{
    struct pai_call *call = arg;
    rg_autofree char *bearer = NULL;
    struct pai_message message = { .method = "GET" };
    const char *headers[4] = { "Accept: application/json, text/*, */*" };
    int n = 1, r = pai_message_make(call, &message);

    if (r == 0 && message.authorized) {
        bearer = rg_strf("Bearer %s", call->server->token);
        r = bearer ? 0 : -ENOMEM;
    }
    if (message.type)
        headers[n++] = message.type;
    if (*message.range)
        headers[n++] = message.range;
    const struct rg_http_request request = {
        .method = message.method, .url = rg_buf_text(&call->url), .authorization = bearer,
        .headers = headers, .body = message.body, .nbytes = message.nbytes,
        .max_nbytes = ANSWER_MAX, .ms = time_for(call), .redirects = true,
        .fresh = strcmp(message.method, "GET") != 0, /* a job is not sent twice */
    };
    r = r < 0 ? r : rg_http_send(call->http, &request);
    pai_wipe(bearer);
    bearer = NULL;
    if (r < 0)
        refuse(call, PAI_REFUSED, strerror(-r));
}

/* --- what next? ------------------------------------------------------------------------------- */

/* Whether the server is asked where a log is. */
static bool wants_place(const struct pai_call *call)
{
    const struct pai_request *q = &call->q;

    return q->verb == PAI_LOG && q->places && *q->places && !q->log->file &&
           call->server->version != 1;
}

/* Version 1 lets everybody read, and logs are elsewhere. */
static bool needs_token(const struct pai_call *call)
{
    enum pai_verb verb = call->q.verb;

    if (verb == PAI_LOG)
        return wants_place(call);
    return call->server->version == 2 || verb == PAI_SUBMIT || verb == PAI_STOP ||
           verb == PAI_DELETE;
}

static void next(struct pai_call *call)
{
    const struct pai_server *server = call->server;
    bool asks_server = call->q.verb != PAI_LOG || wants_place(call);
    bool has_user = call->q.verb != PAI_LIST && call->q.verb != PAI_LOG;

    if (asks_server && !server->is_found)
        go_on(call, PAI_STEP_FIND);
    else if (call->q.verb == PAI_FIND)
        succeed(call);
    else if (!server->token && server->password && asks_server)
        go_on(call, PAI_STEP_LOGIN);
    else if (!server->token && needs_token(call))
        refuse(call, PAI_UNUSABLE, "there is no token and no password for OpenPAI");
    else if (has_user && !*pai_call_user(call))
        refuse(call, PAI_UNUSABLE, "nobody said whose job it is, and the token does not");
    else if (call->q.verb == PAI_SUBMIT && call->q.version != server->version)
        refuse(call, PAI_OTHER_VERSION, "");
    else if (call->q.verb == PAI_SUBMIT)
        go_on(call, call->lost.why == PAI_FINE ? PAI_STEP_FREE : PAI_STEP_CHECK);
    else
        go_on(call, wants_place(call) ? PAI_STEP_PLACE : PAI_STEP_ASK);
}

/* --- what only one step understands ----------------------------------------------------------- */

/* Read it as a refusal, which then is the call's, unless the call goes on. */
static void read_refusal(struct pai_call *call)
{
    const struct rg_http_reply *reply = rg_http_reply(call->http);
    size_t nbytes;
    const char *text = pai_call_body(call, &nbytes);

    pai_read_refusal(reply->status, reply->type, text, nbytes, &call->refusal);
}

/* One of version 2 does not know who asks; one of version 1 has no such job, or no such API. */
static void on_found(struct pai_call *call, long status)
{
    struct pai_server *server = call->server;

    read_refusal(call);
    server->is_found = *call->refusal.code;
    if (server->is_found && !server->version)
        server->version = status == 401 || status == 403                          ? 2
                          : strcmp(call->refusal.code, "NoApiError") == 0 ? 1 : 0;
    if (server->is_found && server->version) {
        next(call);
    } else if (server->is_found && status == 404) {
        go_on(call, PAI_STEP_INFO);
    } else if (call->refusal.why == PAI_AWAY || call->refusal.why == PAI_BUSY) {
        end(call);
    } else if (!server->has_path) { /* behind the web portal, then */
        rg_autofree char *url = rg_strf("%s/rest-server", server->url);
        server->has_path = true;
        if (!url) {
            refuse(call, PAI_REFUSED, strerror(ENOMEM));
            return;
        }
        free(server->url);
        server->url = url;
        url = NULL;
        go_on(call, PAI_STEP_FIND);
    } else {
        call->refusal.why = PAI_FOREIGN;
        end(call);
    }
}

/* On Kubernetes it is version 2, and nobody else knows this question. */
static void on_info(struct pai_call *call, long status)
{
    size_t nbytes;
    const char *text = pai_call_body(call, &nbytes);
    PAI_AUTO_JSON json_t *info = json_loadb(text, nbytes, 0, NULL);
    const char *launcher = json_string_value(json_object_get(info, "launcherType"));

    call->server->version = status == 200 && launcher && strcmp(launcher, "k8s") == 0 ? 2 : 1;
    next(call);
}

static void on_login(struct pai_call *call, long status)
{
    size_t nbytes;
    const char *text = pai_call_body(call, &nbytes);
    char *token = NULL, *user = NULL;
    int r = status < 300 ? pai_read_login(text, nbytes, &token, &user) : -EPROTO;

    if (r == 0)
        r = pai_server_logged_in(call->server, token, user);
    pai_wipe(token);
    free(user);
    if (r == 0) {
        next(call);
    } else if (r == -ENOMEM) {
        refuse(call, PAI_REFUSED, strerror(ENOMEM));
    } else {
        read_refusal(call);
        if (call->refusal.why == PAI_OTHER_VERSION || call->refusal.why == PAI_MISSING)
            call->refusal.why = PAI_FOREIGN;
        end(call);
    }
}

/* The password at hand gets another token; false: there is none, or it was tried. */
static bool logs_in_again(struct pai_call *call)
{
    struct pai_server *server = call->server;

    if (!server->password || call->relogged || !server->token)
        return false;
    call->relogged = true;
    pai_wipe(server->token);
    server->token = NULL;
    next(call);
    return true;
}

static void on_free(struct pai_call *call, long status)
{
    read_refusal(call);
    if (strcmp(call->refusal.code, "NoJobError") == 0) {
        go_on(call, PAI_STEP_ASK);
        return;
    }
    if (status < 300 && call->refusal.why == PAI_FOREIGN && !pai_is_json(call)) {
        end(call);
        return;
    }
    if (status < 300)
        call->refusal = (struct pai_refusal){ .why = PAI_EXISTS, .status = (int) status };
    end(call);
}

/* The job may be there: look, a little later. */
static void check(struct pai_call *call, uint64_t ms)
{
    call->tries = 0;
    if (!go_later(call, PAI_STEP_CHECK, ms))
        refuse(call, PAI_UNSURE, "");
}

static void on_checked(struct pai_call *call, long status)
{
    rg_autobuf struct rg_buf theirs = RG_BUF_INIT;

    if (status == 401 && logs_in_again(call))
        return;
    if (status < 300) {
        if (pai_call_config(call, &theirs) < 0) {
            refuse(call, PAI_UNSURE, "");
        } else if (pai_same_job(call->q.text, call->q.nbytes, rg_buf_text(&theirs),
                                rg_buf_nbytes(&theirs))) {
            call->answer.was_there = true;
            succeed(call);
        } else {
            refuse(call, PAI_EXISTS, "a job of this name is there, with another file");
        }
        return;
    }
    read_refusal(call);
    /* Any other 404 may be that of a proxy. */
    bool is_gone = strcmp(call->refusal.code, "NoJobError") == 0;
    if (status == 404 && ++call->nchecks < CHECKS) {
        check(call, CHECK_PAUSE_MS);
    } else if (is_gone && call->lost.why != PAI_REFUSED && call->nsent < 2) {
        call->nchecks = 0;
        go_on(call, PAI_STEP_ASK);
    } else if (is_gone && call->lost.why == PAI_REFUSED) {
        call->refusal = call->lost; /* the server said that it failed, and so it did */
        end(call);
    } else {
        refuse(call, PAI_UNSURE, "");
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Whether it is tried again: what is away or busy, and only where that does no harm. */
static bool tries_later(struct pai_call *call, const struct rg_http_reply *reply)
{
    bool passes = reply->result == RG_HTTP_AWAY || reply->result == RG_HTTP_LOST ||
                  (reply->result == RG_HTTP_DONE &&
                   (reply->status == 429 || (reply->status >= 502 && reply->status <= 504)));
    int64_t wait_s = reply->retry_after_s < BUSY_MAX_S ? reply->retry_after_s : BUSY_MAX_S;
    uint64_t ms = wait_s > 0 ? (uint64_t) wait_s * 1000 : (uint64_t) PAUSE_MS << call->tries;

    if (!passes || (!is_safe(call) && reply->result != RG_HTTP_AWAY) || call->tries >= TRIES_MAX)
        return false;
    call->tries++;
    return go_later(call, call->step, ms);
}

/* What it was that did not work: libcurl's words. */
static void on_failure(struct pai_call *call, const struct rg_http_reply *reply)
{
    static const enum pai_refused whys[] = {
        [RG_HTTP_AWAY] = PAI_AWAY,           [RG_HTTP_LOST] = PAI_AWAY,
        [RG_HTTP_LATE] = PAI_LATE,           [RG_HTTP_UNTRUSTED] = PAI_UNTRUSTED,
        [RG_HTTP_TOO_LARGE] = PAI_TOO_LARGE, [RG_HTTP_ASTRAY] = PAI_FOREIGN,
    };
    /* The beginning of an answer came: who answers is not away, but does not speak as it should. */
    bool half = reply->result == RG_HTTP_LOST && reply->status;
    bool is_log = call->step == PAI_STEP_ASK && call->q.verb == PAI_LOG;

    if (is_log && reply->result == RG_HTTP_TOO_LARGE && !call->q.log->too_long) {
        call->q.log->too_long = true; /* its end, then, or nothing */
        call->all = false;
        go_on(call, PAI_STEP_ASK);
        return;
    }
    refuse(call, half ? PAI_FOREIGN : whys[reply->result], reply->cause);
    call->refusal.status = (int) reply->status;
}

/* The answer to a job that was sent is lost, or does not say whether it was taken. */
static bool is_lost(const struct pai_call *call, const struct rg_http_reply *reply)
{
    if (is_safe(call))
        return false;
    if (reply->result == RG_HTTP_DONE)
        return reply->status >= 500 || (reply->status == 409 && call->nsent > 1) ||
               (reply->status < 300 && !pai_is_json(call) && !pai_is_page(call));
    return reply->result == RG_HTTP_LOST || reply->result == RG_HTTP_LATE;
}

/* Servers that do not know this question have the log where the task says. */
static void on_placed(struct pai_call *call, long status)
{
    size_t nbytes;
    const char *text = pai_call_body(call, &nbytes);
    struct pai_log *log = call->q.log;

    call->placed = true;
    if (status >= 300 && status != 404) {
        read_refusal(call);
        end(call);
        return;
    }
    log->file = status == 404 ? strdup(call->q.url)
                              : pai_read_place(call->server->url, text, nbytes);
    if (log->file)
        go_on(call, PAI_STEP_ASK);
    else
        refuse(call, PAI_MISSING, "OpenPAI names no log of this task");
}

/* A log may move: where it is holds for some minutes, and is asked once more. */
static bool looks_again(struct pai_call *call)
{
    struct pai_log *log = call->q.log;
    bool looks = call->q.verb == PAI_LOG && log->file && !call->placed && !call->npages;

    if (call->q.verb == PAI_LOG)
        free(rg_steal_ptr(&log->file));
    if (looks)
        next(call);
    return looks;
}

static void on_log(struct pai_call *call, long status)
{
    bool again = false;
    const char *text = "";
    enum pai_refused why = pai_call_take_log(call, status, &again, &text);

    if (why != PAI_FINE)
        refuse(call, why, text);
    else if (again)
        go_on(call, PAI_STEP_ASK);
    else
        succeed(call);
}

/* Take what was asked for. */
static void on_asked(struct pai_call *call, const struct rg_http_reply *reply)
{
    long status = reply->status;

    if (status == 401 && logs_in_again(call))
        return;
    if (call->q.verb == PAI_LOG && (status < 300 || status == 416)) {
        on_log(call, status);
        return;
    }
    if (status >= 300) {
        read_refusal(call);
        if (looks_again(call))
            return;
        if (call->refusal.why == PAI_MISSING && call->q.verb >= PAI_STOP &&
            call->q.verb <= PAI_DELETE && strcmp(call->refusal.code, "NoJobError") == 0)
            succeed(call);
        else
            end(call);
        return;
    }
    int r = pai_call_take(call);
    if (r == 0)
        succeed(call);
    else if (r == -ENOMEM)
        refuse(call, PAI_REFUSED, strerror(ENOMEM));
    else {
        read_refusal(call);
        call->refusal.why = PAI_FOREIGN;
        end(call);
    }
}

static void on_answered(struct pai_call *call, const struct rg_http_reply *reply)
{
    switch (call->step) {
    case PAI_STEP_FIND:
        on_found(call, reply->status);
        break;
    case PAI_STEP_INFO:
        on_info(call, reply->status);
        break;
    case PAI_STEP_LOGIN:
        on_login(call, reply->status);
        break;
    case PAI_STEP_FREE:
        if (reply->status != 401 || !logs_in_again(call))
            on_free(call, reply->status);
        break;
    case PAI_STEP_PLACE:
        if (reply->status != 401 || !logs_in_again(call))
            on_placed(call, reply->status);
        break;
    case PAI_STEP_ASK:
        on_asked(call, reply);
        break;
    case PAI_STEP_CHECK:
        on_checked(call, reply->status);
        break;
    }
}

/* A request has ended. */
static void on_end(void *arg)
{
    struct pai_call *call = arg;
    const struct rg_http_reply *reply = rg_http_reply(call->http);

    if (!is_safe(call) && reply->result != RG_HTTP_AWAY)
        call->nsent++;
    if (is_lost(call, reply)) {
        call->lost = (struct pai_refusal){ .why = PAI_UNSURE };
        if (reply->result == RG_HTTP_DONE && reply->status == 500) {
            read_refusal(call);
            call->lost = call->refusal;
            call->lost.why = PAI_REFUSED;
        }
        check(call, 0);
    } else if (tries_later(call, reply)) {
        return;
    } else if (reply->result == RG_HTTP_DONE) {
        on_answered(call, reply);
    } else if (call->step == PAI_STEP_CHECK) {
        refuse(call, PAI_UNSURE, reply->cause);
    } else {
        on_failure(call, reply);
    }
}

/* --- its life --------------------------------------------------------------------------------- */

/* The first step, from the loop. */
static void begin_call(void *arg)
{
    struct pai_call *call = arg;
    struct rg_error err = RG_ERROR_INIT;
    const struct rg_http_options options = { .ca_file = call->server->ca_file, .on_end = on_end,
                                             .arg = call };

    if (rg_http_create(call->loop, &options, &call->http, &err) < 0)
        refuse(call, PAI_UNUSABLE, err.text);
    else
        next(call);
}

int pai_call_start(struct pai_call **ret_call, struct pai_server *server, struct rg_loop *loop,
                   const struct pai_request *request,
                   void (*on_ended)(void *arg, struct pai_call *call), void *arg)
{
    struct pai_call *call = calloc(1, sizeof(*call));
    uint64_t ms = request->ms ? request->ms
                              : request->verb == PAI_SUBMIT ? PAI_SUBMIT_MS : PAI_CALL_MS;

    if (!call)
        return -ENOMEM;
    call->server = server;
    call->loop = loop;
    call->q = *request;
    call->on_end = on_ended;
    call->arg = arg;
    call->deadline_ns = rg_now_ns() + ms * RG_NS_PER_MS;
    rg_timer_start(&call->timer, loop, 0, 0, begin_call, call);
    *ret_call = call;
    return 0;
}

void pai_call_stop(struct pai_call *call)
{
    if (!call)
        return;
    rg_timer_stop(&call->timer);
    rg_http_destroy(call->http);
    rg_buf_fini(&call->url);
    rg_buf_wipe(&call->upload); /* a password may be in it */
    pai_answer_fini(&call->answer);
    free(call);
}

const struct pai_refusal *pai_call_refusal(const struct pai_call *call)
{
    return &call->refusal;
}

struct pai_answer *pai_call_answer(struct pai_call *call)
{
    return &call->answer;
}

/* --- and wait --------------------------------------------------------------------------------- */

static void on_asked_for(void *arg, struct pai_call *call)
{
    (void) call;
    rg_loop_stop(arg);
}

int pai_ask(struct pai_server *server, const struct pai_request *request,
            struct pai_answer *answer, struct pai_refusal *ret_refusal, struct rg_error *err)
{
    struct rg_loop *loop;
    struct pai_call *call;
    struct pai_refusal refusal;

    if (rg_loop_create(&loop) < 0)
        return rg_error_memory(err);
    if (pai_call_start(&call, server, loop, request, on_asked_for, loop) < 0) {
        rg_loop_destroy(loop);
        return rg_error_memory(err);
    }
    rg_loop_run(loop);
    refusal = call->refusal;
    if (answer && refusal.why == PAI_FINE) {
        *answer = call->answer;
        call->answer = (struct pai_answer){ .was_there = false };
    }
    pai_call_stop(call);
    rg_loop_destroy(loop);
    if (ret_refusal)
        *ret_refusal = refusal;
    return refusal.why == PAI_FINE ? 0 : pai_explain(server, &refusal, err);
}
