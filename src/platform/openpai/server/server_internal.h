/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the client share; nothing outside of this folder includes it, but tests. Thread
 * rule: as server.h. */
#ifndef RG_PLATFORM_OPENPAI_SERVER_SERVER_INTERNAL_H
#define RG_PLATFORM_OPENPAI_SERVER_SERVER_INTERNAL_H

#include "base/str.h"
#include "platform/openpai/server/server.h"

#define PAI_SECRET_MAX 65536 /* bytes of a file that has one */

struct pai_server {
    char *url;      /* without a slash at the end */
    bool has_path;  /* the user has named a path, so no other one is tried */
    char *user;     /* "": not known */
    char *token, *password; /* NULL: there is none */
    char *ca_file;  /* NULL: libcurl's */
    int version;    /* 0: not known */
    bool is_found;  /* it has answered as OpenPAI does, where url leads */
};

/* Overwrite and free a text; NULL is fine. */
void pai_wipe(char *take_secret);
/* The token of a login, and its user, where the server names one. 0 or -ENOMEM. */
int pai_server_logged_in(struct pai_server *server, const char *token, const char *user);
/* Whose a token is, as it says itself (RFC 7519, the claim "username"): the caller's; NULL: it does
 * not say, or is no such token. */
char *pai_token_user(const char *token);

/* --- answers: each 0; -EPROTO: none that OpenPAI gives; -ENOMEM ------------------------------- */

static inline void pai_json_free(json_t **value)
{
    json_decref(*value);
}
#define PAI_AUTO_JSON rg_cleanup(pai_json_free)

/* Of a server's words, which go to a terminal: a blank for each control character but these. */
void pai_blank_controls(char *text, const char *but);
/* A job with its tasks, into ret_job, which is zeroed; it is to be finished after an error, too. */
int pai_read_job(const char *text, size_t nbytes, struct pai_job *ret_job);
/* All of the list, or those of a user and a name (NULL: any). Likewise. */
int pai_read_jobs(const char *text, size_t nbytes, const char *user, const char *name,
                  struct pai_jobs *ret_jobs);
/* The token of a login, and the user; both are the caller's. */
int pai_read_login(const char *text, size_t nbytes, char **ret_token, char **ret_user);
/* Where all is that a task wrote, of an answer that tells where its logs are; url is the server's.
 * The caller's; NULL: it does not say. */
char *pai_read_place(const char *url, const char *text, size_t nbytes);
/* An answer whose status is 300 or more, or that is no JSON. */
void pai_read_refusal(long status, const char *type, const char *text, size_t nbytes,
                      struct pai_refusal *ret_refusal);
/* Whether a server's file of a job means the same one as ours, but for the secrets, which a server
 * of version 2 hides. */
bool pai_same_job(const char *ours, size_t nours, const char *theirs, size_t ntheirs);
void pai_job_fini(struct pai_job *job);

/* --- logs ------------------------------------------------------------------------------------- */

/* What of a log's text is new goes into text, and log is moved on. The text is what follows
 * log->offset; with `whole` it is all that the server has, or the end of it. *ret_skipped: some was
 * lost in between. 0 or -ENOMEM. */
int pai_log_take(struct pai_log *log, const char *bytes, size_t nbytes, bool whole,
                 struct rg_buf *text, bool *ret_skipped);
/* What is asked for, of a log that stands at url, as an URL: of a page of Hadoop's the part from
 * the tail on that was told, where *ret_part is set then; of the manager of logs the file that has
 * all, from its beginning where nothing was told. all: the whole of it. The caller's; NULL: no
 * memory. */
char *pai_log_url(const struct pai_log *log, const char *url, bool all, bool *ret_part);
/* A log without the line ends that the manager of logs at url puts into it: one at the end, unless
 * `once` keeps it, or one after each 8 KiB. -ENOENT: it says that it has no such file; -ENOMEM. */
int pai_log_clean(const char *url, const char *bytes, size_t nbytes, bool once,
                  struct rg_buf *text);
/* The link of a page that leads to what the task wrote, as an URL, where url is the page's. The
 * caller's; NULL: the page leads to no log. */
char *pai_log_link(const char *url, const char *html, size_t nbytes);
/* What a page shows as it is (<pre>), without marks, into text; false: nothing. */
bool pai_log_shown(const char *html, size_t nbytes, struct rg_buf *text);
/* Where a link leads from a page, or ref itself where it is whole; the caller's, or NULL. */
char *pai_url_join(const char *url, const char *ref, size_t nbytes);

#endif
