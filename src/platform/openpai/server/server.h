/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said to OpenPAI's REST server, of API version 1 (v0.14, on YARN) or 2 (v1.x, on
 * Kubernetes): submit a job, look at it, stop it, list jobs, read logs. Which version it is, is
 * asked once, and who has a password logs in, once more when the token has expired.
 *
 * A call may take several requests. It goes on in a loop, and tells when it has ended; pai_ask does
 * the same in a loop of its own, and waits. What is refused comes back as fields.
 *
 * What is only read is tried again, for a while, where the server is away or busy. A job is never
 * sent twice blindly: the name must be free before; where the answer to it was lost, the server is
 * asked for the job by its name, and only where that is not there it is sent again, once.
 *
 * Ownership: a server and what a call answers with are their owner's, to be closed or stopped. What
 * a request names is borrowed until the call ends. Thread rule: one thread; a server belongs to it,
 * and several calls may go on at a time. Nothing but pai_ask blocks, and that for so long as told.
 */
#ifndef RG_PLATFORM_OPENPAI_SERVER_SERVER_H
#define RG_PLATFORM_OPENPAI_SERVER_SERVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"

#define PAI_CALL_MS 10000      /* a call takes that long at most, unless its request says more */
#define PAI_SUBMIT_MS 30000    /* SUBMIT, likewise: it may have to look what became of the job */
#define PAI_CODE_MAX 64
#define PAI_REFUSAL_MAX 2048
#define PAI_LOG_MAX (16u << 20) /* of a log at once: the next call has more, where the server gives
                                   parts of it; else what is very long is PAI_TOO_LARGE */

/* --- the server, and who asks ----------------------------------------------------------------- */

/* What is NULL, or 0, is taken from the environment: the variable stands behind it. All borrowed
 * for pai_server_open alone. */
struct pai_access {
    const char *url;           /* REIGEN_PAI_SERVER: "https://pai.example.org", "pai.example.org"
                                  (by https), "http://10.0.0.1:9186"; with /rest-server or without
                                  it */
    const char *user;          /* REIGEN_PAI_USER; with a token: whose it is, if not told */
    const char *token_file;    /* REIGEN_PAI_TOKEN has the token, REIGEN_PAI_TOKEN_FILE its file */
    const char *password_file; /* REIGEN_PAI_PASSWORD, REIGEN_PAI_PASSWORD_FILE: likewise */
    const char *ca_file;       /* REIGEN_PAI_CA, SSL_CERT_FILE; else what libcurl trusts */
    int version;               /* REIGEN_PAI_VERSION: 1 or 2; 0 without: asked */
};

struct pai_server;

/* Read who asks; nobody is asked yet. A file of a secret that others may read is refused (exit
 * code 77), and so is a URL with a user or a password in it (2). 0 or -errno with err. */
int pai_server_open(const struct pai_access *access, struct pai_server **ret_server,
                    struct rg_error *err);
/* Secrets are overwritten. All calls have ended, or are stopped. NULL is fine. */
void pai_server_close(struct pai_server *server);
/* "https://pai.example.org/rest-server": where requests go; borrowed. */
const char *pai_server_url(const struct pai_server *server);
/* 1 or 2; 0: not known before the first call. */
int pai_server_version(const struct pai_server *server);
/* Who asks; "": not known before the first call. */
const char *pai_server_user(const struct pai_server *server);

/* --- jobs ------------------------------------------------------------------------------------- */

enum pai_state {
    PAI_UNKNOWN, /* the server's own word, too, and any that we do not know */
    PAI_WAITING,
    PAI_RUNNING,
    PAI_STOPPING,
    PAI_SUCCEEDED, /* this and what follows is an end */
    PAI_STOPPED,
    PAI_FAILED,
};

/* "WAITING": as the server writes it. Borrowed. */
const char *pai_state_name(enum pai_state state);
static inline bool pai_state_is_end(enum pai_state state)
{
    return state >= PAI_SUCCEEDED;
}

/* All texts are the object's own, "" where the server does not say. */
struct pai_task {
    char *role;     /* as in the job's file */
    int index;
    enum pai_state state;
    bool has_exit;
    int exit_code;  /* OpenPAI's, see pai_exit_find; with has_exit */
    int retries;    /* how often it was begun again */
    char *ip;
    json_t *ports;  /* what the server said: see pai_task_port */
    char *container; /* its id: another one after a retry */
    char *log;      /* a URL for PAI_LOG */
    char *places;   /* a path of version 2 that tells where its logs are now, for PAI_LOG */
    char *said;     /* what the platform has to say of its end */
};

struct pai_job {
    char *user, *name;    /* name: without "user~" */
    enum pai_state state;
    bool has_exit;
    int exit_code;        /* OpenPAI's */
    int retries;
    char *cluster;        /* virtual cluster */
    char *said;           /* what the platform has to say of the end, for people */
    char *trigger_role;   /* the task that has ended the job; "": nobody said */
    int trigger_index;
    int64_t created_ms, completed_ms; /* since 1970; 0: not yet */
    struct pai_task *tasks; /* in the server's order; PAI_LIST: none */
    size_t ntasks;
};

struct pai_jobs {
    struct pai_job *v;
    size_t count;
};

/* The first port of a task by this label ("ssh", "http", "reigen"), or 0: there is none (yet). */
int pai_task_port(const struct pai_task *task, const char *label);

/* --- calls ------------------------------------------------------------------------------------ */

enum pai_verb {
    PAI_FIND,   /* which version it is, where that is not known: nobody logs in for that */
    PAI_SUBMIT, /* text: the job's file, of `version`, with the name inside and in `name`, too */
    PAI_LOOK,   /* a job and its tasks, into answer->job */
    PAI_CONFIG, /* the job's file as the server keeps it, into answer->text */
    PAI_STOP,   /* one that has ended, or is not there any more, is fine */
    PAI_DELETE, /* version 1 alone has that; of version 2 it is PAI_STOP */
    PAI_LIST,   /* of the user (NULL: who asks), into answer->jobs; with `name`: of that name */
    PAI_LOG,    /* what a task's log has from `from` on, into answer->text */
};

/* How far a log has been read. Zeroed at first; the call moves it on. */
struct pai_log {
    uint64_t offset;    /* bytes that were told */
    uint8_t tail[1024]; /* the last ones of them */
    size_t ntail;
    char *file;         /* where it is, as a page or the server has said; NULL: not known yet */
    bool too_long;      /* all of it is more than can be asked for at once */
};
void pai_log_fini(struct pai_log *log);

struct pai_request {
    enum pai_verb verb;
    const char *user;    /* whose job; NULL: who asks */
    const char *name;    /* the job's, without "user~" */
    const char *text;    /* SUBMIT: the file */
    size_t nbytes;
    int version;         /* SUBMIT: whose the file is. A server of another one is a refusal */
    const char *url;     /* LOG: task->log */
    const char *places;  /* LOG: task->places, which newer servers know; NULL: not to be asked */
    bool once;           /* LOG: nobody asks for more of it: a line that goes on may be ended */
    struct pai_log *log; /* LOG: moved on where the call succeeds */
    uint64_t ms;         /* for the whole call; 0: PAI_CALL_MS, SUBMIT: PAI_SUBMIT_MS */
};

/* Why it was not done. */
enum pai_refused {
    PAI_FINE,
    PAI_AWAY,      /* no answer: the server, or the way to it, is away (also 502, 503, 504) */
    PAI_LATE,      /* no whole answer in time */
    PAI_BUSY,      /* 429 */
    PAI_UNSURE,    /* SUBMIT: the answer was lost, and nobody can say whether the job is there */
    PAI_MISSING,   /* 404: no such job, config, virtual cluster ...: see code */
    PAI_DENIED,    /* 401, a wrong password or user: it does not know who asks */
    PAI_FORBIDDEN, /* 403 */
    PAI_EXISTS,    /* 409: another job has the name */
    PAI_INVALID,   /* 400: the job's file is not as it must be */
    PAI_UNTRUSTED, /* who answers does not prove to be the server */
    PAI_FOREIGN,   /* HTML, half an answer, no JSON, none that OpenPAI gives */
    PAI_OTHER_VERSION, /* it speaks the other version than the file's */
    PAI_TOO_LARGE, /* the answer */
    PAI_UNUSABLE,  /* nothing was asked: no libcurl, no token and no password */
    PAI_REFUSED,   /* all else, 500 for one */
};

struct pai_refusal {
    enum pai_refused why;
    int status;                 /* HTTP's, 0: none came */
    char code[PAI_CODE_MAX];    /* the server's "NoJobError"; "": it said none */
    char text[PAI_REFUSAL_MAX]; /* the server's own words, or libcurl's */
};

/* Only what belongs to the verb is filled. */
struct pai_answer {
    bool was_there;  /* SUBMIT: the answer was lost, and the job is there */
    struct pai_job job;
    struct pai_jobs jobs;
    struct rg_buf text;
    bool skipped;    /* LOG: some of it was lost in between: a server that tells the end alone */
};
/* What is zeroed is fine. */
void pai_answer_fini(struct pai_answer *answer);

struct pai_call;

/* Begin. on_end is called once, from the loop, never from inside of this; it may begin the next
 * call, and stop this one. Afterwards pai_call_refusal and pai_call_answer tell, until the call is
 * stopped. 0 and *ret_call, or -ENOMEM. */
int pai_call_start(struct pai_call **ret_call, struct pai_server *server, struct rg_loop *loop,
                   const struct pai_request *request,
                   void (*on_end)(void *arg, struct pai_call *call), void *arg);
/* End and free it; on_end is not called any more. NULL is fine. */
void pai_call_stop(struct pai_call *call);
/* Borrowed. The caller may take what the answer has, and leave it empty. */
const struct pai_refusal *pai_call_refusal(const struct pai_call *call);
struct pai_answer *pai_call_answer(struct pai_call *call);

/* The same, and wait. answer: zeroed; NULL: it does not matter. 0, or -errno with err as
 * pai_explain says; ret_refusal, which may be NULL, says why as fields. */
int pai_ask(struct pai_server *server, const struct pai_request *request,
            struct pai_answer *answer, struct pai_refusal *ret_refusal, struct rg_error *err);

/* --- what it means ---------------------------------------------------------------------------- */

/* Cause and remedy of a refusal, with an exit code of the table: 2 the job's file or a name, 69 the
 * server is away or is none, 77 who asks may not, 124 it took too long. Returns -errno. */
int pai_explain(const struct pai_server *server, const struct pai_refusal *refusal,
                struct rg_error *err);

enum pai_fault {
    PAI_FAULT_NONE,      /* it succeeded */
    PAI_FAULT_STOPPED,   /* somebody stopped it */
    PAI_FAULT_USER,      /* the job's own */
    PAI_FAULT_PLATFORM,
    PAI_FAULT_RESOURCES, /* what it asks for was not free in time */
    PAI_FAULT_UNKNOWN,
};

/* One of OpenPAI's exit codes. Constant texts. */
struct pai_exit {
    int version;        /* whose: 1 (YARN) or 2 (Kubernetes) */
    int code;
    const char *phrase; /* OpenPAI's name of it */
    enum pai_fault fault;
    bool retry;         /* the same may run another time */
    int exit_code;      /* ours; -1: the code itself, a program's own */
    const char *words;  /* what has happened, for people: no full stop */
};

/* The table, version 1's first; *ret_count entries. */
const struct pai_exit *pai_exit_table(size_t *ret_count);
/* The entry for a code of a version; NULL: OpenPAI gives it no name, as to a program's own 1 to
 * 128. */
const struct pai_exit *pai_exit_find(int version, int code);
/* What our command ends with for such a code: 0 to 255. */
int pai_exit_code(int version, int code);
/* What it ends with for a job that has ended, as the server of that version says. */
int pai_job_exit(int version, const struct pai_job *job);

#endif
