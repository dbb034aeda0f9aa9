/* SPDX-License-Identifier: Apache-2.0 */
/* A call, as message.c has it for call.c, which has the steps: what is sent, and what is taken of
 * the answers. Thread rule: as server.h. */
#ifndef RG_PLATFORM_OPENPAI_SERVER_MESSAGE_H
#define RG_PLATFORM_OPENPAI_SERVER_MESSAGE_H

#include "platform/openpai/server/server_internal.h"
#include "platform/common/http/http.h"

enum pai_step {
    PAI_STEP_FIND,
    PAI_STEP_INFO,
    PAI_STEP_LOGIN,
    PAI_STEP_FREE,
    PAI_STEP_PLACE,
    PAI_STEP_ASK,
    PAI_STEP_CHECK,
};

struct pai_call {
    struct pai_server *server;
    struct rg_loop *loop;
    struct rg_http *http;
    struct pai_request q;
    void (*on_end)(void *arg, struct pai_call *call);
    void *arg;
    enum pai_step step;
    int tries;                 /* of this step's request */
    int npages;                /* LOG: pages that led to others */
    bool placed;               /* LOG: where it is was asked */
    bool all, part;            /* LOG: all of it is asked for; a part of it was */
    int nsent, nchecks;        /* SUBMIT: how often the job went out, and was looked for since */
    bool relogged, ended;
    uint64_t deadline_ns;
    struct rg_timer timer;     /* the next step, or the end */
    struct rg_buf url, upload; /* of the request that goes on */
    struct pai_refusal lost;   /* SUBMIT: what was said in the place of an answer */
    struct pai_refusal refusal;
    struct pai_answer answer;
};

/* What a step sends. */
struct pai_message {
    const char *method, *type; /* type: a header's line, or NULL */
    char range[64];            /* a header's line, or "" */
    bool authorized;           /* with the token */
    const void *body;
    size_t nbytes;
};

/* Make the request of call->step: its address into call->url, and what is long into call->upload. 0
 * or -ENOMEM. */
int pai_message_make(struct pai_call *call, struct pai_message *message);
/* Whose job it is about; "": not known. */
const char *pai_call_user(const struct pai_call *call);

/* Take the answer of what was asked, into call->answer. 0, -EPROTO, -ENOMEM. */
int pai_call_take(struct pai_call *call);
/* A job's file, as the answer has it, appended. 0, -EPROTO, -ENOMEM. */
int pai_call_config(const struct pai_call *call, struct rg_buf *text);
/* The same of a log. PAI_FINE: it is taken, or, where *ret_again is set, led to another request;
 * otherwise what is wrong, with the words for it in *ret_text, which are static. */
enum pai_refused pai_call_take_log(struct pai_call *call, long status, bool *ret_again,
                                   const char **ret_text);
/* Whether the answer's body is JSON, or a page. */
bool pai_is_json(const struct pai_call *call);
bool pai_is_page(const struct pai_call *call);

/* The answer's body. */
const char *pai_call_body(const struct pai_call *call, size_t *ret_nbytes);

#endif
